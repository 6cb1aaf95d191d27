"""The rules for what counts as found, and the statistics of shares."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.questions import Collection, Evidence, Question

WANTED: Final = 80
"""The number of first characters of a text that must be shown."""
PIECE: Final = 20
_LABEL: Final = re.compile(r"^【[^】]*】")


def shown(evidence: Evidence, results: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether a result of the evidence's file shows the beginning of its text or, without one, a line of it."""
    return any(
        _shows_lines(hit, evidence)
        if evidence.text is None
        else wanted(evidence.text) in flat(hit["snippet"])
        for hit in results
        if hit["path"] == evidence.path
    )


def wanted(text: str) -> str:
    """Returns what must be shown of a text: its first characters after its label, with white space collapsed."""
    return flat(_LABEL.sub("", text))[:WANTED].strip()


def shown_somewhere(evidence: Evidence, passages: Sequence[str]) -> bool:
    """Returns the same for passages of unknown files; of evidence without a text any line of its passage counts."""
    texts = [evidence.text] if evidence.text else evidence.passage.split("\n")
    lines = [line for text in texts if (line := wanted(text))]
    return any(line in flat(passage) for line in lines for passage in passages)


def cut(results: Sequence[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """Returns the results in their order until `limit` characters are full; the last one may lose its end."""
    kept: list[Mapping[str, Any]] = []
    for hit in results:
        if limit <= 0:
            break
        whole = len(hit["snippet"]) <= limit
        kept.append(hit if whole else {**hit, "snippet": hit["snippet"][:limit], "cut": True})
        limit -= len(hit["snippet"])
    return kept


def _shows_lines(hit: Mapping[str, Any], evidence: Evidence) -> bool:
    """Returns whether a result shows one of the lines; one that was cut has to show a piece of their text."""
    if not _overlaps(hit, evidence) or "cut" not in hit:
        return _overlaps(hit, evidence)
    passage, snippet = flat(evidence.passage), flat(hit["snippet"])
    starts = range(0, max(1, len(passage) - PIECE + 1), PIECE)
    return any(passage[start : start + PIECE] in snippet for start in starts)


class Score(NamedTuple):
    """The score of one answer. `any_text` and `all_text`: evidence that the agent really gets to see."""

    any_text: bool
    all_text: bool
    any_lines: bool
    reciprocal_rank: float
    characters: int
    results: int


def score(question: Question, results: Sequence[Mapping[str, Any]]) -> Score:
    found = [shown(one, results) for one in question.evidence]
    first = next(
        (
            rank
            for rank, hit in enumerate(results, 1)
            if any(_overlaps(hit, one) for one in question.evidence)
        ),
        None,
    )
    return Score(
        any_text=any(found),
        all_text=all(found),
        any_lines=first is not None,
        reciprocal_rank=1 / first if first else 0.0,
        characters=sum(len(hit["snippet"]) for hit in results),
        results=len(results),
    )


def wilson(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Returns Wilson's score interval of a share (E. B. Wilson, 1927), 95 % by default."""
    if not trials:
        return 0.0, 1.0
    share = successes / trials
    centre = share + z * z / (2 * trials)
    margin = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return (centre - margin) / scale, (centre + margin) / scale


def separation(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Returns the share of pairs in which the first is higher, with ties as half: the area under the ROC curve."""
    pairs = [(one > other) + (one == other) / 2 for one in higher for other in lower]
    return math.fsum(pairs) / len(pairs)


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _overlaps(hit: Mapping[str, Any], evidence: Evidence) -> bool:
    """Returns whether the result shows one of the lines: those between the stretches of a snippet are not shown."""
    return hit["path"] == evidence.path and any(
        lines["startLine"] <= evidence.last_line and lines["endLine"] >= evidence.first_line
        for lines in hit.get("stretches") or [hit]
    )


def flat(text: str) -> str:
    return " ".join(text.split())


# ---- RealMem as its paper counts: the share of the gold sessions among the sessions of the first results.
# A session is a section below a heading of its day. In the paper a result is a session; ours may show lines of two.

PAPER_RESULTS: Final = (10, 20)
_PAPER_STEP: Final = 4


def every_fourth(collections: Sequence[Collection]) -> list[Collection]:
    return [one._replace(questions=one.questions[::_PAPER_STEP]) for one in collections]


def gold_sessions_found(
    workspace: Path, question: Question, results: Sequence[Mapping[str, Any]]
) -> float:
    gold = {session_of(workspace / one.path, one.first_line) for one in question.evidence}
    found = {
        session_of(workspace / hit["path"], line)
        for hit in results
        for lines in hit.get("stretches") or [hit]
        for line in range(lines["startLine"], lines["endLine"] + 1)
    }
    return len(gold & found) / len(gold)


def session_of(path: Path, line: int) -> tuple[Path, int]:
    """Returns the note, and the number of section headings above the line."""
    return path, bisect_right(_headings(path), line)


@cache
def _headings(path: Path) -> list[int]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [number for number, line in enumerate(lines, 1) if line.startswith("## ")]
