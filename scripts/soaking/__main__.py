"""`./scripts/soak`: an hour of everything at once against one gateway, and what it held meanwhile."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path

import anyio
from rich.console import Console

from gateway.process.logs import configure_logs
from soaking.pace import Pace
from soaking.report import show, summary
from soaking.soak import Plan, soak


def plan(minutes: float, seed: int) -> Plan:
    seconds = minutes * 60
    return Plan(
        pace=Pace(seconds, pause_s=0.1),
        others=Pace(seconds, pause_s=0.5),
        flaps=Pace(seconds, pause_s=8.0),
        samples=Pace(seconds, pause_s=min(5.0, seconds / 60)),
        seed=seed,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="with every sample")
    options = parser.parse_args()
    configure_logs("error")
    with tempfile.TemporaryDirectory(prefix="soak-") as root:
        outcome = anyio.run(partial(soak, Path(root), plan(options.minutes, options.seed)))
    found = summary(outcome)
    if options.json:
        names = outcome.samples[0].__struct_fields__
        found["series"] = [[getattr(one, name) for name in names] for one in outcome.samples]
        print(json.dumps(found, indent=1))
    else:
        show(found, Console(width=120))
    return int(bool(outcome.findings.faults()) or outcome.exit_code != 0)


if __name__ == "__main__":
    sys.exit(main())
