"""What a page of passages shows, of any system, and the leaderboard made of it: kept as JSON, shown as a table and a plot."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from benchmarks.plot import bars
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


class Figures(msgspec.Struct, frozen=True):
    """Of one system, over all questions and workspaces. Shares are of 1."""

    own_any: float
    own_all: float
    own_characters: float
    """On average."""
    budget_any: float
    budget_all: float
    mrr: float
    """Of its own page."""
    p50_ms: float
    index_s: float
    """For all workspaces together, including the start of whatever indexes."""
    installed_mb: float
    resident_mb: float
    """After the last question, of all its processes; the largest of the workspaces. 0: it has none of its own."""
    load: float
    """Of the machine, over its last minute: says what times are worth."""
    day: str


def summed(
    asked: Sequence[Asked], *, index_s: float, installed_mb: float, resident_mb: float, load: float
) -> Figures:
    n = len(asked)
    return Figures(
        own_any=sum(one.own.any for one in asked) / n,
        own_all=sum(one.own.all for one in asked) / n,
        own_characters=sum(one.own.characters for one in asked) / n,
        budget_any=sum(one.budget.any for one in asked) / n,
        budget_all=sum(one.budget.all for one in asked) / n,
        mrr=sum(one.own.reciprocal_rank for one in asked) / n,
        p50_ms=percentile([one.latency_ms for one in asked], 0.5),
        index_s=index_s,
        installed_mb=installed_mb,
        resident_mb=resident_mb,
        load=load,
        day=time.strftime("%Y-%m-%d", time.gmtime()),
    )


HEADINGS = (
    "system", "own page any / all", "characters", "4,200 characters any / all",
    "MRR", "p50", "index", "installed", "resident",
)  # fmt: skip


class Row(msgspec.Struct, frozen=True):
    name: str
    figures: Figures | None
    """None: it was not measured, and the note says why."""
    note: str

    def cells(self) -> list[str]:
        """Under `HEADINGS`. A measure that does not apply is a dash."""
        if not (one := self.figures):
            return [self.name, *["-"] * (len(HEADINGS) - 1)]
        return [
            self.name,
            f"{one.own_any:.3f} / {one.own_all:.3f}",
            f"{one.own_characters:,.0f}",
            f"{one.budget_any:.3f} / {one.budget_all:.3f}",
            f"{one.mrr:.3f}",
            f"{one.p50_ms:.1f} ms",
            f"{one.index_s:.1f} s",
            f"{one.installed_mb:,.0f} MB" if one.installed_mb else "-",
            f"{one.resident_mb:,.0f} MB" if one.resident_mb else "-",
        ]


class Leaderboard(msgspec.Struct):
    sample: str
    """A digest of the questions: rows of other questions do not stand beside each other."""
    questions: int
    cores: int
    rows: dict[str, Row]
    """By the name of the option that measures it."""

    @classmethod
    def of(cls, collections: Sequence[Collection]) -> Self:
        asked = [f"{one.name}\t{each.query}" for one in collections for each in one.questions]
        digest = hashlib.sha256("\n".join(asked).encode()).hexdigest()
        return cls(digest[:16], len(asked), os.cpu_count() or 1, {})

    @classmethod
    def read(cls, path: Path) -> Self:
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")

    def ordered(self) -> list[Row]:
        """By all of the evidence within the same characters; what was not measured comes last."""
        return sorted(
            self.rows.values(), key=lambda row: -row.figures.budget_all if row.figures else 1
        )

    def table(self) -> str:
        lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
        return "\n".join(lines + ["| " + " | ".join(one.cells()) + " |" for one in self.ordered()])

    def circumstances(self) -> str:
        figures = [one.figures for one in self.rows.values() if one.figures]
        if not figures:
            return f"{self.questions} questions."
        loads, days = [one.load for one in figures], sorted({one.day for one in figures})
        return (
            f"{self.questions} questions, {' to '.join(sorted({days[0], days[-1]}))}. Of the times only the order of magnitude counts where the machine "
            f"was busy: its load was {min(loads):.0f} to {max(loads):.0f} on {self.cores} cores."
        )

    def notes(self) -> str:
        return "\n".join(f"* {one.name}: {one.note}" for one in self.ordered() if one.note)

    def plot(self, path: Path) -> None:
        """Questions of which evidence is shown, within the same characters."""
        shares = {
            one.name: (one.figures.budget_any, one.figures.budget_all)
            for one in self.ordered()
            if one.figures
        }
        title = "Evidence shown within 4,200 characters"
        bars(path, shares, title=title, names=("any of it", "all of it"))


def publish(board: Leaderboard, root: Path) -> None:
    """The table into the README, the notes into the documentation, the plot beside it."""
    readme, benchmarks = root / "README.md", root / "docs/benchmarks.md"
    for path, text in (
        (readme, f"{board.table()}\n\n{board.circumstances()}"),
        (benchmarks, board.notes()),
    ):
        path.write_text(_between_marks(path.read_text("utf-8"), text), "utf-8")
    board.plot(root / "docs/peers.svg")


_BEGIN, _END = "<!-- leaderboard: scripts/bench_peers --publish -->", "<!-- /leaderboard -->"


def _between_marks(page: str, text: str) -> str:
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page has no place between {_BEGIN} and {_END}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _flat(text: str) -> str:
    return " ".join(text.split())
