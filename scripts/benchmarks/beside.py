"""What a rebuild of the whole index costs the searches beside it, and they it.

One client searches at an even pace through the pipe of the real gateway, in turns while nothing else goes on and
while `sync` with `force` indexes every note anew. How fast the rebuild gets on is told by its processor time as
well, since other work on the machine decides the rest.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.freshness import Bench, cpu_s, status_of
from benchmarks.scoring import percentile
from gateway.client import SpawnedGateway

_PATIENCE_S: Final = 1800
_BULLETS: Final = 30
_WORDS: Final = "ba de fi go ku la me ni po ra".split()
_WARM_UP: Final = 30


class Searches:
    """Latencies in seconds, one search at a time."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._asked = 0
        self.seconds: list[float] = []
        self.empty = 0

    async def one(self, client: SpawnedGateway) -> None:
        first = _WORDS[self._asked % len(_WORDS)]
        second = _WORDS[(self._asked // len(_WORDS) + self._asked + 1) % len(_WORDS)]
        self._asked += 1
        query = {"query": f"{first} {second}"}
        started = time.perf_counter()
        answer = await client.call("memory_search", query, timeout_s=_PATIENCE_S)
        self.seconds.append(time.perf_counter() - started)
        self.empty += not answer["results"]
        await anyio.sleep(self._pause_s)


class Rebuild(NamedTuple):
    seconds: float
    cpu_s: float
    """Processor time of the whole process, including that of searches beside it."""


async def rebuilt(client: SpawnedGateway) -> Rebuild:
    started, cpu = time.perf_counter(), cpu_s(client.process.pid)
    await client.call("sync", {"force": True}, timeout_s=_PATIENCE_S)
    return Rebuild(time.perf_counter() - started, cpu_s(client.process.pid) - cpu)


async def searched_beside(client: SpawnedGateway, searches: Searches) -> Rebuild:
    done = anyio.Event()
    taken: list[Rebuild] = []

    async def rebuild() -> None:
        taken.append(await rebuilt(client))
        done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rebuild)
        while not done.is_set():
            await searches.one(client)
    return taken[0]


async def measure(root: Path, console: Console, options: argparse.Namespace) -> None:
    quiet, beside = Searches(options.pause), Searches(options.pause)
    alone: list[Rebuild] = []
    shared: list[Rebuild] = []
    bench = Bench(root, options.files, bullets=_BULLETS)
    async with bench.gateway(watch=False) as client:
        await client.call("sync", {}, timeout_s=_PATIENCE_S)
        chunks = (await status_of(client))["chunks"]
        for _ in range(_WARM_UP):
            await Searches(0.0).one(client)
        while len(beside.seconds) < options.searches or len(alone) < options.rounds:
            before, goal = len(quiet.seconds), max(1, options.searches // options.rounds)
            while len(quiet.seconds) < before + goal:
                await quiet.one(client)
            alone.append(await rebuilt(client))
            shared.append(await searched_beside(client, beside))
    table = Table("searches", "count", "empty", "p50", "p95", "most", title=f"{chunks:,} chunks")
    for name, one in (("quiet", quiet), ("beside a rebuild", beside)):
        times = [percentile(one.seconds, part) for part in (0.5, 0.95)] + [max(one.seconds)]
        shown = (f"{seconds * 1000:.1f} ms" for seconds in times)
        table.add_row(name, str(len(one.seconds)), str(one.empty), *shown)
    console.print(table)
    ratio = percentile(beside.seconds, 0.95) / percentile(quiet.seconds, 0.95)
    console.print(f"p95 ratio: {ratio:.2f}")
    table = Table("rebuild", "seconds", "processor time", "chunks a second", title="median")
    for name, runs in (("alone", alone), ("beside searches", shared)):
        seconds, cpu = (percentile(list(values), 0.5) for values in zip(*runs, strict=True))
        table.add_row(name, f"{seconds:.2f}", f"{cpu:.2f} s", f"{chunks / seconds:,.0f}")
    console.print(table)
    slower = percentile([run.seconds for run in shared], 0.5) / percentile(
        [run.seconds for run in alone], 0.5
    )
    console.print(f"a rebuild beside searches takes {slower:.2f} times as long")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=4_150, help="about 5 chunks each")
    parser.add_argument("--searches", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3, help="at least")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two searches")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        anyio.run(measure, Path(root), Console(width=110), options)


if __name__ == "__main__":
    main()
