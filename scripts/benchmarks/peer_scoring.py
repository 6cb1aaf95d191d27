"""The scores of the pages of any system, and the leaderboard of them: kept as JSON, shown as a table and a plot."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec

from benchmarks.plot import bars
from benchmarks.publishing import between_marks, markdown
from benchmarks.questions import Collection, Question
from benchmarks.scoring import percentile, shown_somewhere

BUDGET = 6 * 700
"""The characters that every system may show where pages of equal size are compared."""


class Shown(NamedTuple):
    any: bool
    all: bool
    reciprocal_rank: float
    """1 over the rank of the first passage that shows some of the evidence; 0 without any."""
    characters: int


class Asked(NamedTuple):
    """One question: the system's own page, and the best passages within the budget."""

    own: Shown
    budget: Shown
    latency_ms: float


def shown(question: Question, passages: Sequence[str]) -> Shown:
    """Scores passages: evidence is shown if the beginning of its text is in one of them, whatever the file."""
    found = [shown_somewhere(one, passages) for one in question.evidence]
    ranks = (
        rank
        for rank, passage in enumerate(passages, 1)
        if any(shown_somewhere(one, [passage]) for one in question.evidence)
    )
    first = next(ranks, None)
    return Shown(any(found), all(found), 1 / first if first else 0.0, sum(map(len, passages)))


def cut(passages: Sequence[str], budget: int = BUDGET) -> list[str]:
    """Returns the passages in their order until the budget is spent; the last one may lose its end."""
    kept: list[str] = []
    for passage in passages:
        if budget <= 0:
            break
        kept.append(passage[:budget])
        budget -= len(passage)
    return kept


def sampled(
    collections: Sequence[Collection], count: int | None, workspaces: int | None = None
) -> list[Collection]:
    """Returns `count` questions of all workspaces or of the first ones, evenly spread and the same in each run."""
    collections = collections[:workspaces]
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
    """The figures of one system, over all questions and workspaces. Shares are from 0 to 1."""

    own_any: float
    own_all: float
    own_characters: float
    """The characters of its own page on average."""
    budget_any: float
    budget_all: float
    mrr: float
    """The mean reciprocal rank on its own page."""
    p50_ms: float
    index_s: float
    """The time for all workspaces together, including the start of the process that indexes."""
    installed_mb: float
    resident_mb: float
    """The memory of all its processes after the last question, the most of any workspace. 0: it has no process."""
    load: float
    """The load of the machine over its last minute, which shows how reliable the times are."""
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


class Row(msgspec.Struct, frozen=True):
    name: str
    figures: Figures | None
    """None: it was not measured, and the note says why."""
    note: str


class Board(msgspec.Struct):
    """The rows of one family."""

    sample: str
    """A digest of the questions: rows of different questions are not put into one table."""
    questions: int
    cores: int
    rows: dict[str, Row]
    """The rows by the name of the option that measures each."""

    @classmethod
    def of(cls, collections: Sequence[Collection]) -> Self:
        asked = [f"{one.name}\t{each.query}" for one in collections for each in one.questions]
        digest = hashlib.sha256("\n".join(asked).encode()).hexdigest()
        return cls(digest[:16], len(asked), os.cpu_count() or 1, {})


class Peer(NamedTuple):
    """One system over all families that it was measured on."""

    name: str
    note: str
    by_family: dict[str, Figures]

    def mean(self, field: str) -> float:
        values = [float(getattr(one, field)) for one in self.by_family.values()]
        return sum(values) / len(values)


TAKES: Final = (
    "system",
    "own page any / all",
    "characters",
    "p50",
    "index",
    "installed",
    "resident",
)


class Leaderboard(msgspec.Struct):
    families: dict[str, Board]

    @classmethod
    def read(cls, path: Path) -> Self:
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")

    def peers(self) -> list[Peer]:
        """Returns the peers, first those that most often show all evidence within the same characters.

        That is the mean over the families; peers that were not measured on all of them come last.
        """
        names = dict.fromkeys(name for board in self.families.values() for name in board.rows)
        found = []
        for name in names:
            rows = {
                family: board.rows[name]
                for family, board in self.families.items()
                if name in board.rows
            }
            first = next(iter(rows.values()))
            # The note of a peer that was not measured says why.
            notes = dict.fromkeys(row.note for row in rows.values() if row.note)
            figures = {family: row.figures for family, row in rows.items() if row.figures}
            found.append(Peer(first.name, "; ".join(notes), figures))
        return sorted(found, key=lambda one: (not self._is_whole(one), -self._rank(one)))

    def _is_whole(self, peer: Peer) -> bool:
        return len(peer.by_family) == len(self.families)

    def _rank(self, peer: Peer) -> float:
        return peer.mean("budget_all") if peer.by_family else 0.0

    def table(self) -> str:
        """Returns a table of any / all within 4,200 characters; the best of each column is bold."""
        best = {
            family: max(
                (row.figures.budget_any for row in board.rows.values() if row.figures), default=0
            )
            for family, board in self.families.items()
        }
        whole = [one for one in self.peers() if self._is_whole(one)]
        best_mean = max((one.mean("budget_any") for one in whole), default=0)
        heads = [f"{name} ({board.questions})" for name, board in self.families.items()]
        rows = []
        for one in self.peers():
            mean = "-"
            if self._is_whole(one):
                mean = _cell(one.mean("budget_any"), one.mean("budget_all"), best_mean)
            rows.append([one.name, mean, *(
                _cell(figures.budget_any, figures.budget_all, best[family])
                if (figures := one.by_family.get(family))
                else "-"
                for family in self.families
            )])  # fmt: skip
        return markdown(["system", "mean of families", *heads], rows)

    def what_it_takes(self) -> str:
        """Returns a table of means over the families, and of the time that indexing all of them took."""
        rows = [
            [
                one.name,
                f"{one.mean('own_any'):.3f} / {one.mean('own_all'):.3f}",
                f"{one.mean('own_characters'):,.0f}",
                f"{one.mean('p50_ms'):.1f} ms",
                f"{sum(each.index_s for each in one.by_family.values()):.1f} s",
                _megabytes(max(each.installed_mb for each in one.by_family.values())),
                _megabytes(max(each.resident_mb for each in one.by_family.values())),
            ]
            for one in self.peers()
            if one.by_family
        ]
        return markdown(list(TAKES), rows)

    def circumstances(self) -> str:
        asked = sum(board.questions for board in self.families.values())
        figures = [each for one in self.peers() for each in one.by_family.values()]
        if not figures:
            return f"{asked} questions."
        loads, days = [one.load for one in figures], sorted({one.day for one in figures})
        cores = max(board.cores for board in self.families.values())
        return (
            f"{asked} questions, {' to '.join(sorted({days[0], days[-1]}))}. Of the times only the order "
            "of magnitude counts where the machine was busy: "
            f"its load was {min(loads):.0f} to {max(loads):.0f} on {cores} cores."
        )

    def notes(self) -> str:
        return "\n".join(f"* {one.name}: {one.note}" for one in self.peers() if one.note)

    def plot(self, path: Path) -> None:
        """Draws the shares of questions whose evidence is shown within the same characters."""
        shares = {
            one.name: (one.mean("budget_any"), one.mean("budget_all"))
            for one in self.peers()
            if self._is_whole(one)
        }
        title = "Evidence shown within 4,200 characters, mean of the families"
        bars(path, shares, title=title, names=("any of it", "all of it"))


def _cell(any_share: float, all_share: float, best: float) -> str:
    cell = f"{any_share:.3f} / {all_share:.3f}"
    return f"**{cell}**" if any_share == best else cell


def _megabytes(size: float) -> str:
    return f"{size:,.0f} MB" if size else "-"


_LEADERBOARD: Final = ("leaderboard", "scripts/bench peers --publish")


def publish(board: Leaderboard, root: Path) -> None:
    """Writes the table into the README, costs and notes into the documentation, and the plot beside them."""
    readme, benchmarks = root / "README.md", root / "docs/benchmarks.md"
    for path, text in (
        (readme, f"{board.table()}\n\n{board.circumstances()}"),
        (benchmarks, f"{board.what_it_takes()}\n\n{board.notes()}"),
    ):
        path.write_text(between_marks(path.read_text("utf-8"), *_LEADERBOARD, text), "utf-8")
    board.plot(root / "docs/peers.svg")
