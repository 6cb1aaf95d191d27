"""Measures how long an index takes to move from the place of earlier releases, and what a kill on the way costs.

A real gateway embeds the notes at the former place and is killed. Then the move is killed at points that are
spread over all of its lines, each time on a copy of that index, and the next process has to find everything. In the
end a real gateway starts with the index at the former place, and the texts that it embeds are counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync
from rich.console import Console
from rich.table import Table

from backends.builtin.store.sqlite import index_file, moving
from backends.builtin.store.sqlite.index_file import FileVerdict, judge
from backends.builtin.store.sqlite.store import SqliteStore
from benchmarks.notes import NoteWriter
from benchmarks.running import embedded, embedding_with, figures, home
from endurance.oracle import Content, damage, read_content, searchable
from fakes.vendors import FakeVendor
from gateway.client import SpawnedGateway, spawn_gateway

FORMER: Final = "memory/main.sqlite"
NEW: Final = "memory/main.memory-gateway.sqlite"
_PATIENCE_S: Final = 1800.0
_FILES_OF_THE_MOVE: Final = (moving.__file__, index_file.__file__)


def arguments(root: Path, host: FakeVendor, *, former: bool) -> list[str]:
    """Returns the arguments of today's release; `former`: with the place of the index in earlier releases."""
    search = embedding_with(host)
    if former:
        search["store"] = {"path": str(root / "state" / FORMER)}
    return home(root / "state", root / "workspace", **search)


async def embed_all(client: SpawnedGateway) -> dict[str, Any]:
    """Returns the status in which every text has its vector."""
    await client.call("sync", {}, timeout_s=_PATIENCE_S)
    return await embedded(client)


def move(folder: Path, kill_at: int) -> None:
    """Opens the index as its owner does; kills this process at line `kill_at` of those that the move executes.

    0: at none; then it prints how many lines there are, and how many seconds the opening took.
    """
    lines = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in _FILES_OF_THE_MOVE:
            return None
        if event == "line":
            lines += 1
            if lines == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    started = time.perf_counter()
    database = SqliteStore(folder / NEW, former=folder / FORMER, is_owner=True)
    seconds = time.perf_counter() - started
    sys.settrace(None)
    database.close()
    print(lines, seconds)


def in_child(folder: Path, kill_at: int = 0) -> tuple[int, float] | None:
    """Runs `move` in a process of its own; returns its lines and seconds, None if it was killed."""
    command = [sys.executable, "-m", "benchmarks.moving", "--move", str(folder), str(kill_at)]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if kill_at:
        assert done.returncode == -signal.SIGKILL
        return None
    lines, seconds = done.stdout.split()[-2:]
    return int(lines), float(seconds)


def copy(state: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(state, folder, ignore=shutil.ignore_patterns("run"))


def kill_at_points(
    state: Path, folder: Path, points: int, before: Content, table: Table
) -> tuple[int, float]:
    """Adds a row for each point to the table; returns what was lost, and the seconds without a kill."""
    copy(state, folder)
    whole = in_child(folder)
    assert whole is not None
    lines, seconds = whole
    losses = 0
    for point in range(1, points + 1):
        copy(state, folder)
        line = max(1, round(lines * point / points) - 1)
        in_child(folder, line)
        there = [name for name in (FORMER, NEW) if judge(folder / name) is FileVerdict.OURS]
        in_child(folder)
        after = read_content(folder / NEW)
        lost = len(before.files.keys() - after.files) + len(before.embedded - after.embedded)
        faults = [*damage(folder / NEW), *([FORMER] if (folder / FORMER).exists() else [])]
        losses += lost + len(faults)
        table.add_row(f"{line} of {lines}", " ".join(there), str(lost), "; ".join(faults) or "none")
    return losses, seconds


async def measure(files: int, points: int, root: Path, console: Console) -> int:
    """Returns how much was lost or paid again."""
    state = root / "state"
    NoteWriter(words=5000, seed=1).workspace(root / "workspace", files, bullets=60)
    with FakeVendor("openai") as host:
        former = arguments(root, host, former=True)
        async with spawn_gateway(former) as client:
            status = await embed_all(client)
            client.process.kill()
            await client.process.wait()
        before, texts = read_content(state / FORMER), searchable(state / FORMER)
        paid = len(host.embedded())
        table = figures("Killed on the way", "line | where the index was | lost | faults")
        killed = partial(kill_at_points, state, root / "killed", points, before, table)
        losses, seconds = await run_sync(killed)
        today = arguments(root, host, former=False)
        async with spawn_gateway(today) as client:
            moved = await embed_all(client)
        again = len(host.embedded()) - paid
    same = texts == searchable(state / NEW) and moved["databasePath"] == str(state / NEW)
    console.print(table)
    console.print(
        f"{status['chunks']:,} chunks, {len(before.embedded):,} texts embedded, "
        f"{status['databaseBytes'] / 1e6:.0f} MB: opened at the new place in {seconds:.3f} s; "
        f"{again} texts embedded again; content the same: {same}"
    )
    return losses + again + (not same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1100, help="of about nine chunks each")
    parser.add_argument("--points", type=int, default=10)
    parser.add_argument("--move", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.move:
        move(Path(options.move[0]), int(options.move[1]))
        return
    with tempfile.TemporaryDirectory() as root:
        sys.exit(
            bool(anyio.run(measure, options.files, options.points, Path(root), Console(width=110)))
        )


if __name__ == "__main__":
    main()
