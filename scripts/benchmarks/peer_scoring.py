"""What a page of passages shows, of any system, and the leaderboard made of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.questions import Collection, Question
from benchmarks.scoring import percentile

BUDGET = 6 * 700
"""Characters that every system may show where their pages are to be equal."""


class Shown(NamedTuple):
    any: bool
    all: bool
    reciprocal_rank: float
    """1 over the rank of the first passage that contains a line of the evidence; 0 without any."""
    characters: int


class Asked(NamedTuple):
    """One question: the system's own page, and the best passages within the budget."""

    own: Shown
    budget: Shown
    latency_ms: float


class Measured(NamedTuple):
    """One system, over all workspaces."""

    name: str
    asked: list[Asked]
    index_s: float
    """For all workspaces together, including the start of whatever indexes."""
    installed_mb: float
    resident_mb: float
    """After the last question, of all its processes; the largest of the workspaces."""
    note: str


def shown(question: Question, passages: Sequence[str]) -> Shown:
    """Evidence is shown where its whole line stands in one passage, whatever the white space."""
    pages = [_flat(passage) for passage in passages]
    wanted = [_flat(one.text or "") for one in question.evidence]
    found = [any(text in page for page in pages) for text in wanted]
    ranks = (rank for rank, page in enumerate(pages, 1) if any(text in page for text in wanted))
    first = next(ranks, None)
    return Shown(any(found), all(found), 1 / first if first else 0.0, sum(map(len, passages)))


def cut(passages: Sequence[str], budget: int = BUDGET) -> list[str]:
    """The passages in their order until the budget is spent; the last one may lose its end."""
    kept: list[str] = []
    for passage in passages:
        if budget <= 0:
            break
        kept.append(passage[:budget])
        budget -= len(passage)
    return kept


def sampled(collections: Sequence[Collection], count: int | None) -> list[Collection]:
    """`count` questions of all, evenly spread, the same in each run."""
    total = sum(len(one.questions) for one in collections)
    if count is None or count >= total:
        return list(collections)
    chosen = {index * total // count for index in range(count)}
    sample, before = [], 0
    for one in collections:
        kept = tuple(
            question for index, question in enumerate(one.questions, before) if index in chosen
        )
        before += len(one.questions)
        if kept:
            sample.append(one._replace(questions=kept))
    return sample


HEADINGS = (
    "system", "own page any / all", "characters", "4,200 characters any / all",
    "MRR", "p50", "index", "installed", "resident",
)  # fmt: skip


def row(measured: Measured) -> list[str]:
    """The cells under `HEADINGS`. Without any answer only the name and dashes."""
    asked = measured.asked
    if not asked:
        return [measured.name, *["-"] * (len(HEADINGS) - 1)]
    n = len(asked)
    return [
        measured.name,
        _shares([one.own for one in asked]),
        f"{sum(one.own.characters for one in asked) / n:,.0f}",
        _shares([one.budget for one in asked]),
        f"{sum(one.own.reciprocal_rank for one in asked) / n:.3f}",
        f"{percentile([one.latency_ms for one in asked], 0.5):.1f} ms",
        f"{measured.index_s:.1f} s",
        f"{measured.installed_mb:,.0f} MB",
        f"{measured.resident_mb:,.0f} MB",
    ]


def markdown(rows: Sequence[Measured]) -> str:
    """The table, then the notes."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    lines += ["| " + " | ".join(row(one)) + " |" for one in rows]
    notes = [f"* {one.name}: {one.note}" for one in rows if one.note]
    return "\n".join([*lines, "", *notes])


def _shares(pages: Sequence[Shown]) -> str:
    n = len(pages)
    return f"{sum(one.any for one in pages) / n:.3f} / {sum(one.all for one in pages) / n:.3f}"


def _flat(text: str) -> str:
    return " ".join(text.split())
