"""Checks that PostgreSQL finds what SQLite finds, and measures how much longer it takes.

Starts two real gateways on each workspace, one over each store, asks both every question of the recall benchmark in
turn, and compares every hit: path, lines, text and score. Options add random indexes of any size, the share of the
nearest vectors that an approximate index finds, many gateways on one database, and the first answers of new ones.
`--pgbouncer` does all of it through pgbouncer.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
    nullcontext,
)
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from rich.console import Console
from rich.table import Table

from backends.builtin.searching import Searcher
from backends.builtin.store.port import Store
from backends.builtin.store.postgres.connections import Address
from backends.builtin.store.postgres.schema import index_vectors
from backends.builtin.store.postgres.store import PostgresStore
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import SearchRequest
from benchmarks.embedding_server import EmbeddingServer, embedding_server
from benchmarks.hash_embedder import HashEmbedder
from benchmarks.large_index import Size, ZipfText, make_index, random_units
from benchmarks.minilm import MiniLM
from benchmarks.minilm_gguf import CACHE
from benchmarks.notes import NoteWriter
from benchmarks.qmd_home import DIRECT_CHAT
from benchmarks.questions import Collection, locomo, multilingual, sample
from benchmarks.recall import SAMPLE_QUESTIONS, SYSTEMS, System
from benchmarks.running import configured, embedded, figures, resident_bytes, timed
from benchmarks.scoring import percentile
from benchmarks.vector_cache import CachedEmbedder
from config.settings import MemorySearchSettings, StoreSettings, VectorStoreSettings
from fakes import postgres
from gateway.client import SpawnedGateway, spawn_gateway
from providers.provider_interface import Fingerprint, QueryVector

SHOWN_DIFFERENCES = 3
NEAREST = 10
"""The number of nearest vectors that an approximate index has to find."""
NOTES = 300
"""The notes in the workspace of many gateways, and of new ones."""
BULLETS = 30
POD_ROUNDS = 5
DIMENSIONS = 384
"""Those of all-MiniLM-L6-v2."""
WARMING = 5
"""The questions that are asked before times are measured."""


Database = postgres.Server | postgres.Pooled
RANDOM = Fingerprint(provider="openai", model="random", endpoint="none")


@asynccontextmanager
async def gateway(
    collection: Collection, system: System, server: EmbeddingServer, store: dict[str, Any]
) -> AsyncIterator[SpawnedGateway]:
    """Runs a gateway whose index is up to date with the workspace, vectors included."""
    with tempfile.TemporaryDirectory() as state:
        arguments = prepared(collection.workspace, Path(state), system.settings(server), store)
        async with spawn_gateway(arguments) as client:
            await client.call("sync", {}, timeout_s=600)
            if system.model:
                await embedded(client)
            yield client


async def hits(client: SpawnedGateway, query: str) -> tuple[list[Any], float]:
    """Returns what the gateway found, and in how many milliseconds."""
    params = {"query": query, "sessionKey": DIRECT_CHAT}
    result, milliseconds = await timed(client.call("memory_search", params, timeout_s=60))
    return result["results"], milliseconds


async def compare(
    name: str,
    collections: list[Collection],
    system: System,
    server: EmbeddingServer,
    database: Database,
) -> tuple[list[str], list[str]]:
    """Returns a row of the table, and the questions that were answered differently."""
    times: list[list[float]] = [[], []]
    different: list[str] = []
    questions = moved = 0
    for collection in collections:
        rows = database.settings(path=Path("unused"))
        stores = (
            {},
            {"driver": "postgres", "url": rows.url.reveal(), "tenant": rows.tenant},
        )
        async with (
            gateway(collection, system, server, stores[0]) as one,
            gateway(collection, system, server, stores[1]) as other,
        ):
            for question in collection.questions:
                answers = []
                for client, taken in zip((one, other), times, strict=True):
                    found, ms = await hits(client, question.query)
                    answers.append(found)
                    taken.append(ms)
                questions += 1
                moved += [shown(hit) for hit in answers[0]] != [shown(hit) for hit in answers[1]]
                if answers[0] != answers[1]:
                    different.append(f"{question.query}\n  {answers[0]}\n  {answers[1]}")
    halves = [percentile(taken, 0.5) for taken in times]
    row = [
        f"{name}, {system.name}",
        f"{questions - moved} of {questions}",
        f"{questions - len(different)} of {questions}",
        *(f"{ms:.1f} ms" for ms in halves),
        f"{halves[1] / halves[0]:.2f}",
    ]
    return row, different


def shown(hit: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the hit without its score, whose last digit depends on how a machine adds."""
    return hit["path"], hit["startLine"], hit["endLine"], hit["snippet"]


def index_all(server: postgres.Server, serving: StoreSettings) -> None:
    """Makes the approximate index, as `store migrate` does."""
    owner = server.settings(path=serving.path, role=postgres.SUPERUSER, tenant=serving.tenant)
    index_vectors(Address.of(owner), tenant=owner.tenant, agent="main", at_least=1)


def sized(
    chunks: int, database: Database, server: postgres.Server, questions: int
) -> Iterator[list[str]]:
    """Yields rows of the table: random notes, in process, with keywords alone and with random vectors."""
    fingerprint = RANDOM
    size = Size(chunks, DIMENSIONS)
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        root = Path(directory)
        settings = [StoreSettings(path=root / "index.sqlite"), database.settings(path=root)]
        stores: list[Store] = [
            SqliteStore(settings[0].path),
            PostgresStore(settings[1], "main", viewpoint=""),
        ]
        for store in stores:
            stack.callback(store.close)
            store.open_vectors(VectorStoreSettings())
            make_index(root, store, size, fingerprint)
        if chunks >= VectorStoreSettings().hnsw_from:
            index_all(server, settings[1])
        rng = np.random.default_rng(1)
        for lane in ("keyword", "hybrid"):
            asked = [
                (text.question(), random_units(rng, 1, DIMENSIONS)[0])
                for text in [ZipfText(chunks + 1)]
                for _ in range(questions)
            ]
            times: list[list[float]] = [[], []]
            same = unmoved = 0
            searchers = [Searcher(MemorySearchSettings(store=one)) for one in settings]
            for text, vector in [*asked[:WARMING], *asked]:
                found = []
                for searcher, store, taken in zip(searchers, stores, times, strict=True):
                    meaning = QueryVector(vector, fingerprint) if lane == "hybrid" else None
                    started = time.perf_counter()
                    with store.view() as view:
                        found.append(searcher.search(view, SearchRequest(query=text), meaning).hits)
                        if meaning is not None:
                            view.vectors(fingerprint).refresh()
                    taken.append((time.perf_counter() - started) * 1000)
                same += found[0] == found[1]
                places = [[(hit.path, hit.stretches, hit.snippet) for hit in one] for one in found]
                unmoved += places[0] == places[1]
            halves = [percentile(taken[WARMING:], 0.5) for taken in times]
            yield [
                f"{chunks:,} random chunks, {lane}, in process",
                f"{unmoved} of {len(times[0])}",
                f"{same} of {len(times[0])}",
                *(f"{ms:.1f} ms" for ms in halves),
                f"{halves[1] / halves[0]:.2f}",
            ]


def recall(
    texts: int, conversations: Path, database: Database, server: postgres.Server, minilm: MiniLM
) -> str:
    """Measures the share of the nearest vectors that an approximate index finds.

    Each text is two lines of real conversations, and the queries are the questions about these.
    """
    collections = locomo(conversations)
    lines = [
        line
        for collection in collections
        for note in sorted(collection.workspace.rglob("*.md"))
        for line in note.read_text(encoding="utf-8").splitlines()
        if len(line) > 40
    ]
    chance = random.Random(1)
    made = ["\n".join(chance.sample(lines, 2)) for _ in range(texts)]
    vectors = minilm.embed(made)
    asked = minilm.embed([one.query for each in collections for one in each.questions])
    with tempfile.TemporaryDirectory() as directory:
        settings = database.settings(path=Path(directory) / "unused")
        with closing(PostgresStore(settings, "main", viewpoint="")) as store:
            make_index(Path(directory), store, Size(texts, DIMENSIONS), RANDOM, vectors)
            index_all(server, settings)
            found: list[list[set[int]]] = []
            times: list[list[float]] = []
            for hnsw_from in (10**9, 1):
                store.open_vectors(VectorStoreSettings(hnsw_from=hnsw_from))
                found.append([])
                times.append([])
                for query in [*asked[:WARMING], *asked]:
                    started = time.perf_counter()
                    with store.view() as view:
                        answer = view.vectors(RANDOM).search(query, limit=NEAREST)
                    times[-1].append((time.perf_counter() - started) * 1000)
                    found[-1].append({hit.excerpt_id for hit in answer.hits})
    shared = [len(exact & near) / NEAREST for exact, near in zip(*found, strict=True)][WARMING:]
    exact, near = (percentile(taken[WARMING:], 0.5) for taken in times)
    return (
        f"{texts:,} vectors of MiniLM, {len(asked)} questions: recall@{NEAREST} {np.mean(shared):.4f},"
        f" worst {min(shared):.1f}; exact {exact:.1f} ms, approximate {near:.1f} ms"
    )


@contextmanager
def notes(database: Database) -> Iterator[tuple[Collection, dict[str, Any]]]:
    """Makes a workspace, and the settings of a store for it."""
    with tempfile.TemporaryDirectory() as directory:
        NoteWriter().workspace(Path(directory), NOTES, BULLETS)
        rows = database.settings(path=Path("unused"))
        store = {"driver": "postgres", "url": rows.url.reveal(), "tenant": rows.tenant}
        yield Collection("notes", Path(directory), ()), store


async def many(
    gateways: int, seconds: float, system: System, server: EmbeddingServer, database: Database
) -> AsyncIterator[str]:
    """Yields searches a second and memory, of one gateway and of so many of one agent on one database."""
    words = NoteWriter(seed=3)
    with notes(database) as (collection, store):
        for number in (1, gateways):
            async with AsyncExitStack() as stack:
                clients = [
                    await stack.enter_async_context(
                        gateway(collection, system, server, {**store, "view": f"host-{one}"})
                    )
                    for one in range(number)
                ]
                taken: list[float] = []

                async def ask(client: SpawnedGateway, until: float, taken: list[float]) -> None:
                    while time.monotonic() < until:
                        taken.append((await hits(client, words.sentence(8)))[1])

                async with anyio.create_task_group() as tasks:
                    for client in clients:
                        tasks.start_soon(ask, client, time.monotonic() + seconds, taken)
                own = [resident_bytes(client.process.pid, "RssAnon") / 1e6 for client in clients]
            yield (
                f"{number} gateways, {system.name}: {len(taken) / seconds:.1f} searches a second,"
                f" p50 {percentile(taken, 0.5):.1f} ms, {min(own):.0f} to {max(own):.0f} MB each"
            )


async def pods(system: System, server: EmbeddingServer, database: Database) -> AsyncIterator[str]:
    """Yields the first answers of new processes: SQLite's on an existing index, and PostgreSQL's with an empty disk."""
    with notes(database) as (collection, store), tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        filled = root / "filled"
        for own, place in (({}, filled), (store, root / "first")):
            await first_answer(collection.workspace, place, system, server, own, fills=True)
        before = server.items
        times: list[list[float]] = [[], []]
        for number in range(POD_ROUNDS):
            for taken, own, place in (
                (times[0], {}, filled),
                (times[1], {**store, "view": f"pod-{number}"}, root / f"pod-{number}"),
            ):
                seconds, count = await first_answer(
                    collection.workspace, place, system, server, own
                )
                taken.append(seconds)
                assert count, "the first answer was empty"
        one, other = (percentile(taken, 0.5) for taken in times)
        yield (
            f"first answer, {system.name}: SQLite {one:.2f} s, a new pod {other:.2f} s, ratio {other / one:.2f};"
            f" {server.items - before} texts sent to the vendor, the {2 * POD_ROUNDS} questions included"
        )
        empty = root / "empty"
        (empty / "memory").mkdir(parents=True)
        for view in ("pod-0", "pod-empty"):
            await first_answer(
                empty,
                root / view,
                system,
                server,
                {**store, "view": view},
                fills=True,
                is_empty=True,
            )
        with (
            closing(
                PostgresStore(
                    database.settings(path=root, tenant=store["tenant"]), "main", viewpoint=""
                )
            ) as rows,
            rows.view() as seen,
        ):
            left = len(list(seen.files.all_cards(with_tags=False)))
        yield (
            "the first sync of an empty directory, of a pod that had seen the notes "
            f"and of one that had not: {NOTES - left} files removed"
        )


def prepared(
    workspace: Path, state: Path, settings: dict[str, Any], store: dict[str, Any]
) -> list[str]:
    """Returns the arguments of a gateway with this store that keeps its files in `state`."""
    settings["agents"]["defaults"]["memorySearch"]["store"] = store
    return configured(state, workspace, settings, "warning")


async def first_answer(
    workspace: Path,
    state: Path,
    system: System,
    server: EmbeddingServer,
    store: dict[str, Any],
    *,
    fills: bool = False,
    is_empty: bool = False,
) -> tuple[float, int]:
    """Returns the seconds from the start of the process to its answer, and how many hits it had.

    With `fills` it syncs, and waits for the vectors unless the workspace `is_empty`.
    """
    arguments = prepared(workspace, state, system.settings(server), store)
    started = time.perf_counter()
    async with spawn_gateway(arguments) as client:
        found, _ = await hits(client, f"{NoteWriter().sentence(8)}")
        seconds = time.perf_counter() - started
        if fills:
            await client.call("sync", {}, timeout_s=600)
            if system.model and not is_empty:
                await embedded(client)
    return seconds, len(found)


async def asked(
    options: argparse.Namespace,
    server: EmbeddingServer,
    database: Database,
    table: Table,
    console: Console,
) -> None:
    """Asks both stores the questions of all sets."""
    sets = {"sample": sample(SAMPLE_QUESTIONS)}
    if options.locomo:
        sets["LoCoMo"] = locomo(options.locomo)
    if options.multilingual:
        sets["multilingual"] = multilingual(options.multilingual)
    for name in options.systems:
        for title, collections in sets.items():
            row, different = await compare(title, collections, SYSTEMS[name], server, database)
            table.add_row(*row)
            for text in different[:SHOWN_DIFFERENCES]:
                console.print(text, markup=False)


async def processes(
    options: argparse.Namespace, system: System, server: EmbeddingServer, database: Database
) -> AsyncIterator[str]:
    if options.pods:
        async for line in pods(system, server, database):
            yield line
    if options.gateways:
        async for line in many(options.gateways, options.seconds, system, server, database):
            yield line


async def run(options: argparse.Namespace) -> None:
    console = Console(width=160)
    way = " through pgbouncer" if options.pgbouncer else ""
    table = figures(
        f"The same questions over both stores{way}",
        "| same order | same scores | SQLite p50 | PostgreSQL p50 | ratio",
    )
    known = "minilm" in options.systems
    usual = CachedEmbedder(MiniLM(), CACHE / "vectors.sqlite") if known else nullcontext(None)
    with usual as minilm, postgres.running() as plain, ExitStack() as stack:
        pooling = postgres.pooling(plain) if options.pgbouncer else nullcontext(plain)
        database: Database = stack.enter_context(pooling)
        models = [HashEmbedder(), *([minilm] if minilm is not None else [])]
        async with embedding_server(*models) as server:
            if not options.only:
                await asked(options, server, database, table, console)
            for system in (SYSTEMS[name] for name in options.systems):
                async for line in processes(options, system, server, database):
                    console.print(line)
        if options.recall:
            console.print(recall(options.recall, options.locomo, database, plain, MiniLM()))
        for chunks in options.chunks:
            for row in sized(chunks, database, plain, options.questions):
                table.add_row(*row)
    if table.row_count:
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locomo", type=Path, help="directory with conv-*/ workspaces")
    parser.add_argument("--multilingual", type=Path, help="directory with queries.json")
    parser.add_argument(
        "--systems", nargs="*", choices=["keyword", "hash", "minilm"], default=["keyword", "hash"]
    )
    parser.add_argument("--chunks", type=int, nargs="*", default=[], help="sizes of random indexes")
    parser.add_argument("--questions", type=int, default=100, help="of each random index")
    parser.add_argument("--recall", type=int, help="texts in an approximate index; needs --locomo")
    parser.add_argument("--gateways", type=int, help="so many on one database, against one")
    parser.add_argument("--seconds", type=float, default=20, help="of their searches")
    parser.add_argument("--pods", action="store_true", help="first answers with an empty disk")
    parser.add_argument("--only", action="store_true", help="none of the questions of the sets")
    parser.add_argument("--pgbouncer", action="store_true", help="PostgreSQL behind pgbouncer")
    options = parser.parse_args()
    if options.recall and not options.locomo:
        parser.error("--recall needs --locomo")
    anyio.run(run, options)


if __name__ == "__main__":
    main()
