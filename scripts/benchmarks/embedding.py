"""What embeddings cost: requests, texts paid twice, and searches while the host is down.

Runs the real gateway on copies of the workspaces, against a loopback host that speaks OpenAI's wire
format with limits of its own and counts everything it is asked.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from rich.console import Console
from rich.table import Table

from benchmarks.scoring import percentile
from fakes.faults import fault
from fakes.vendors import FakeVendor
from gateway.client import SpawnedGateway, spawn_gateway

UNDER_WAY = 4
"""Requests that the gateway sends at the same time, at most."""
SEARCHES = 50
QUERY = "What did they decide about the adoption agency?"


class Limits(NamedTuple):
    """What the host refuses to exceed."""

    items: int | None = None
    tokens: int | None = None
    named: bool = True
    """Whether a refusal says what would be accepted."""

    def __str__(self) -> str:
        size = f"{self.items} items" if self.items else f"{self.tokens} tokens"
        return size if self.named else f"{size}, unnamed"

    def fewest(self, texts: list[str]) -> int:
        """Requests that no client could do with fewer of."""
        tokens = sum(map(_tokens, texts))
        by_items = math.ceil(len(texts) / self.items) if self.items else 1
        return max(by_items, math.ceil(tokens / self.tokens) if self.tokens else 1)


HOSTS = (
    Limits(items=512),
    Limits(items=64),
    Limits(items=64, named=False),
    Limits(items=10),
    Limits(items=1),
    Limits(tokens=20_000),
    Limits(tokens=8_000),
)


class Bench:
    """One agent on a copy of a workspace, and the host that it embeds with."""

    def __init__(self, root: Path, workspace: Path, host: FakeVendor) -> None:
        self.workspace = root / "workspace"
        self.host = host
        shutil.copytree(workspace, self.workspace)
        self._state = root / "state"
        self._state.mkdir()
        remote = {"baseUrl": host.base_url, "apiKey": host.key}
        search = {"provider": "openai", "remote": remote}
        config = {"agents": {"defaults": {"memorySearch": search}}}
        (self._state / "openclaw.json").write_text(json.dumps(config), encoding="utf-8")

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[SpawnedGateway]:
        arguments = ["--workspace", str(self.workspace), "--state-dir", str(self._state)]
        arguments += ["--config", str(self._state / "openclaw.json"), "--log-level", "error"]
        async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
            yield client

    def largest_note(self) -> Path:
        return max(self.workspace.rglob("*.md"), key=lambda path: path.stat().st_size)


@contextmanager
def bench(workspace: Path, limits: Limits, delay_s: float = 0.0) -> Iterator[Bench]:
    host = FakeVendor(
        "openai",
        max_items=limits.items,
        max_tokens=limits.tokens,
        names_limit=limits.named,
        delay_s=delay_s,
    )
    with tempfile.TemporaryDirectory() as root, host:
        yield Bench(Path(root), workspace, host)


@contextmanager
def together(workspaces: list[Path]) -> Iterator[Path]:
    """One workspace with the notes of all."""
    with tempfile.TemporaryDirectory() as root:
        everything = Path(root) / "together"
        for workspace in workspaces:
            shutil.copytree(workspace, everything / "memory" / workspace.name)
        yield everything


async def embedded(client: SpawnedGateway) -> None:
    """Waits until nothing is left to embed."""
    with anyio.fail_after(600):
        while True:
            status: Any = await client.call("status", {}, timeout_s=60)
            backfill = status["details"]["vector"].get("backfill")
            if backfill and not backfill["running"] and not status["dirty"]:
                coverage = backfill["coverage"]
                if coverage["embedded"] + coverage["failed"] == coverage["total"] > 0:
                    return
            await anyio.sleep(0.05)


async def count_requests(workspace: Path, limits: Limits, table: Table) -> None:
    with bench(workspace, limits) as run:
        async with run.gateway() as client:
            await client.call("sync", {}, timeout_s=600)
            await embedded(client)
        texts = run.host.embedded()
        sent, fewest = len(run.host.requests), limits.fewest(texts)
        refused = sum(seen.answered != 200 for seen in run.host.requests)
        row = (len(texts), sum(map(_tokens, texts)), fewest, sent, refused)
        table.add_row(workspace.name, str(limits), *map(str, row), f"{sent / fewest:.2f}")


async def count_changes(workspace: Path, table: Table) -> None:
    with bench(workspace, Limits(items=512)) as run:
        async with run.gateway() as client:
            await client.call("sync", {}, timeout_s=600)
            await embedded(client)
            first = len(run.host.embedded())
            note = run.largest_note()
            text = note.read_text(encoding="utf-8")
            note.write_text(f"- A kingfisher was seen at the weir.\n{text}", encoding="utf-8")
            inserted = await _paid(run, client)
            note.rename(note.with_name("renamed.md"))
            renamed = await _paid(run, client)
            forced = await _paid(run, client, force=True)
        table.add_row(workspace.name, *map(str, (first, inserted, renamed, forced)))


async def _paid(run: Bench, client: SpawnedGateway, *, force: bool = False) -> int:
    """Texts that are embedded because of what was just done."""
    before = len(run.host.embedded())
    await client.call("sync", {"force": force}, timeout_s=600)
    await anyio.sleep(1.0)  # longer than the gateway waits for further changes
    await embedded(client)
    return len(run.host.embedded()) - before


async def count_after_kill(workspace: Path, table: Table) -> None:
    items = 8
    with bench(workspace, Limits(items=items), delay_s=0.05) as run:
        async with run.gateway() as client:
            await client.call("sync", {}, timeout_s=600)
            status: Any = await client.call("status", {}, timeout_s=60)
            half = status["chunks"] // 2
            await anyio.to_thread.run_sync(
                lambda: run.host.wait_until(lambda host: len(host.embedded()) >= half, 120)
            )
            client.process.send_signal(signal.SIGKILL)
            await client.process.wait()
        before = len(run.host.embedded())
        async with run.gateway() as client:
            await embedded(client)
        again = sum(count - 1 for count in Counter(run.host.embedded()).values())
        table.add_row(workspace.name, str(before), str(again), str(UNDER_WAY * items))


async def time_searches(workspace: Path, table: Table) -> None:
    with bench(workspace, Limits(items=512)) as run:
        async with run.gateway() as client:
            await client.call("sync", {}, timeout_s=600)
            await embedded(client)
            well = [await _search_ms(client, f"{QUERY} {n}", "hybrid") for n in range(SEARCHES)]
            run.host.misbehave(fault("hang"))
            hanging = [await _search_ms(client, f"{QUERY} again {n}", "keyword") for n in range(3)]
            down = [
                await _search_ms(client, f"{QUERY} still {n}", "keyword") for n in range(SEARCHES)
            ]
    row = [percentile(well, 0.5), percentile(well, 0.95), max(hanging)]
    row += [percentile(down, 0.5), percentile(down, 0.95)]
    table.add_row(workspace.name, *(f"{one:.1f} ms" for one in row))


async def _search_ms(client: SpawnedGateway, query: str, mode: str) -> float:
    started = time.perf_counter()
    result: Any = await client.call("memory_search", {"query": query}, timeout_s=30)
    elapsed = (time.perf_counter() - started) * 1000
    if result["mode"] != mode or not result["results"]:
        raise RuntimeError(f"expected a {mode} answer: {result}")
    return elapsed


def _tokens(text: str) -> int:
    """As the host counts them."""
    return len(text) // 4 + 1


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


async def measure(workspaces: list[Path], console: Console) -> None:
    """All measurements, each on fresh copies."""
    requests = _table(
        "Requests of a first index",
        "workspace", "host's limit", "texts", "tokens", "fewest", "sent", "refused", "ratio",
    )  # fmt: skip
    changes = _table(
        "Texts embedded", "workspace", "first index", "line at the top", "renamed", "forced"
    )
    killed = _table(
        "After SIGKILL half-way", "workspace", "paid before", "paid again", "may be under way"
    )
    searches = _table(
        "memory_search with vectors, with a hanging host, and while the circuit is open",
        "workspace", "well p50", "well p95", "hanging max", "open p50", "open p95",
    )  # fmt: skip
    with together(workspaces) as everything:
        for workspace in (*workspaces, everything):
            for limits in HOSTS:
                await count_requests(workspace, limits, requests)
    for workspace in workspaces:
        await count_changes(workspace, changes)
        await count_after_kill(workspace, killed)
        await time_searches(workspace, searches)
    for table in (requests, changes, killed, searches):
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspaces", nargs="+", type=Path)
    options = parser.parse_args()
    workspaces = [workspace.resolve() for workspace in options.workspaces]
    anyio.run(measure, workspaces, Console(width=120))


if __name__ == "__main__":
    main()
