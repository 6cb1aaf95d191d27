"""Measures how long a search through the pipe takes in a large index, by keywords, by vectors and by both.

Starts the real gateway on indexes of seeded text and asks natural questions of 6 to 12 words. The time for
a question's vector is the provider's: each is asked twice, and measured when its vector is known.
"""

from __future__ import annotations

import argparse
import json
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import anyio
import apsw
import numpy as np
from rich.console import Console
from rich.table import Table

from backends.builtin.store.sqlite.store import SqliteStore
from benchmarks.large_index import Size, ZipfText, make_index, set_fingerprint
from benchmarks.plot import draw
from benchmarks.running import embedding_with, figures, home, resident_bytes, timed
from benchmarks.scoring import percentile
from benchmarks.vectors import FloatTable, random_vectors
from config.loading import load_settings
from config.source.discover import LoadRequest
from fakes.vendors import FakeVendor
from gateway.client import SpawnedGateway, spawn_gateway
from providers.choosing import choose, open_embeddings
from providers.provider_interface import Fingerprint

PLOT: Final = Path(__file__).resolve().parents[2] / "docs/search.svg"
ENGINES: Final = ("resident", "sqlite-vec", "numpy")
MODES: Final = ("keyword", "vector", "hybrid")
QUERIES: Final = 100
ROUNDS: Final = 3
"""The rounds with the same questions, after a first one that warms up; the median is shown."""
MAX_SECONDS: Final = 30.0
HEALTH_CHECKS: Final = 100
EDITS: Final = 20
"""The edits in a round: the growth from one alone is hidden by whole pages and by the merging of the word index."""
NOTE_CHUNKS: Final = 5
HEALTH_PAUSE_S: Final = 0.02
PAUSE_S: Final = 0.2
TABLE_QUERIES: Final = 10
PATIENCE_S: Final = 600.0


class Row(NamedTuple):
    """The figures of one run, in milliseconds and bytes."""

    chunks: int
    dimensions: int
    mode: str
    engine: str
    p50: float
    p95: float
    sweep: float
    """The part of p50 that the look at the disk takes."""
    health: float
    """The 95th percentile while searches run."""
    resident: int
    database: int
    publish: float = 0.0
    """The time from the end of writing a line to the answer that contains it, by keywords."""
    growth: float = 0.0
    """The bytes that the database grows by for a published line, if the file's other chunks stay the same."""
    table: float = 0.0
    """The time of sqlite-vec's float table of 50,000 x 1536 in the same minutes; 0: not asked."""

    @property
    def line(self) -> str:
        return self.mode if self.mode == "keyword" else f"{self.mode}, {self.engine}"


class Yardstick:
    """sqlite-vec's float table of 50,000 x 1536, asked alternately with the gateway."""

    def __init__(self, directory: Path) -> None:
        vectors, self._queries = random_vectors(50_000, 1536)
        self._table = FloatTable(directory, vectors)
        self._table.ask(self._queries[0])

    def ms(self) -> float:
        """Returns the median of some of its answers now."""
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
        set_fingerprint(database, fingerprint)
        database.close()

    def _fingerprint(self) -> Fingerprint:
        """Returns the fingerprint that the gateway will give to the vectors of the host."""
        self._arguments()
        config = self._root / "openclaw.json"
        settings = load_settings(LoadRequest(environment={}, cwd=self._root, config_path=config))
        embeddings = open_embeddings(settings, choose(settings))
        assert embeddings is not None
        return embeddings.fingerprint

    def _arguments(self, mode: str = "hybrid", engine: str = "auto") -> list[str]:
        vector = {"engine": engine, "maxResidentMB": 4096}
        search = embedding_with(self._host) | {
            "store": {"path": str(self._index), "vector": vector},
            "query": {"hybrid": {"enabled": mode != "vector"}},
        }
        if mode == "keyword":
            search["provider"] = "none"
        return home(self._root, self._workspace, "warning", **search)

    @asynccontextmanager
    async def gateway(self, mode: str, engine: str) -> AsyncIterator[SpawnedGateway]:
        async with spawn_gateway(self._arguments(mode, engine)) as client:
            await client.call("sync", {}, timeout_s=PATIENCE_S)
            yield client

    async def publish(self, client: SpawnedGateway) -> tuple[float, float]:
        """Returns the median milliseconds of an edit of a note of usual size, and the bytes that it adds.

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
        """Returns the size of the pages in use."""
        with closing(apsw.Connection(str(self._index))) as connection:
            pages = connection.pragma("page_count") - connection.pragma("freelist_count")
            return int(pages * connection.pragma("page_size"))


async def _edit(client: SpawnedGateway, note: Path) -> float:
    """Adds a line and asks until it is found; returns the milliseconds from the end of writing to the answer."""
    word = f"kingfisher{secrets.token_hex(4)}"
    with note.open("a", encoding="utf-8") as file:
        file.write(f"- A {word} was seen at the weir.\n")
    written = time.perf_counter()
    with anyio.fail_after(PATIENCE_S):
        while True:
            found = await client.call("memory_search", {"query": word}, timeout_s=PATIENCE_S)
            if found["results"]:
                return (time.perf_counter() - written) * 1000


async def loaded(client: SpawnedGateway, question: str, mode: str, engine: str) -> None:
    """Waits until this engine answers; only a search that has its vector makes it load."""
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
    """Returns the latencies of searches, and of their looks at the disk, in milliseconds."""
    latencies, sweeps = [], []
    for question in questions:
        asked = client.call("memory_search", {"query": question}, timeout_s=PATIENCE_S)
        found, milliseconds = await timed(asked)
        latencies.append(milliseconds)
        sweeps.append(found["timings"]["sweep"])
        assert found["mode"] == mode, found
        if sum(latencies) > MAX_SECONDS * 1000:
            break
    return latencies, sweeps


async def _ask_for_health(client: SpawnedGateway, text: ZipfText) -> list[float]:
    """Returns the latencies of `health` while one search follows the other."""

    async def search() -> None:
        while True:
            await client.call("memory_search", {"query": text.question()}, timeout_s=PATIENCE_S)

    latencies = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search)
        for _ in range(HEALTH_CHECKS):
            await anyio.sleep(HEALTH_PAUSE_S)
            latencies.append((await timed(client.call("health", {}, timeout_s=PATIENCE_S)))[1])
        tasks.cancel_scope.cancel()
    return latencies


def read_bandwidth() -> float:
    """Returns the bytes that one core reads in a second."""
    block = np.zeros(1 << 28, np.int8)
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        block.max()
        seconds.append(time.perf_counter() - started)
    return block.nbytes / min(seconds)


def show(rows: Sequence[Row]) -> Table:
    table = figures(
        "Searches through the pipe, without the time for the query's vector",
        "chunks | size | mode | engine | p50 | p95 | for more | of it sweep "
        "| health p95 | resident | database | publish | growth | to table",
    )
    for row in rows:
        table.add_row(
            f"{row.chunks:,}",
            f"{row.dimensions:,}",
            row.mode,
            "" if row.mode == "keyword" else row.engine,
            f"{row.p50:.1f} ms",
            f"{row.p95:.1f} ms",
            _growth(row, rows),
            f"{row.sweep:.1f} ms",
            f"{row.health:.1f} ms",
            f"{row.resident / 1e6:,.0f} MB",
            f"{row.database / 1e6:,.0f} MB",
            f"{row.publish:.1f} ms" if row.publish else "",
            f"{row.growth / 1e3:.1f} kB" if row.publish else "",
            f"{row.p50 / row.table:.3f} of {row.table:.0f} ms" if row.table else "",
        )
    return table


def _growth(row: Row, rows: Iterable[Row]) -> str:
    """Returns the factors by which p50 and the chunks grow from the next smaller index."""
    smaller = [
        one
        for one in rows
        if (one.line, one.dimensions) == (row.line, row.dimensions) and one.chunks < row.chunks
    ]
    if not smaller:
        return ""
    before = max(smaller, key=lambda one: one.chunks)
    return f"{row.p50 / before.p50:.1f}x for {row.chunks / before.chunks:g}x"


def plot(rows: Iterable[Row], dimensions: int) -> None:
    chosen = sorted((row for row in rows if row.dimensions == dimensions), key=lambda row: row.line)
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in chosen:
        lines.setdefault(row.line, []).append((row.chunks, row.p50))
    speed = read_bandwidth()
    limit = f"reading int8 at {speed / 1e9:.0f} GB/s"
    sizes = sorted({row.chunks for row in chosen})
    lines[limit] = [(chunks, chunks * dimensions / speed * 1000) for chunks in sizes]
    title = f"Median latency of a search through the pipe, {dimensions} dimensions"
    draw(PLOT, lines, title=title, x="chunks", y="ms", dashed=limit)


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
