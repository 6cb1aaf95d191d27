"""Measures how fast each engine finds the nearest chunks, what memory it takes, and how often it is right.

Asks the engines directly, with random unit vectors: the hardest case for int8, since the best of them differ
least. Ratios are within one run; with `--table` also against a float table of sqlite-vec, which would be
a second copy of the vectors. With `--locomo` the vectors are MiniLM's of every line and question there.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw
import numpy as np
from rich.console import Console

from backends.builtin.store.sqlite.embeddings import SqliteEmbeddings, fingerprint_id
from backends.builtin.store.sqlite.resident import ResidentEngine
from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.store.sqlite.vector_engines import (
    Extension,
    NumpyScan,
    SqliteScan,
    VectorEngine,
    VectorQuery,
)
from benchmarks.large_index import Vectors, random_units
from benchmarks.minilm_gguf import CACHE
from benchmarks.questions import locomo
from benchmarks.running import figures
from benchmarks.scoring import percentile
from benchmarks.vector_cache import CachedEmbedder
from providers.provider_interface import Fingerprint

FINGERPRINT = Fingerprint(provider="benchmark", model="random", endpoint="none")
CHUNKS_A_FILE = 20
BATCH = 5_000
LIMIT = 24
RECALL_AT = 10
MAX_QUERIES = 60
MAX_SECONDS = 4.0
SHORTEST_LINE = 20

Ask = Callable[[Vectors], list[int]]
"""A function from a query to chunk ids, best first."""


class Measured(NamedTuple):
    engine: str
    p50_ms: float
    p95_ms: float
    recall: float
    resident_bytes: int = 0
    loading_s: float = 0.0


def fill(database: SqliteStore, vectors: Vectors) -> float:
    """Adds chunks 1 ... n with these vectors. Returns the bytes that a vector takes in the database."""
    hashes = [hashlib.sha256(str(number).encode()).digest() for number in range(len(vectors))]
    with database.writing() as connection:
        connection.executemany(
            "INSERT INTO files (source, path, size, mtime_ns, ctime_ns, inode, content_hash, pipeline,"
            " chunk_count, read_at_ns) VALUES ('memory', ?, 1, 1, 1, 1, ?, 'benchmark', ?, 1)",
            [
                (f"memory/{start}.md", hashes[start], len(hashes[start : start + CHUNKS_A_FILE]))
                for start in range(0, len(hashes), CHUNKS_A_FILE)
            ],
        )
        connection.executemany(
            "INSERT INTO chunks (file_id, start, start_line, end_line, identity, text, words)"
            " VALUES (?, ?, 1, 1, ?, '', x'')",
            [
                (number // CHUNKS_A_FILE + 1, number, text_hash)
                for number, text_hash in enumerate(hashes)
            ],
        )
        connection.executemany(
            'INSERT INTO excerpts (chunk_id, file_id, start, "end", line, text_hash)'
            " VALUES (?, ?, 0, 0, 0, ?)",
            [
                (number + 1, number // CHUNKS_A_FILE + 1, text_hash)
                for number, text_hash in enumerate(hashes)
            ],
        )
    before = pages_bytes(database)
    for start in range(0, len(hashes), BATCH):
        block = zip(hashes[start : start + BATCH], vectors[start : start + BATCH], strict=True)
        with database.writing() as connection:
            SqliteEmbeddings(connection).put(FINGERPRINT, list(block))
    return (pages_bytes(database) - before) / len(hashes)


def pages_bytes(database: SqliteStore) -> int:
    with database.reading() as connection:
        return connection.pragma("page_count") * connection.pragma("page_size")


def measure(name: str, ask: Ask, queries: Vectors, exact: list[set[int]]) -> Measured:
    latencies, right = [], 0
    ask(queries[0])
    for query, expected in zip(queries, exact, strict=True):
        started = time.perf_counter()
        found = ask(query)
        latencies.append((time.perf_counter() - started) * 1000)
        right += len(expected.intersection(found[:RECALL_AT]))
        if sum(latencies) > MAX_SECONDS * 1000:
            break
    recall = right / (RECALL_AT * len(latencies))
    p50, p95 = percentile(latencies, 0.5), percentile(latencies, 0.95)
    return Measured(name, p50, p95, recall)


def engines(database: SqliteStore, queries: Vectors, exact: list[set[int]]) -> Iterator[Measured]:
    with database.reading() as connection:
        number = fingerprint_id(connection, FINGERPRINT)
        resident = ResidentEngine(max_bytes=1 << 40)
        started = time.perf_counter()
        resident.refresh(connection, number)
        loading_s = time.perf_counter() - started
        each: list[VectorEngine] = [NumpyScan(), SqliteScan(Extension()), resident]
        for engine in each:

            def ask(query: Vectors, engine: VectorEngine = engine) -> list[int]:
                answer = engine.search(VectorQuery(connection, number, query, LIMIT))
                return [hit.excerpt_id for hit in answer.hits]

            measured = measure(engine.name, ask, queries, exact)
            if engine is resident:
                size = resident.resident_bytes
                measured = measured._replace(resident_bytes=size, loading_s=loading_s)
            yield measured


class FloatTable:
    """The yardstick: the virtual table that sqlite-vec itself offers."""

    def __init__(self, directory: Path, vectors: Vectors) -> None:
        self._connection = connection = apsw.Connection(str(directory / "table.sqlite"))
        problem = Extension().load_into(connection)
        assert problem is None, problem
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(
            "CREATE VIRTUAL TABLE vectors USING"
            f" vec0 (vector float[{vectors.shape[1]}] distance_metric=cosine)"
        )
        with connection:
            rows = ((number, vector.tobytes()) for number, vector in enumerate(vectors, 1))
            connection.executemany("INSERT INTO vectors (rowid, vector) VALUES (?, ?)", rows)

    def ask(self, query: Vectors) -> list[int]:
        rows = self._connection.execute(
            "SELECT rowid FROM vectors WHERE vector MATCH ? AND k = ? ORDER BY distance",
            (query.tobytes(), LIMIT),
        )
        return [number for (number,) in rows]

    def close(self) -> None:
        self._connection.close()


def compare(vectors: Vectors, queries: Vectors, *, table: bool) -> tuple[list[Measured], float]:
    best = [np.argpartition(-(vectors @ query), RECALL_AT)[:RECALL_AT] for query in queries]
    exact = [set((rows + 1).tolist()) for rows in best]
    with tempfile.TemporaryDirectory() as scratch:
        database = SqliteStore(Path(scratch) / "index.sqlite")
        bytes_each = fill(database, vectors)
        measured = list(engines(database, queries, exact))
        database.close()
        if table:
            with closing(FloatTable(Path(scratch), vectors)) as floats:
                measured.insert(0, measure("float table", floats.ask, queries, exact))
    return measured, bytes_each


def random_vectors(chunks: int, dimensions: int) -> tuple[Vectors, Vectors]:
    rng = np.random.default_rng(chunks + dimensions)
    return random_units(rng, chunks, dimensions), random_units(rng, MAX_QUERIES, dimensions)


def real_vectors(directory: Path) -> tuple[Vectors, Vectors]:
    """Returns vectors of the lines of all notes below `directory`, and of the questions about them."""
    from benchmarks.minilm import MiniLM  # noqa: PLC0415 - loads llama.cpp

    notes = [path.read_text(encoding="utf-8") for path in sorted(directory.rglob("*.md"))]
    lines = {line for note in notes for line in note.splitlines() if len(line) > SHORTEST_LINE}
    questions = [one.query for collection in locomo(directory) for one in collection.questions]
    with CachedEmbedder(MiniLM(), CACHE / "vectors.sqlite") as model:
        return model.embed(sorted(lines)), model.embed(questions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="*", default=[1_000, 10_000, 50_000, 100_000])
    parser.add_argument("--dimensions", type=int, nargs="*", default=[384, 768, 1536])
    parser.add_argument("--table", action="store_true", help="also sqlite-vec's own (slow to fill)")
    parser.add_argument("--locomo", type=Path, help="directory with conv-*/ workspaces")
    options = parser.parse_args()
    sizes = [(n, d) for n in options.chunks for d in options.dimensions]
    sets = (
        [real_vectors(options.locomo)]
        if options.locomo
        else (random_vectors(*size) for size in sizes)
    )
    shown = figures(
        f"The {LIMIT} nearest vectors, one search at a time",
        "chunks | size | engine | p50 | p95 | faster | resident | of float32 | loaded in "
        f"| recall@{RECALL_AT} | disk each",
    )
    for vectors, queries in sets:
        measured, bytes_each = compare(vectors, queries, table=options.table)
        for one in measured:
            shown.add_row(
                f"{len(vectors):,}",
                f"{vectors.shape[1]:,}",
                one.engine,
                f"{one.p50_ms:.2f} ms",
                f"{one.p95_ms:.2f} ms",
                f"{measured[0].p50_ms / one.p50_ms:.1f} x",
                f"{one.resident_bytes / 1e6:.1f} MB",
                f"{one.resident_bytes / vectors.nbytes:.3f}",
                f"{one.loading_s:.1f} s",
                f"{one.recall:.3f}",
                f"{bytes_each:,.0f} B",
            )
        shown.add_section()
    Console(width=140).print(shown)


if __name__ == "__main__":
    main()
