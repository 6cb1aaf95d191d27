"""What counts as found, and how sure a share is. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.questions import Evidence, Question


class Score(NamedTuple):
    """One question's answer. `any_text` and `all_text`: evidence that the agent really gets to see."""

    any_text: bool
    all_text: bool
    any_lines: bool
    reciprocal_rank: float
    characters: int
    results: int


def score(question: Question, results: Sequence[dict[str, Any]]) -> Score:
    """Evidence is found by its text inside a snippet, or, where it has none, by overlapping lines."""
    shown = [(hit, _flat(hit["snippet"])) for hit in results]
    by_text = [
        any(_shows(hit, snippet, one) for hit, snippet in shown) for one in question.evidence
    ]
    first = next(
        (
            rank
            for rank, (hit, _) in enumerate(shown, 1)
            if any(_overlaps(hit, one) for one in question.evidence)
        ),
        None,
    )
    return Score(
        any_text=any(by_text),
        all_text=all(by_text),
        any_lines=first is not None,
        reciprocal_rank=1 / first if first else 0.0,
        characters=sum(len(hit["snippet"]) for hit in results),
        results=len(results),
    )


def wilson(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval of a share (E. B. Wilson, 1927), 95 % by default."""
    if not trials:
        return 0.0, 1.0
    share = successes / trials
    centre = share + z * z / (2 * trials)
    margin = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return (centre - margin) / scale, (centre + margin) / scale


def separation(higher: Sequence[float], lower: Sequence[float]) -> float:
    """The share of pairs in which the former is higher, equal ones half: the area under the ROC curve."""
    pairs = [(one > other) + (one == other) / 2 for one in higher for other in lower]
    return math.fsum(pairs) / len(pairs)


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _shows(hit: dict[str, Any], snippet: str, evidence: Evidence) -> bool:
    if evidence.text is None:
        return _overlaps(hit, evidence)
    return _flat(evidence.text) in snippet


def _overlaps(hit: dict[str, Any], evidence: Evidence) -> bool:
    """Whether it shows one of the lines: what lies between the stretches of a snippet is not shown."""
    return hit["path"] == evidence.path and any(
        lines["startLine"] <= evidence.last_line and lines["endLine"] >= evidence.first_line
        for lines in hit.get("stretches") or [hit]
    )


def _flat(text: str) -> str:
    return " ".join(text.split())
