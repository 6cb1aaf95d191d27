"""Cold start to first answer, resident memory, and the latency of warm searches.

Ratios within one run: the yardstick is a bare interpreter that imports what the gateway stands on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.notes import NoteWriter
from benchmarks.plot import draw
from benchmarks.scoring import percentile
from gateway.client import spawn_gateway

ROUNDS = 15
WARM_SEARCHES = 300
BARE = "import sys; sys.modules['rich'] = None; import apsw, msgspec, anyio, structlog"
"""structlog imports rich wherever that is installed; the gateway keeps it out."""
QUERIES = (
    "When did she start the new job?",
    "support group meeting",
    "Which book was recommended last month?",
    "painting of a sunset over a lake",
    "What did they decide about the adoption agency?",
    "camping trip with the children",
)


def bare_interpreter_s() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", BARE], check=True)
    return time.perf_counter() - started


async def cold_start(arguments: list[str]) -> tuple[float, int]:
    """Seconds from spawning to the first reply, and the resident bytes then."""
    started = time.perf_counter()
    async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
        await client.call("memory_search", {"query": QUERIES[0]}, timeout_s=30)
        seconds = time.perf_counter() - started
        return seconds, resident_bytes(client.process.pid)


async def build(arguments: list[str]) -> int:
    """Makes the index; returns how many chunks it has."""
    async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
        await client.call("sync", {}, timeout_s=600)
        status = await client.call("status", {}, timeout_s=60)
        return int(status["chunks"])


async def warm_latencies(arguments: list[str]) -> list[float]:
    async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
        await client.call("sync", {}, timeout_s=60)
        latencies = []
        for number in range(WARM_SEARCHES):
            query = {"query": QUERIES[number % len(QUERIES)]}
            started = time.perf_counter()
            await client.call("memory_search", query, timeout_s=30)
            latencies.append((time.perf_counter() - started) * 1000)
        return latencies


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no resident size of process {pid}")


PLOT: Final = Path(__file__).resolve().parents[2] / "docs/start.svg"


class Measured(NamedTuple):
    """Milliseconds."""

    chunks: int
    bare: float
    first: float
    warm: float


async def measure(workspace: Path, table: Table) -> Measured:
    with tempfile.TemporaryDirectory() as state:
        config = Path(state) / "openclaw.json"
        config.write_text(
            json.dumps({"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}),
            encoding="utf-8",
        )
        arguments = ["--workspace", str(workspace), "--state-dir", state]
        arguments += ["--config", str(config), "--log-level", "warning"]
        chunks = await build(arguments)
        bare, cold, resident = [], [], []
        for _ in range(ROUNDS):
            bare.append(bare_interpreter_s())
            seconds, size = await cold_start(arguments)
            cold.append(seconds)
            resident.append(size)
        warm = await warm_latencies(arguments)
    yardstick, first = percentile(bare, 0.5), percentile(cold, 0.5)
    table.add_row(
        workspace.name,
        f"{yardstick * 1000:.0f} ms",
        f"{first * 1000:.0f} ms",
        f"{first / yardstick:.2f}",
        f"{max(resident) / 1e6:.0f} MB",
        f"{percentile(warm, 0.5):.1f} ms",
        f"{percentile(warm, 0.95):.1f} ms",
    )
    return Measured(chunks, yardstick * 1000, first * 1000, percentile(warm, 0.5))


def plot(measured: list[Measured]) -> None:
    names = ("bare interpreter", "first reply", "warm search")
    lines = {
        name: [(one.chunks, one[place]) for one in measured] for place, name in enumerate(names, 1)
    }
    title = "Start on an existing index, and warm keyword searches"
    draw(PLOT, lines, title=title, x="chunks", y="ms", dashed=names[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspaces", nargs="*", type=Path)
    parser.add_argument("--files", type=int, nargs="*", default=[10, 100, 1_000])
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a start would compile all that it imports
    table = Table(title="Start on an existing index, and warm keyword searches through the pipe")
    for column in ("workspace", "bare", "first reply", "ratio", "resident", "warm p50", "warm p95"):
        table.add_column(column, justify="right")
    for workspace in options.workspaces:
        anyio.run(measure, workspace.resolve(), table)
    measured = []
    with tempfile.TemporaryDirectory() as scratch:
        for files in options.files:
            workspace = Path(scratch) / f"{files} notes"
            NoteWriter().workspace(workspace, files, bullets=30)
            measured.append(anyio.run(measure, workspace, table))
    Console(width=110).print(table)
    if measured:
        plot(measured)


if __name__ == "__main__":
    main()
