"""`./scripts/torture`: runs a cell, a row, a column or all of the fault matrix.

Owns the command line. What is run in which order is the business of `matrix`, what it looks like that
of `report`.
"""

from __future__ import annotations

import argparse
import sys

import anyio

from gateway.logs import configure_logs
from torturing.activities import ACTIVITIES
from torturing.faults import FAULTS
from torturing.matrix import Plan, run_matrix


def main() -> int:
    parser = argparse.ArgumentParser(prog="./scripts/torture", description=__doc__)
    parser.add_argument("--fault", action="append", choices=[one.name for one in FAULTS])
    parser.add_argument("--activity", action="append", choices=[one.name for one in ACTIVITIES])
    parser.add_argument("--runs", type=int, help="of each cell; else what is usual for its fault")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    plan = Plan(
        faults=tuple(options.fault or ()),
        activities=tuple(options.activity or ()),
        runs=options.runs,
        seed=options.seed,
    )
    configure_logs("error")
    outcomes = anyio.run(run_matrix, plan, print)
    for one in outcomes:
        for failure in one.failures:
            print(f"{one.fault} x {one.activity} #{one.number}: {failure[:1500]}")
    return int(any(one.failures for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
