"""How long a search takes in a large index, by keywords, by vectors and by both, through the pipe.

Starts the real gateway on indexes of seeded text and asks natural questions of 6 to 12 words. The time for
a question's vector is the provider's: each is asked twice, and measured when its vector is known.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio
import apsw
from rich.console import Console

from backends.builtin.store.sqlite.store import SqliteStore
from benchmarks.large_index import Size, ZipfText, adopt, make_index
from benchmarks.scoring import percentile
from benchmarks.search_report import Row, plot, show
from benchmarks.start import resident_bytes
from benchmarks.vectors import FloatTable, random_vectors
from config.loading.load import load_settings
from config.source.discover import LoadRequest
from fakes.vendors import FakeVendor
from gateway.client import SpawnedGateway, spawn_gateway
from providers.choosing import choose, open_embeddings
from providers.provider_interface import Fingerprint

ENGINES: Final = ("resident", "sqlite-vec", "numpy")
MODES: Final = ("keyword", "vector", "hybrid")
QUERIES: Final = 100
ROUNDS: Final = 3
"""How often the same questions are asked, after a first round that warms up; the median is shown."""
MAX_SECONDS: Final = 30.0
HEALTH_CHECKS: Final = 100
EDITS: Final = 20
"""In a round. What one adds is lost in whole pages and in the merging of the word index."""
NOTE_CHUNKS: Final = 5
HEALTH_PAUSE_S: Final = 0.02
PAUSE_S: Final = 0.2
TABLE_QUERIES: Final = 10
PATIENCE_S: Final = 600.0


class Yardstick:
    """sqlite-vec's float table of 50,000 x 1536, asked by turns with the gateway."""

    def __init__(self, directory: Path) -> None:
        vectors, self._queries = random_vectors(50_000, 1536)
        self._table = FloatTable(directory, vectors)
        self._table.ask(self._queries[0])

    def ms(self) -> float:
        """The median of some of its answers now."""
        taken = []
        for query in self._queries[:TABLE_QUERIES]:
            started = time.perf_counter()
            self._table.ask(query)
            taken.append((time.perf_counter() - started) * 1000)
        return median(taken)


class Bench:
    """One index with its notes, and the host that embeds queries."""

    def __init__(self, root: Path, size: Size, host: FakeVendor) -> None:
        self.size = size
        self._root = root
        self._host = host
        self._workspace = root / "workspace"
        self._index = root / "index.sqlite"

    def prepare(self) -> None:
        """Makes the index, unless it is there already."""
        fingerprint = self._fingerprint()
        made = self._root / "complete"
        database = SqliteStore(self._index)
        if not made.exists():
            make_index(self._workspace, database, self.size, fingerprint)
            made.touch()
        adopt(database, fingerprint)
        database.close()

    def _fingerprint(self) -> Fingerprint:
        """What the gateway will call the vectors of the host."""
        settings = load_settings(
            LoadRequest(environment={}, cwd=self._root, config_path=self._configure())
        )
        embeddings = open_embeddings(settings, choose(settings))
        assert embeddings is not None
        return embeddings.fingerprint

    def _configure(self, mode: str = "hybrid", engine: str = "auto") -> Path:
        config = self._root / "openclaw.json"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(json.dumps(self._settings(mode, engine)), encoding="utf-8")
        return config

    def _settings(self, mode: str, engine: str) -> dict[str, Any]:
        vector = {"engine": engine, "maxResidentMB": 4096}
        search: dict[str, Any] = {"store": {"path": str(self._index), "vector": vector}}
        search |= {"provider": "none"} if mode == "keyword" else {"provider": "openai"}
        search["remote"] = {"baseUrl": self._host.base_url, "apiKey": self._host.key}
        search["query"] = {"hybrid": {"enabled": mode != "vector"}}
        return {"agents": {"defaults": {"memorySearch": search}}}

    @asynccontextmanager
    async def gateway(self, mode: str, engine: str) -> AsyncIterator[SpawnedGateway]:
        arguments = ["--workspace", str(self._workspace), "--state-dir", str(self._root / "state")]
        arguments += ["--config", str(self._configure(mode, engine)), "--log-level", "warning"]
        async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
            await client.call("sync", {}, timeout_s=PATIENCE_S)
            yield client

    async def publish(self, client: SpawnedGateway) -> tuple[float, float]:
        """(median latency in milliseconds, bytes that it adds) of an edit of a note of usual size.

        The first round makes room and is not counted.
        """
        note = self._workspace / "memory/weir.md"
        note.write_text("".join(ZipfText(1).chunk()[0] for _ in range(NOTE_CHUNKS)), "utf-8")
        latencies, growths = [], []
        for _ in range(1 + ROUNDS):
            before = self._bytes()
            latencies.append(median([await _edit(client, note) for _ in range(EDITS)]))
            growths.append((self._bytes() - before) / EDITS)
        return median(latencies[1:]), median(growths[1:])

    def _bytes(self) -> int:
        """The size of the pages in use."""
        with closing(apsw.Connection(str(self._index))) as connection:
            pages = connection.pragma("page_count") - connection.pragma("freelist_count")
            return int(pages * connection.pragma("page_size"))


async def _edit(client: SpawnedGateway, note: Path) -> float:
    """Adds a line and asks for it; milliseconds from the end of writing to the answer."""
    word = f"kingfisher{secrets.token_hex(4)}"
    with note.open("a", encoding="utf-8") as file:
        file.write(f"- A {word} was seen at the weir.\n")
    started = time.perf_counter()
    found = await client.call("memory_search", {"query": word}, timeout_s=PATIENCE_S)
    assert found["results"], found
    return (time.perf_counter() - started) * 1000


async def loaded(client: SpawnedGateway, question: str, mode: str, engine: str) -> None:
    """Waits until this engine answers; only a search that had its vector makes it load."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            if await _is_loaded(client, question, mode, engine):
                return
            await anyio.sleep(PAUSE_S)


async def _is_loaded(client: SpawnedGateway, question: str, mode: str, engine: str) -> bool:
    found = await client.call("memory_search", {"query": question}, timeout_s=PATIENCE_S)
    if found["mode"] != mode:
        return False
    status = await client.call("status", {}, timeout_s=PATIENCE_S)
    search = status["details"]["vector"].get("search")
    return search is None or search["engine"] == engine


async def measure(bench: Bench, mode: str, engine: str, table: Yardstick | None) -> Row:
    text = ZipfText(7)
    async with bench.gateway(mode, engine) as client:
        await loaded(client, text.question(), mode, engine)
        questions = [text.question() for _ in range(QUERIES)]
        known, _ = await _ask(client, mode, questions)
        rounds, tables = [], []
        for _ in range(ROUNDS):
            tables.append(table.ms() if table else 0.0)
            rounds.append(await _ask(client, mode, questions[: len(known)]))
        health = await _ask_for_health(client, text)
        publish, growth = await bench.publish(client) if mode == "keyword" else (0.0, 0.0)
        status = await client.call("status", {}, timeout_s=PATIENCE_S)
        return Row(
            *bench.size,
            mode,
            engine,
            p50=median(percentile(latencies, 0.5) for latencies, _ in rounds),
            p95=median(percentile(latencies, 0.95) for latencies, _ in rounds),
            sweep=median(percentile(sweeps, 0.5) for _, sweeps in rounds),
            health=percentile(health, 0.95),
            resident=resident_bytes(client.process.pid),
            database=status["databaseBytes"],
            publish=publish,
            growth=growth,
            table=median(tables),
        )


async def _ask(
    client: SpawnedGateway, mode: str, questions: list[str]
) -> tuple[list[float], list[float]]:
    """(latencies, looks at the disk), in milliseconds."""
    latencies, sweeps = [], []
    for question in questions:
        started = time.perf_counter()
        found = await client.call("memory_search", {"query": question}, timeout_s=PATIENCE_S)
        latencies.append((time.perf_counter() - started) * 1000)
        sweeps.append(found["timings"]["sweep"])
        assert found["mode"] == mode, found
        if sum(latencies) > MAX_SECONDS * 1000:
            break
    return latencies, sweeps


async def _ask_for_health(client: SpawnedGateway, text: ZipfText) -> list[float]:
    """Latencies of `health` while one search follows the other."""

    async def search() -> None:
        while True:
            await client.call("memory_search", {"query": text.question()}, timeout_s=PATIENCE_S)

    latencies = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search)
        for _ in range(HEALTH_CHECKS):
            await anyio.sleep(HEALTH_PAUSE_S)
            started = time.perf_counter()
            await client.call("health", {}, timeout_s=PATIENCE_S)
            latencies.append((time.perf_counter() - started) * 1000)
        tasks.cancel_scope.cancel()
    return latencies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[768])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--table", action="store_true", help="set against sqlite-vec's own table")
    parser.add_argument("--keep", type=Path, help="directory for indexes and results of later runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        table = Yardstick(Path(scratch)) if options.table else None
        anyio.run(_run, options, options.keep or Path(scratch), table)


async def _run(options: argparse.Namespace, root: Path, table: Yardstick | None) -> None:
    results = root / "results.json"
    known = json.loads(results.read_text(encoding="utf-8")) if results.exists() else []
    rows = {row[:4]: row for row in (Row(*one) for one in known)}
    for size in (Size(n, d) for n in options.chunks for d in options.dimensions):
        with FakeVendor("openai", dimensions=size.dimensions) as host:
            bench = Bench(root / size.name, size, host)
            bench.prepare()
            for mode in options.modes:
                for engine in options.engines if mode != "keyword" else ["resident"]:
                    row = await measure(bench, mode, engine, table)
                    rows[row[:4]] = row
                    Console(width=170).print(show([row]))
                    results.write_text(json.dumps(list(rows.values())), encoding="utf-8")
    ordered = sorted(rows.values(), key=lambda row: (row.dimensions, row.chunks, row.line))
    Console(width=170).print(show(ordered))
    for dimensions in options.dimensions[:1]:
        plot(ordered, dimensions)


if __name__ == "__main__":
    main()
