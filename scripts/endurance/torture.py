"""`./scripts/torture`: runs a cell, a row, a column or all of the fault matrix, and reports the results.

It prints them on the terminal, and writes the part of a document between two marks. Runs are kept in a file of
JSON lines, so that rows may be run at different times.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import msgspec

from endurance.activities import ACTIVITIES
from endurance.faults import FAULTS
from endurance.matrix import Cell, Outcome, Plan, cells, run_matrix
from gateway.process.log_output import configure_logs

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
    """Returns a tally for each fault and activity."""
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
    """Returns a list of all cells, with the reason if one is impossible."""
    return "\n".join(
        f"{cell.fault.name:14} {cell.activity.name:12} "
        + (f"impossible: {cell.impossible}" if cell.impossible else f"{cell.fault.runs} runs")
        for cell in cells(Plan())
    )


def document(outcomes: Sequence[Outcome]) -> str:
    """Returns the matrix in Markdown: runs, failures if any, and the slowest recovery of each cell."""
    found = tallies(outcomes)
    names = [one.name for one in ACTIVITIES]
    lines = [
        f"{len(outcomes):,} runs, {sum(bool(one.failures) for one in outcomes)} failed;",
        f"{sum(one.kills for one in outcomes):,} processes killed,",
        f"{sum(one.answers for one in outcomes):,} answers checked.",
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
    """Replaces the part of a page between the two marks."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{document(outcomes)}\n{END}{after}", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        print(listing())
        return 0
    if options.report:
        write_into(options.report, kept(options.keep))
        return 0
    if not (options.all or options.fault or options.activity):
        _parser().error("name a --fault, an --activity, or --all; --list shows what there is")
    configure_logs("error")
    plan = Plan(
        tuple(options.fault or ()), tuple(options.activity or ()), options.runs, options.seed
    )
    say = partial(print, file=sys.stderr, flush=True)
    outcomes = anyio.run(run_matrix, plan, say, partial(_keep, options.keep))
    if options.json:
        print(msgspec.json.encode(outcomes).decode())
    for one in outcomes:
        for failure in one.failures:
            say(f"{one.fault} x {one.activity} #{one.number}: {failure[:1500]}")
    return int(any(one.failures for one in outcomes))


def _keep(file: Path | None, outcomes: list[Outcome]) -> None:
    if file is not None:
        keep(file, outcomes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./scripts/torture",
        description="Breaks the gateway in every way at every kind of work.",
    )
    parser.add_argument("--all", action="store_true", help="every cell")
    parser.add_argument("--fault", action="append", choices=[one.name for one in FAULTS])
    parser.add_argument("--activity", action="append", choices=[one.name for one in ACTIVITIES])
    parser.add_argument("--runs", type=int, help="of each cell; else what is usual for its fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="show all cells and run none")
    parser.add_argument("--json", action="store_true", help="print every run on standard output")
    parser.add_argument("--keep", type=Path, help="file that runs are added to, one JSON a line")
    parser.add_argument(
        "--report", type=Path, help="write what was kept into this page; run nothing"
    )
    return parser
