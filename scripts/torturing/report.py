"""The matrix as people read it: a table for the terminal and the part of a document between two marks.

Owns what is kept of runs (a file of JSON lines, so that rows may be run at different times) and how
often a cell was run, how often it failed, and its slowest recovery.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from torturing.activities import ACTIVITIES
from torturing.faults import FAULTS
from torturing.matrix import Cell, Plan, cells
from torturing.playing import Outcome

BEGIN: Final = "<!-- matrix: written by scripts/torture --report -->"
END: Final = "<!-- end of matrix -->"


class Tally(NamedTuple):
    runs: int
    failed: int
    slowest_s: float | None
    kills: int

    def __str__(self) -> str:
        slowest = "" if self.slowest_s is None else f" · {self.slowest_s:.1f} s"
        return (
            f"{f'**{self.failed} of {self.runs} failed**' if self.failed else self.runs}{slowest}"
        )


def keep(file: Path, outcomes: Sequence[Outcome]) -> None:
    with file.open("ab") as kept:
        kept.writelines(msgspec.json.encode(one) + b"\n" for one in outcomes)


def kept(file: Path) -> list[Outcome]:
    return [msgspec.json.decode(line, type=Outcome) for line in file.read_bytes().splitlines()]


def tallies(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], Tally]:
    """By fault and activity."""
    grouped: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for one in outcomes:
        grouped[one.fault, one.activity].append(one)
    return {
        cell: Tally(
            runs=len(runs),
            failed=sum(bool(one.failures) for one in runs),
            slowest_s=max(
                (one.recovery_s for one in runs if one.recovery_s is not None), default=None
            ),
            kills=sum(one.kills for one in runs),
        )
        for cell, runs in grouped.items()
    }


def listing() -> str:
    """Every cell, with the reason where it is impossible."""
    return "\n".join(
        f"{cell.fault.name:14} {cell.activity.name:12} "
        + (f"impossible: {cell.impossible}" if cell.impossible else f"{cell.fault.runs} runs")
        for cell in cells(Plan())
    )


def document(outcomes: Sequence[Outcome]) -> str:
    """The matrix in Markdown: runs, failures if any, and the slowest recovery of each cell."""
    found = tallies(outcomes)
    names = [one.name for one in ACTIVITIES]
    lines = [
        f"{len(outcomes):,} runs, {sum(bool(one.failures) for one in outcomes)} failed;",
        f"{sum(one.kills for one in outcomes):,} processes killed,",
        f"{sum(one.answers for one in outcomes):,} answers judged.",
        "",
        f"| fault | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    reasons: list[str] = []
    for fault in FAULTS:
        row = [_shown(Cell(fault, one), found, reasons) for one in ACTIVITIES]
        lines.append(f"| {fault.name} | {' | '.join(row)} |")
    lines += ["", *(f"{number}. {reason}." for number, reason in enumerate(reasons, 1))]
    return "\n".join([*lines, "", *(f"- **{one.name}**: {one.about}." for one in FAULTS)])


def _shown(cell: Cell, found: dict[tuple[str, str], Tally], reasons: list[str]) -> str:
    if tally := found.get((cell.fault.name, cell.activity.name)):
        return str(tally)
    if reason := cell.impossible:
        if reason not in reasons:
            reasons.append(reason)
        return f"not possible ({reasons.index(reason) + 1})"
    return "not run"


def write_into(page: Path, outcomes: Sequence[Outcome]) -> None:
    """Replaces what stands between the two marks of a page."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{document(outcomes)}\n{END}{after}", encoding="utf-8")
