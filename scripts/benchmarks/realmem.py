"""RealMem as its paper counts: the share of the gold sessions among the sessions of the first results.

A session is a section below a heading of its day. The paper has a result a session; one of ours may show lines of two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.questions import Collection, Question

PAPER_RESULTS: Final = (10, 20)
_STEP: Final = 4


def every_fourth(collections: Sequence[Collection]) -> list[Collection]:
    return [one._replace(questions=one.questions[::_STEP]) for one in collections]


def gold_sessions_found(
    workspace: Path, question: Question, results: Sequence[Mapping[str, Any]]
) -> float:
    gold = {_session(workspace / one.path, one.first_line) for one in question.evidence}
    found = {
        _session(workspace / hit["path"], line)
        for hit in results
        for lines in hit.get("stretches") or [hit]
        for line in range(lines["startLine"], lines["endLine"] + 1)
    }
    return len(gold & found) / len(gold)


def _session(path: Path, line: int) -> tuple[Path, int]:
    """The note, and how many headings of sections stand above the line."""
    return path, bisect_right(_headings(path), line)


@cache
def _headings(path: Path) -> list[int]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [number for number, line in enumerate(lines, 1) if line.startswith("## ")]
