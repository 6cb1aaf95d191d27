"""Runs beside the real OpenClaw: checks that every turn it writes is found, and measures how our reading slows it.

Blocks of turns, each in a conversation of its own, run in pairs: one beside a gateway that syncs after every turn
and searches all the time, one without. The order alternates from pair to pair.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.running import facts, figures, timed
from benchmarks.scoring import percentile
from fakes.openclaw import SETUP, HostError, OpenClaw, RunningHost
from fakes.openclaw_model import FakeModel
from gateway.client import RemoteError, SpawnedGateway, spawn_gateway
from gateway.process.log_output import configure_logs

SEARCH: Final = {
    "provider": "none",
    "sources": ["memory", "sessions"],
    "experimental": {"sessionMemory": True},
}
SEARCHES_A_SECOND: Final = 5
_PATIENCE_S: Final = 120.0
_COMPLAINT: Final = re.compile(r"locked|busy|corrupt|malformed|\berror\b|failed", re.IGNORECASE)


@dataclass
class Found:
    """The turns that ran beside our gateway, and what it found of them."""

    turns: int = 0
    at_once: int = 0
    """Found by the search right after the turn, before any sync."""
    after_one_sync: int = 0
    searches: int = 0
    errors: list[str] = field(default_factory=list)
    search_ms: list[float] = field(default_factory=list)
    sync_ms: list[float] = field(default_factory=list)


class Bench:
    """One host and what was measured; it shares its configuration with the gateway."""

    def __init__(self, host: OpenClaw) -> None:
        self.host = host
        self.found = Found()
        self.latencies: dict[str, list[list[float]]] = {"beside": [], "without": []}
        """Milliseconds of each turn, by block."""
        self.complaints: dict[str, list[str]] = {"beside": [], "without": []}
        """Lines that the host printed meanwhile and that look like faults."""
        self.words: list[str] = []

    async def block(self, running: RunningHost, way: str, turns: int) -> None:
        session = f"agent:main:block-{sum(map(len, self.latencies.values()))}"
        printed = len(running.printed)
        if way == "without":
            taken = [(await self._turn(running, session))[1] for _ in range(turns)]
        else:
            async with self._gateway() as client, anyio.create_task_group() as tasks:
                tasks.start_soon(self._search_all_the_time, client)
                taken = await self._looked_for(client, running, session, turns)
                tasks.cancel_scope.cancel()
        self.latencies[way].append(taken)
        lines = running.printed[printed:].splitlines()
        self.complaints[way] += [line for line in lines if _COMPLAINT.search(line)]

    async def missing(self) -> list[str]:
        """Returns the turns, with and without us, that a gateway does not find when it starts now."""
        async with self._gateway() as client:
            await client.call("sync", {}, timeout_s=_PATIENCE_S)
            return [word for word in self.words if not await self._finds(client, word)]

    async def _looked_for(
        self, client: SpawnedGateway, running: RunningHost, session: str, turns: int
    ) -> list[float]:
        """Looks for each turn while the host writes the next one; returns the milliseconds of the turns."""
        taken: list[float] = []
        send, receive = anyio.create_memory_object_stream[str](turns)

        async def talk() -> None:
            async with send:
                for _ in range(turns):
                    word, milliseconds = await self._turn(running, session)
                    taken.append(milliseconds)
                    await send.send(word)

        async with anyio.create_task_group() as tasks, receive:
            tasks.start_soon(talk)
            async for word in receive:
                await self._look_for(client, word)
        return taken

    async def _look_for(self, client: SpawnedGateway, word: str) -> None:
        self.found.turns += 1
        try:
            self.found.at_once += await self._finds(client, word)
            _, ms = await timed(client.call("sync", {}, timeout_s=_PATIENCE_S))
            self.found.sync_ms.append(ms)
            self.found.after_one_sync += await self._finds(client, word)
        except RemoteError as error:
            self.found.errors.append(str(error))

    async def _search_all_the_time(self, client: SpawnedGateway) -> None:
        while True:
            if self.words:
                try:
                    await self._finds(client, self.words[self.found.searches % len(self.words)])
                except RemoteError as error:
                    self.found.errors.append(str(error))
            await anyio.sleep(1 / SEARCHES_A_SECOND)

    async def _finds(self, client: SpawnedGateway, word: str) -> bool:
        params = {"query": f"report {word}", "sources": ["sessions"], "maxResults": 3}
        asked = client.call("memory_search", params, timeout_s=_PATIENCE_S)
        answer, ms = await timed(asked)
        self.found.search_ms.append(ms)
        self.found.searches += 1
        return any(word in hit["snippet"] for hit in answer["results"])

    async def _turn(self, running: RunningHost, session: str) -> tuple[str, float]:
        word = f"quelea{len(self.words):05}"
        text = f"Report {word}: the flock was seen by the mill at half past six, flying north."
        _, taken = await timed(anyio.to_thread.run_sync(running.say, text, session))
        self.words.append(word)
        return word, taken

    @asynccontextmanager
    async def _gateway(self) -> AsyncIterator[SpawnedGateway]:
        host = self.host
        arguments = ["--workspace", str(host.workspace), "--state-dir", str(host.state)]
        arguments += ["--config", str(host.config), "--log-level", "error"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(host.root)}
        async with spawn_gateway(arguments, environment=environment) as client:
            await client.call("status", {}, timeout_s=_PATIENCE_S)
            yield client


def host_table(bench: Bench) -> Table:
    table = figures(
        "The host: its latency of a turn, and complaints",
        "| turns | p50 | p95 | slowest | complaints",
    )
    for way, blocks in bench.latencies.items():
        taken = [one for block in blocks for one in block]
        shares = (percentile(taken, 0.5), percentile(taken, 0.95), max(taken))
        cells = [f"{value:.0f} ms" for value in shares]
        table.add_row(way, str(len(taken)), *cells, str(len(bench.complaints[way])))
    pairs = zip(bench.latencies["beside"], bench.latencies["without"], strict=True)
    ratios = [statistics.median(ours) / statistics.median(alone) for ours, alone in pairs]
    table.caption = (
        f"Beside / without, medians of {len(ratios)} pairs of blocks: {percentile(ratios, 0.5):.2f}; "
        f"half of them {percentile(ratios, 0.25):.2f} to {percentile(ratios, 0.75):.2f}"
    )
    return table


def found_table(found: Found, missing: list[str], total: int) -> Table:
    rows = {
        "turns beside us": found.turns,
        "found by the next search": found.at_once,
        "found after one sync": found.after_one_sync,
        "not found at the end, of all turns": f"{len(missing)} of {total}",
        "searches meanwhile": found.searches,
        "a search, p50 / p95": _milliseconds(found.search_ms),
        "a sync, p50 / p95": _milliseconds(found.sync_ms),
        "errors of ours": len(found.errors),
    }
    return facts("What was written, and what was found", rows)


def _milliseconds(taken: list[float]) -> str:
    return f"{percentile(taken, 0.5):.1f} / {percentile(taken, 0.95):.1f} ms"


async def _run(options: argparse.Namespace, command: str, root: Path) -> None:
    console = Console(width=120)
    with FakeModel(most=10 * options.turns) as model:
        bench = Bench(OpenClaw(command, root, model))
        bench.host.configure({"memory": {"search": SEARCH}})
        with bench.host.gateway() as running:
            await anyio.to_thread.run_sync(
                running.say, "Good morning."
            )  # what the first turn loads
            for pair in range(-(-options.turns // options.block)):
                for way in ("beside", "without") if pair % 2 else ("without", "beside"):
                    await bench.block(running, way, options.block)
            missing = await bench.missing()
        if model.refused:
            raise HostError(f"the model refused: {model.refused[0]}")
    console.print(found_table(bench.found, missing, len(bench.words)))
    console.print(host_table(bench))
    for said in (bench.found.errors, *bench.complaints.values()):
        for line, times in Counter(map(_without_numbers, said)).most_common(5):
            console.print(f"{times} x {line}", markup=False)


def _without_numbers(line: str) -> str:
    return re.sub(r"[0-9]+", "0", line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1000, help="beside us, and as many without")
    parser.add_argument("--block", type=int, default=20, help="turns of a conversation")
    options = parser.parse_args()
    configure_logs("error")
    command = subprocess.run([SETUP], capture_output=True, check=True, encoding="utf-8").stdout
    with tempfile.TemporaryDirectory(prefix="memory-gateway-openclaw-") as root:
        anyio.run(_run, options, command.strip(), Path(root))


if __name__ == "__main__":
    main()
