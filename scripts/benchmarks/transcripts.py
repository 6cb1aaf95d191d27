"""A long transcript: memory while it is indexed, and what 200 more turns cost."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.conversations import ConversationWriter
from benchmarks.embedding import embedded
from fakes.vendors import FakeVendor
from gateway.client import SpawnedGateway, spawn_gateway

_MB = 1_000_000
_PATIENCE_S = 3600
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.95)


class Resident:
    """Samples the resident memory of the gateway while a sync reports its progress."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self.samples: list[tuple[float, int]] = []

    def notified(self, _method: str, params: Any) -> None:
        if self._pid is not None and params.get("bytesTotal"):
            self.samples.append((params["bytesDone"] / params["bytesTotal"], self.now()))

    def watch(self, pid: int) -> None:
        self._pid = pid

    def now(self) -> int:
        status = Path(f"/proc/{self._pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)

    def at(self, share: float) -> int:
        """The first sample after this share of the work was done."""
        return next(size for done, size in self.samples if done >= share)


@asynccontextmanager
async def gateway(
    root: Path, search: dict[str, Any], resident: Resident
) -> AsyncIterator[SpawnedGateway]:
    search = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}, **search}
    config = root / "openclaw.json"
    config.write_text(
        json.dumps({"agents": {"defaults": {"memorySearch": search}}}), encoding="utf-8"
    )
    (root / "workspace").mkdir(exist_ok=True)
    arguments = ["--workspace", str(root / "workspace"), "--state-dir", str(root)]
    arguments += ["--config", str(config), "--log-level", "error"]
    async with spawn_gateway(
        arguments, environment=dict(os.environ), notified=resident.notified
    ) as client:
        status: Any = await client.call("status", {}, timeout_s=60)
        resident.watch(status["pid"])
        yield client


async def measure_memory(megabytes: int, tool_bytes: int, table: Table) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root, resident = Path(scratch), Resident()
        async with gateway(root, {"provider": "none"}, resident) as client:
            writer = ConversationWriter(root / "agents/main/sessions", tool_bytes)
            writer.write(size=megabytes * _MB)
            before = resident.now()
            started = time.perf_counter()
            await client.call("sync", {"reason": "manual"}, timeout_s=_PATIENCE_S)
            seconds = time.perf_counter() - started
            status: Any = await client.call("status", {}, timeout_s=60)
        shares = [f"{resident.at(share) / 1024:.0f}" for share in _SHARES]
        table.add_row(
            f"{megabytes} MB", f"{tool_bytes:,}", f"{status['chunks']:,}", f"{seconds:.0f} s",
            f"{before / 1024:.0f}", *shares, f"{max(s for _, s in resident.samples) / 1024:.0f}",
        )  # fmt: skip


async def measure_append(megabytes: int, tool_bytes: int, turns: int, table: Table) -> None:
    with tempfile.TemporaryDirectory() as scratch, FakeVendor("openai", max_items=512) as host:
        root, resident = Path(scratch), Resident()
        remote = {"baseUrl": host.base_url, "apiKey": host.key}
        writer = ConversationWriter(root / "agents/main/sessions", tool_bytes)
        writer.write(size=megabytes * _MB)
        search = {"provider": "openai", "remote": remote}
        async with gateway(root, search, resident) as client:
            await client.call("sync", {}, timeout_s=_PATIENCE_S)
            await embedded(client)
            first = len(host.embedded())
            size = writer.path.stat().st_size
            writer.write(turns=turns)
            grown = writer.path.stat().st_size - size
            started = time.perf_counter()
            await client.call("session_updated", {"path": str(writer.path)})
            report = await _follow_up(client)
            seconds = time.perf_counter() - started
            await embedded(client)
        texts = len(host.embedded()) - first
        table.add_row(
            f"{megabytes} MB", f"{first:,}", str(turns), f"{grown / 1000:,.0f} kB",
            f"{report['bytesRead'] / 1000:,.0f} kB", str(report["chunksWritten"]), str(texts),
            f"{seconds * 1000:.0f} ms",
        )  # fmt: skip


async def _follow_up(client: SpawnedGateway) -> dict[str, Any]:
    """The report of the sync that the growth caused."""
    with anyio.fail_after(60):
        while True:
            status: Any = await client.call("status", {}, timeout_s=60)
            report: dict[str, Any] = status["recentSyncs"][0]
            if "session-delta" in report["reason"]:
                return report
            await anyio.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory-mb", type=int, nargs="*", default=[50, 500])
    parser.add_argument("--append-mb", type=int, nargs="*", default=[100])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--tool-bytes", type=int, default=16_000, help="tool output in each round")
    options = parser.parse_args()
    console = Console(width=140)
    memory = Table(title="Resident memory (MB) while one transcript is indexed by keyword")
    shares = (f"at {share:.0%}" for share in _SHARES)
    for column in ("transcript", "tool bytes", "chunks", "time", "before", *shares, "most"):
        memory.add_column(column, justify="right")
    for megabytes in options.memory_mb:
        anyio.run(measure_memory, megabytes, options.tool_bytes, memory)
    console.print(memory)
    append = Table(title="What more turns cost")
    for column in ("transcript", "embedded before", "more turns", "more bytes", "bytes read",
                   "new chunks", "texts embedded", "to indexed"):  # fmt: skip
        append.add_column(column, justify="right")
    for megabytes in options.append_mb:
        anyio.run(measure_append, megabytes, options.tool_bytes, options.turns, append)
    console.print(append)


if __name__ == "__main__":
    main()
