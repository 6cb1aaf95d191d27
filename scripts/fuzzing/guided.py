"""`./scripts/fuzz TARGET ... --seconds N`: searches for inputs that fail, guided by coverage.

Starts from the corpus, adds what reaches new lines, and keeps what fails, made as small as it goes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fuzzing.corpus import FOUND, directory, distil, inputs, keep_found
from fuzzing.coverage import share
from fuzzing.registry import TARGETS, Target
from fuzzing.shrinking import shrink
from gateway.process.logs import configure_logs

SLOW_S = 20
"""One input may take so long before it counts as a failure."""
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")


@dataclass(frozen=True)
class Ran:
    executions: int
    found: Path | None
    words: str
    """The end of what the fuzzer said, when it found something."""
    reached: int
    lines: int


def fuzz(name: str, seconds: int, seed: int) -> Ran:
    target = TARGETS[name]
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as scratch:
        grown, failures = Path(scratch, "corpus"), Path(scratch, "failures")
        grown.mkdir()
        failures.mkdir()
        options = [
            str(grown), str(directory(name)), f"-artifact_prefix={failures}/", f"-max_total_time={seconds}",
            f"-max_len={target.longest}", f"-timeout={SLOW_S}", f"-seed={seed}", "-print_final_stats=1",
        ]  # fmt: skip
        directory(name).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "fuzzing.engine", name, *options]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)  # fmt: skip
        failed = inputs(failures)
        steps = distil(name, target, [] if failed else inputs(grown))
        found = keep_found(name, _smallest(target, failed[0])) if failed else None
    said = done.stdout + done.stderr
    executed = _EXECUTED.search(said)
    words = said[-3000:] if found or done.returncode else ""
    return Ran(int(executed[1]) if executed else 0, found, words, *share(target, steps))


def _smallest(target: Target, data: bytes) -> bytes:
    """The failing input cut down, unless it failed by its slowness, which cannot be tried often."""
    run = target.load()

    def way(tried: bytes) -> type[BaseException] | None:
        try:
            run(tried)
        except Exception as error:  # noqa: BLE001 - whatever the target raises is what is looked for
            return type(error)
        return None

    failure = way(data)
    return shrink(data, lambda tried: way(tried) is failure) if failure else data


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="+", choices=[*TARGETS, "all"], metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    names = list(TARGETS) if "all" in options.targets else options.targets
    table = Table()
    for column in (
        "target",
        "executions",
        "corpus",
        "bytes",
        "found before",
        "lines reached",
        "found",
    ):
        table.add_column(column, justify="left" if column == "target" else "right")
    configure_logs("error")
    failed = False
    for name in names:
        ran = fuzz(name, options.seconds, options.seed)
        kept = list(directory(name).iterdir())
        before = sum(path.name.startswith(FOUND) for path in kept)
        table.add_row(
            name, f"{ran.executions:,}", str(len(kept)), f"{sum(len(p.read_bytes()) for p in kept):,}",
            str(before), f"{ran.reached:,} of {ran.lines:,}", ran.found.name if ran.found else "-",
        )  # fmt: skip
        failed |= bool(ran.words)
        print(ran.words, end="", file=sys.stderr)
    Console(width=120).print(table)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
