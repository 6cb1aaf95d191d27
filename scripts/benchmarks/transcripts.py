"""Measures a long transcript: the memory while it is indexed, and what 200 more turns cost."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.notes import NoteWriter
from benchmarks.running import embedded, embedding_with, figures, home, resident_bytes, timed
from fakes.vendors import FakeVendor
from gateway.client import SpawnedGateway, spawn_gateway

_MB = 1_000_000
_PATIENCE_S = 3600
_VARIANTS = 400
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.95)


class ConversationWriter:
    """Writes seeded JSONL, most of which is tool output. One round is a question, some tool output and an answer."""

    def __init__(self, directory: Path, tool_bytes: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "4f1c2a9e-long.jsonl"
        self._tool_bytes = tool_bytes
        self._turns = 0
        notes = NoteWriter()
        self._questions = [notes.sentence(20) for _ in range(_VARIANTS)]
        self._answers = [" ".join(notes.sentence(20) for _ in range(5)) for _ in range(_VARIANTS)]
        self.path.write_text(json.dumps({"type": "session", "id": "long"}) + "\n", encoding="utf-8")

    def write(self, *, size: int | None = None, turns: int | None = None) -> None:
        """Appends rounds until the file has `size` bytes, or so many more turns. Each turn is unique."""
        goal = None if turns is None else self._turns + turns
        with self.path.open("a", encoding="utf-8") as file:
            while file.tell() < (size or 0) or self._turns < (goal or 0):
                file.write(self._round())

    def _round(self) -> str:
        question = self._questions[self._turns % _VARIANTS]
        answer = self._answers[self._turns * 7 % _VARIANTS]
        self._turns += 2
        number = f"turn{self._turns:07d}"
        return (
            _line("user", f"{number} {question}")
            + _line("toolResult", "0123456789abcdef" * (self._tool_bytes // 16))
            + _line("assistant", f"{number} {answer}")
        )


def _line(role: str, text: str) -> str:
    content = [{"type": "text", "text": text}]
    return json.dumps({"type": "message", "message": {"role": role, "content": content}}) + "\n"


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
        assert self._pid is not None
        return resident_bytes(self._pid) // _MB

    def at(self, share: float) -> int:
        """Returns the first sample after this share of the work was done."""
        return next(size for done, size in self.samples if done >= share)


@asynccontextmanager
async def gateway(
    root: Path, search: dict[str, Any], resident: Resident
) -> AsyncIterator[SpawnedGateway]:
    (root / "workspace").mkdir(exist_ok=True)
    sessions = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
    arguments = home(root, root / "workspace", **sessions, **search)
    async with spawn_gateway(arguments, notified=resident.notified) as client:
        status: Any = await client.call("status", {}, timeout_s=60)
        resident.watch(status["pid"])
        yield client


async def measure_memory(megabytes: int, tool_bytes: int, table: Table) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root, resident = Path(scratch), Resident()
        async with gateway(root, {}, resident) as client:
            writer = ConversationWriter(root / "agents/main/sessions", tool_bytes)
            writer.write(size=megabytes * _MB)
            before = resident.now()
            sync = client.call("sync", {"reason": "manual"}, timeout_s=_PATIENCE_S)
            _, milliseconds = await timed(sync)
            status: Any = await client.call("status", {}, timeout_s=60)
        shares = [f"{resident.at(share)}" for share in _SHARES]
        table.add_row(
            f"{megabytes} MB", f"{tool_bytes:,}", f"{status['chunks']:,}", f"{milliseconds / 1000:.0f} s",
            f"{before}", *shares, f"{max(s for _, s in resident.samples)}",
        )  # fmt: skip


async def measure_append(megabytes: int, tool_bytes: int, turns: int, table: Table) -> None:
    with tempfile.TemporaryDirectory() as scratch, FakeVendor("openai", max_items=512) as host:
        root, resident = Path(scratch), Resident()
        writer = ConversationWriter(root / "agents/main/sessions", tool_bytes)
        writer.write(size=megabytes * _MB)
        async with gateway(root, embedding_with(host), resident) as client:
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
    """Waits for the sync that the growth caused; returns its report."""
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
    memory = figures(
        "Resident memory (MB) while one transcript is indexed by keyword",
        "transcript | tool bytes | chunks | time | before",
        *(f"at {share:.0%}" for share in _SHARES),
        "most",
    )
    for megabytes in options.memory_mb:
        anyio.run(measure_memory, megabytes, options.tool_bytes, memory)
    console.print(memory)
    append = figures(
        "What more turns cost",
        "transcript | embedded before | more turns | more bytes | bytes read "
        "| new chunks | texts embedded | to indexed",
    )
    for megabytes in options.append_mb:
        anyio.run(measure_append, megabytes, options.tool_bytes, options.turns, append)
    console.print(append)


if __name__ == "__main__":
    main()
