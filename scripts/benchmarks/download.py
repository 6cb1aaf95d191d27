"""Measures the bytes fetched for a model whose download is killed at random moments, relative to the model's size.

The gateway's command, killed with SIGKILL, fetches from a loopback hub that redirects to another host and counts
what it sends. Each row is a download of its own, with moments of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks.running import figures
from fakes.hub import FakeHub, model_bytes

REFERENCE = "hf:org/repo/m.gguf"
BYTES_PER_S = 40_000_000
ROWS = 3


def measure(data: bytes, kills: int, seed: int) -> tuple[float, int, bool]:
    """Returns the bytes sent relative to the model's size, the number of answers, and whether the hash is right."""
    moments = sorted(random.Random(seed).sample(range(len(data)), kills))
    with (
        tempfile.TemporaryDirectory() as home,
        FakeHub({"org/repo/m.gguf": data}, bytes_per_s=BYTES_PER_S) as hub,
    ):
        command = [sys.executable, "-m", "gateway", "models", "pull", REFERENCE]
        environment = {**os.environ, "HOME": home, "XDG_CACHE_HOME": home, **hub.environment}
        for moment in moments:
            process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
            hub.wait_until_sent(moment)
            process.kill()
            process.wait()
        done = subprocess.run(
            command, env=environment, capture_output=True, encoding="utf-8", check=True
        )
        found = hashlib.sha256(Path(done.stdout.strip()).read_bytes()).digest()
        right = found == hashlib.sha256(data).digest()
        return hub.sent() / len(data), len(hub.bodies()), right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=64)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    data = model_bytes(options.mb * 1_000_000)
    table = figures(
        "Downloads that are killed", "seed | kills | answers | bytes sent / size | hash"
    )
    for seed in range(ROWS):
        ratio, answers, right = measure(data, options.kills, seed)
        verdict = "right" if right else "WRONG"
        table.add_row(f"{seed}", f"{options.kills}", f"{answers}", f"{ratio:.4f}", verdict)
    Console().print(table)


if __name__ == "__main__":
    main()
