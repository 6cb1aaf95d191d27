"""Whether PostgreSQL finds what SQLite finds, and how much longer it takes.

Starts two real gateways on each workspace, one over each store, asks both every question of the recall benchmark in turn, and
compares every hit: path, lines, text and score.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import msgspec
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
from benchmarks.qmd_home import DIRECT_CHAT
from benchmarks.questions import Collection, locomo, multilingual, sample
from benchmarks.recall import SAMPLE_QUESTIONS, SYSTEMS, System, embedded
from benchmarks.scoring import percentile
from benchmarks.vector_cache import CachedEmbedder
from config.settings import MemorySearchSettings, Secret, StoreSettings, VectorStoreSettings
from fakes import postgres
from gateway.client import SpawnedGateway, spawn_gateway
from providers.interface import Fingerprint, QueryVector

SHOWN_DIFFERENCES = 3
DIMENSIONS = 384
"""Those of all-MiniLM-L6-v2."""
WARMING = 5
"""Questions that are asked before it counts."""


@asynccontextmanager
async def gateway(
    collection: Collection, system: System, server: EmbeddingServer, store: dict[str, Any]
) -> AsyncIterator[SpawnedGateway]:
    """One that is level with the workspace, vectors included."""
    with tempfile.TemporaryDirectory() as state:
        settings = system.settings(server)
        settings["agents"]["defaults"]["memorySearch"]["store"] = store
        config = Path(state) / "openclaw.json"
        config.write_text(json.dumps(settings), encoding="utf-8")
        arguments = ["--workspace", str(collection.workspace), "--state-dir", state]
        arguments += ["--config", str(config), "--log-level", "warning"]
        async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
            await client.call("sync", {}, timeout_s=600)
            if system.model:
                await embedded(client)
            yield client


async def hits(client: SpawnedGateway, query: str) -> tuple[list[Any], float]:
    """What it found, and in how many milliseconds."""
    started = time.perf_counter()
    params = {"query": query, "sessionKey": DIRECT_CHAT}
    result = await client.call("memory_search", params, timeout_s=60)
    return result["results"], (time.perf_counter() - started) * 1000


async def compare(
    name: str,
    collections: list[Collection],
    system: System,
    server: EmbeddingServer,
    database: postgres.Server,
) -> tuple[list[str], list[str]]:
    """A row of the table, and the first questions that were answered differently."""
    times: list[list[float]] = [[], []]
    different: list[str] = []
    questions = 0
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
                if answers[0] != answers[1]:
                    different.append(f"{question.query}\n  {answers[0]}\n  {answers[1]}")
    halves = [percentile(taken, 0.5) for taken in times]
    row = [
        f"{name}, {system.name}",
        f"{questions - len(different)} of {questions}",
        *(f"{ms:.1f} ms" for ms in halves),
        f"{halves[1] / halves[0]:.2f}",
    ]
    return row, different


def sized(chunks: int, database: postgres.Server, questions: int) -> Iterator[list[str]]:
    """Rows of the table: random notes, in process, keywords alone and with random vectors."""
    fingerprint = Fingerprint(provider="openai", model="random", endpoint="none")
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
            owner = msgspec.structs.replace(
                settings[1],
                url=Secret(settings[1].url.reveal().replace(postgres.SERVING, "postgres")),
            )
            index_vectors(Address.of(owner), tenant=owner.tenant, agent="main", at_least=1)
        rng = np.random.default_rng(1)
        for lane in ("keyword", "hybrid"):
            asked = [
                (text.question(), random_units(rng, 1, DIMENSIONS)[0])
                for text in [ZipfText(chunks + 1)]
                for _ in range(questions)
            ]
            times: list[list[float]] = [[], []]
            same = 0
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
            halves = [percentile(taken[WARMING:], 0.5) for taken in times]
            yield [
                f"{chunks:,} random chunks, {lane}, in process",
                f"{same} of {len(times[0])}",
                *(f"{ms:.1f} ms" for ms in halves),
                f"{halves[1] / halves[0]:.2f}",
            ]


async def run(options: argparse.Namespace) -> None:
    console = Console(width=160)
    sets = {"sample": sample(SAMPLE_QUESTIONS)}
    if options.locomo:
        sets["LoCoMo"] = locomo(options.locomo)
    if options.multilingual:
        sets["multilingual"] = multilingual(options.multilingual)
    table = Table(title="The same questions over both stores", title_justify="left")
    for column in ("", "same hits", "SQLite p50", "PostgreSQL p50", "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    known = "minilm" in options.systems
    usual = CachedEmbedder(MiniLM(), CACHE / "vectors.sqlite") if known else nullcontext(None)
    with usual as minilm, postgres.running() as database:
        models = [HashEmbedder(), *([minilm] if minilm is not None else [])]
        async with embedding_server(*models) as server:
            for name in options.systems:
                for title, collections in sets.items():
                    row, different = await compare(
                        title, collections, SYSTEMS[name], server, database
                    )
                    table.add_row(*row)
                    for text in different[:SHOWN_DIFFERENCES]:
                        console.print(text, markup=False)
        for chunks in options.chunks:
            for row in sized(chunks, database, options.questions):
                table.add_row(*row)
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
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
