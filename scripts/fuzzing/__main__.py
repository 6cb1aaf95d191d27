"""`./scripts/fuzz_pipe [LINES]`: the full run, as a table."""

from __future__ import annotations

import os
import sys
import tempfile
import time

from fuzzing.lines import make_lines
from fuzzing.pipe import fuzz
from gateway.sample import sample_workspace


def main(count: int) -> int:
    started = time.perf_counter()
    lines = make_lines(count)
    drawn = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="memory-gateway-fuzz-") as state:
        command = [sys.executable, "-m", "gateway", "serve", "--state-dir", state]
        command += ["--workspace", str(sample_workspace()), "--log-level", "error"]
        run = fuzz(command, {"PATH": os.environ["PATH"], "HOME": state}, lines)
    print(f"lines drawn      {len(lines):>9,}   {drawn - started:.1f} s")
    print(f"megabytes        {sum(map(len, lines)) / 1e6:>9.1f}")
    print(f"frames           {run.frames:>9,}   {time.perf_counter() - drawn:.1f} s")
    print(f"replies          {run.replies:>9,}")
    print(f"invalid frames   {len(run.invalid):>9,}")
    print(f"answers at end   {'yes' if run.answered_at_the_end else 'NO':>9}")
    print(f"exit code        {run.exit_code:>9}")
    print("resident MB by tenths: " + " ".join(f"{value:.0f}" for value in run.resident_mb))
    for frame in run.invalid[:5]:
        print(f"  {frame[:200]!r}")
    return int(bool(run.invalid) or not run.answered_at_the_end or run.exit_code != 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
