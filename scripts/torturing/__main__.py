"""`./scripts/torture`: runs a cell, a row, a column or all of the fault matrix.

Owns the command line. What is run in which order is the business of `matrix`, what it looks like that
of `report`.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import anyio
import msgspec

from gateway.process.logs import configure_logs
from torturing import report
from torturing.activities import ACTIVITIES
from torturing.faults import FAULTS
from torturing.matrix import Plan, run_matrix
from torturing.playing import Outcome


def main() -> int:
    options = _parser().parse_args()
    if options.list:
        print(report.listing())
        return 0
    if options.report:
        report.write_into(options.report, report.kept(options.keep))
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
        report.keep(file, outcomes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./scripts/torture", description=__doc__)
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


if __name__ == "__main__":
    sys.exit(main())
