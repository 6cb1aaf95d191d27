"""Measures how fast Markdown becomes searchable: first index, unchanged re-sync, one edited file; and its report."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import anyio
from anyio import to_thread
from rich.console import Console
from rich.table import Table

from benchmarks.notes import NoteWriter, VaultWriter
from benchmarks.plot import draw
from benchmarks.running import figures, home, timed
from gateway.client import spawn_gateway

PLOT: Final = Path(__file__).resolve().parents[2] / "docs/index.svg"


class Measured(NamedTuple):
    """The number of chunks, and times in milliseconds."""

    chunks: int
    first: float
    again: float
    edit: float


def report(arguments: Sequence[str], page: Path) -> str:
    """Makes the report beside the gateway; returns its time, its size and the memory of the command."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "gateway", "report", *arguments, "--output", str(page)]
    process = subprocess.Popen(
        [*command, "--question", "kingfisher weir"], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    size = page.stat().st_size
    return f"{seconds:.2f} s, {size / 1000:.0f} kB, {used.ru_maxrss / 1024:.0f} MB"


class Notes(NamedTuple):
    name: str
    write: Callable[[Path], int]
    """Writes the notes into a workspace; returns their bytes."""


async def measure(notes: Notes, page: Path | None, table: Table) -> Measured:
    with tempfile.TemporaryDirectory() as scratch:
        workspace = Path(scratch) / "workspace"
        total = notes.write(workspace)
        arguments = home(Path(scratch) / "state", workspace, "warning")
        started = time.perf_counter()
        async with spawn_gateway(arguments) as client:
            await client.call("sync", {}, timeout_s=3600)
            first_s = time.perf_counter() - started
            again = await client.call("sync", {}, timeout_s=600)
            edited = next(workspace.rglob("*.md"))
            with edited.open("a", encoding="utf-8") as file:
                file.write("- A kingfisher was seen at the weir.\n")
            question = {"query": "kingfisher weir"}
            found, edit_ms = await timed(client.call("memory_search", question, timeout_s=60))
            status = await client.call("status", {}, timeout_s=60)
            cost = await to_thread.run_sync(
                report, arguments, page or Path(scratch) / "report.html"
            )
        assert found["results"], found
        assert again["bytesRead"] == 0, again
        table.add_row(
            notes.name,
            f"{total / 1e6:.1f} MB",
            f"{status['chunks']:,}",
            f"{first_s:.2f} s",
            f"{total / 1e6 / first_s:.2f} MB/s",
            f"{again['durationMs']:.0f} ms",
            f"{edit_ms:.0f} ms",
            f"{status['databaseBytes'] / total:.2f}",
            cost,
        )
        return Measured(status["chunks"], first_s * 1000, again["durationMs"], edit_ms)


def plot(measured: list[Measured]) -> None:
    names = ("first index", "unchanged re-sync", "edit to answer")
    lines = {
        name: [(one.chunks, one[place]) for one in measured] for place, name in enumerate(names, 1)
    }
    draw(PLOT, lines, title="Time until notes can be found by keyword", x="chunks", y="ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[100, 1_000, 10_000])
    parser.add_argument("--bullets", type=int, default=30)
    parser.add_argument("--vault", type=int, metavar="FILES", default=865, help="0: none")
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="notes for the vault")
    parser.add_argument("--report", type=Path, metavar="FILE", help="keep the last report there")
    options = parser.parse_args()
    table = figures(
        "Indexing by keyword, start of the process included",
        "notes | Markdown | chunks | first index | rate | unchanged re-sync | edit to answer | index/Markdown | report",
    )
    seeded = [
        Notes(f"{files:,}", partial(NoteWriter().workspace, files=files, bullets=options.bullets))
        for files in options.files
    ]
    measured = [anyio.run(measure, one, options.report, table) for one in seeded]
    if options.vault:
        write = partial(VaultWriter(*options.more).workspace, files=options.vault)
        anyio.run(measure, Notes(f"{options.vault:,}, a vault", write), options.report, table)
    Console(width=140).print(table)
    if len(measured) > 1:
        plot(measured)


if __name__ == "__main__":
    main()
