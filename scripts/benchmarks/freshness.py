"""Measures how soon a saved file is found, and what waiting for changes costs.

Runs the real gateway: with saves that the watcher alone or the next search finds, with a file that is saved without
pause, with 10,000 files that nobody touches, and with eight clients during a rebuild.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
from rich.console import Console

from benchmarks.notes import NoteWriter
from benchmarks.running import figures, home
from benchmarks.scoring import percentile
from gateway.client import SpawnedGateway, spawn_gateway

PARTS: Final = ("saves", "idle", "clients")
SAVES: Final = 20
STORM: Final = 1000
STORM_S: Final = 10.0
CLIENTS: Final = 8
STARTS: Final = 9
BULLETS: Final = 8
_PATIENCE_S: Final = 900
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


class Bench:
    """One agent with notes and an index of them."""

    def __init__(self, root: Path, files: int, bullets: int = BULLETS) -> None:
        self.workspace = root / "workspace"
        self._state = root / "state"
        (self.workspace / "memory").mkdir(parents=True)
        NoteWriter().workspace(self.workspace, files, bullets)

    def note(self, name: str, text: str) -> Path:
        path = self.workspace / "memory" / name
        path.write_text(text, encoding="utf-8")
        return path

    def directories(self) -> int:
        return sum(1 for _ in os.walk(self.workspace / "memory")) + 1

    @asynccontextmanager
    async def gateway(self, **sync: object) -> AsyncIterator[SpawnedGateway]:
        """Runs a gateway with these `sync.*` settings."""
        arguments = home(self._state, self.workspace, sync=sync)
        async with spawn_gateway(arguments) as client:
            yield client

    @asynccontextmanager
    async def watching(self, **sync: object) -> AsyncIterator[SpawnedGateway]:
        async with self.gateway(**sync) as client:
            with anyio.fail_after(_PATIENCE_S):
                while (await status_of(client))["watcher"]["mode"] != "watching":  # noqa: ASYNC110 - another process
                    await anyio.sleep(0.1)
            yield client


async def status_of(client: SpawnedGateway) -> Any:
    return await client.call("status", {}, timeout_s=_PATIENCE_S)


async def finds(client: SpawnedGateway, query: str) -> bool:
    answer: Any = await client.call("memory_search", {"query": query}, timeout_s=_PATIENCE_S)
    return bool(answer["results"])


async def saves_by_watcher(bench: Bench) -> list[float]:
    """Returns the seconds from each save until a search finds it that does not look at the disk itself."""
    seconds = []
    async with bench.watching(onSearch=False) as client:
        for number in range(SAVES):
            started = time.perf_counter()
            bench.note(f"watched{number}.md", f"- The kestrel{number} was seen.\n")
            while not await finds(client, f"kestrel{number}"):  # noqa: ASYNC110 - likewise
                await anyio.sleep(0.02)
            seconds.append(time.perf_counter() - started)
    return seconds


async def saves_by_search(bench: Bench) -> tuple[list[float], int]:
    """Returns the seconds of the search right after each save, and how many did not find it."""
    seconds, missed = [], 0
    async with bench.gateway(watch=False) as client:
        await client.call("sync", {}, timeout_s=_PATIENCE_S)
        for number in range(SAVES):
            bench.note(f"searched{number}.md", f"- The buzzard{number} was seen.\n")
            started = time.perf_counter()
            missed += not await finds(client, f"buzzard{number}")
            seconds.append(time.perf_counter() - started)
    return seconds, missed


async def storm(bench: Bench) -> tuple[int, float, bool]:
    """Saves a file 1,000 times in 10 s; returns how often it was indexed, the seconds, and if the last is found."""
    async with bench.watching(onSearch=False) as client:
        seen: dict[str, Any] = {}

        async def count() -> None:
            while True:
                for one in (await status_of(client))["recentSyncs"]:
                    seen[json.dumps(one)] = one
                await anyio.sleep(0.3)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            began = time.perf_counter()
            for number in range(STORM):
                bench.note("storm.md", f"- Save number storm{number}.\n")
                await anyio.sleep(max(0.0, began + number * STORM_S / STORM - time.perf_counter()))
            took = time.perf_counter() - began
            await anyio.sleep(3.0)
            tasks.cancel_scope.cancel()
        indexings = sum(one["added"] + one["changed"] for one in seen.values())
        return indexings, took, await finds(client, f"storm{STORM - 1}")


async def idle(bench: Bench, seconds: float) -> tuple[float, int]:
    """Returns the share of a core that is used while nothing happens, and the number of inotify watches."""
    async with bench.watching() as client:
        await client.call("sync", {}, timeout_s=_PATIENCE_S)
        await anyio.sleep(5.0)  # until no file counts as just written
        pid = client.process.pid
        before = cpu_s(pid)
        await anyio.sleep(seconds)
        return (cpu_s(pid) - before) / seconds, watches(pid)


async def first_answers(bench: Bench) -> dict[bool, list[float]]:
    """Returns the seconds from start to first answer, alternately with and without watching."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * STARTS):
        watch = bool(number % 2)
        started = time.perf_counter()
        async with bench.gateway(watch=watch) as client:
            await finds(client, "ba de fi")
            seconds[watch].append(time.perf_counter() - started)
    return seconds


async def clients_during(bench: Bench, *, rebuilding: bool, seconds: float) -> dict[str, Any]:
    """Measures eight clients that search without pause, with nothing else running or during a forced rebuild.

    The searches end with the rebuild or after `seconds`; then the rebuild has the process for itself.
    """
    words = "ba de fi go ku la me ni po ra".split()
    latencies, errors, empty = [], 0, 0
    async with bench.gateway() as client:
        await client.call("sync", {}, timeout_s=_PATIENCE_S)
        done = anyio.Event()

        async def search(number: int) -> None:
            nonlocal errors, empty
            while not done.is_set():
                query = f"{words[number]} {words[(number + len(latencies)) % len(words)]}"
                started = time.perf_counter()
                try:
                    empty += not await finds(client, query)
                except Exception:  # noqa: BLE001 - counted, whatever it is
                    errors += 1
                latencies.append(time.perf_counter() - started)

        async def rebuild(rebuilt: anyio.Event) -> None:
            await client.call("sync", {"force": True}, timeout_s=_PATIENCE_S)
            rebuilt.set()

        async with anyio.create_task_group() as tasks:
            for number in range(CLIENTS):
                tasks.start_soon(search, number)
            started = time.perf_counter()
            if rebuilding:
                tasks.start_soon(rebuild, done)
            with anyio.move_on_after(seconds):
                await done.wait()
            took = time.perf_counter() - started
            done.set()
        chunks = (await status_of(client))["chunks"]
    return {
        "chunks": chunks, "seconds": took, "searches": len(latencies), "errors": errors,
        "empty": empty, "p50": percentile(latencies, 0.5), "p95": percentile(latencies, 0.95),
    }  # fmt: skip


def cpu_s(pid: int) -> float:
    """Returns the CPU time of a process so far (proc(5), stat: utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def watches(pid: int) -> int:
    return sum(
        info.read_text(encoding="ascii").count("inotify wd:")
        for info in Path(f"/proc/{pid}/fdinfo").iterdir()
    )


async def measure_saves(root: Path, console: Console) -> None:
    bench = Bench(root, 200)
    table = figures("From a save to its being found", "| p50 | max | not found")
    seconds = await saves_by_watcher(bench)
    table.add_row("by the watcher", *_times(seconds), "0")
    seconds, missed = await saves_by_search(bench)
    table.add_row("by the next search", *_times(seconds), str(missed))
    console.print(table)
    indexings, took, found = await storm(bench)
    console.print(
        f"{STORM} saves of one file in {took:.1f} s: {indexings} indexings, "
        f"the last save is {'found' if found else 'NOT found'}"
    )


async def measure_idle(root: Path, console: Console, files: int, seconds: float) -> None:
    bench = Bench(root, files)
    async with bench.gateway() as client:
        await client.call("sync", {}, timeout_s=_PATIENCE_S)
    share, count = await idle(bench, seconds)
    starts = await first_answers(bench)
    watched, unwatched = (percentile(starts[watch], 0.5) for watch in (True, False))
    table = figures(
        "Waiting for changes",
        "files | directories | inotify watches | idle CPU | first answer | without watching | ratio",
    )
    table.add_row(
        f"{files:,}", str(bench.directories()), str(count), f"{share:.2%}",
        f"{watched * 1000:.0f} ms", f"{unwatched * 1000:.0f} ms", f"{watched / unwatched:.2f}",
    )  # fmt: skip
    console.print(table)


async def measure_clients(root: Path, console: Console, files: int) -> None:
    bench = Bench(root, files, bullets=30)
    quiet = await clients_during(bench, rebuilding=False, seconds=20.0)
    busy = await clients_during(bench, rebuilding=True, seconds=60.0)
    table = figures(
        f"{CLIENTS} clients search without pause",
        "| chunks | seconds | searches | errors | empty | p50 | p95",
    )
    for name, row in (("quiet", quiet), ("during a full rebuild", busy)):
        counts = (
            row["chunks"],
            round(row["seconds"]),
            row["searches"],
            row["errors"],
            row["empty"],
        )
        times = (f"{row[name] * 1000:.0f} ms" for name in ("p50", "p95"))
        table.add_row(name, *map(str, counts), *times)
    console.print(table)
    console.print(f"p95 ratio: {busy['p95'] / quiet['p95']:.2f}")


def _times(seconds: list[float]) -> tuple[str, str]:
    return f"{percentile(seconds, 0.5):.3f} s", f"{max(seconds):.3f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--files", type=int, default=10_000, help="of the idle workspace")
    parser.add_argument("--idle-seconds", type=float, default=120.0)
    parser.add_argument("--rebuilt-files", type=int, default=4_150, help="about 5 chunks each")
    options = parser.parse_args()
    console = Console(width=110)
    parts = options.only or PARTS
    with tempfile.TemporaryDirectory() as root:
        if "saves" in parts:
            anyio.run(measure_saves, Path(root) / "saves", console)
        if "idle" in parts:
            anyio.run(
                measure_idle, Path(root) / "idle", console, options.files, options.idle_seconds
            )
        if "clients" in parts:
            anyio.run(measure_clients, Path(root) / "clients", console, options.rebuilt_files)


if __name__ == "__main__":
    main()
