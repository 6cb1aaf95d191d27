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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.embedding_server import EmbeddingServer, embedding_server
from benchmarks.hash_embedder import HashEmbedder
from benchmarks.minilm import MiniLM
from benchmarks.minilm_gguf import CACHE
from benchmarks.qmd_home import DIRECT_CHAT
from benchmarks.questions import Collection, locomo, multilingual, sample
from benchmarks.recall import SAMPLE_QUESTIONS, SYSTEMS, System, embedded
from benchmarks.scoring import percentile
from benchmarks.vector_cache import CachedEmbedder
from fakes import postgres
from gateway.client import SpawnedGateway, spawn_gateway

SHOWN_DIFFERENCES = 3


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
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locomo", type=Path, help="directory with conv-*/ workspaces")
    parser.add_argument("--multilingual", type=Path, help="directory with queries.json")
    parser.add_argument(
        "--systems", nargs="+", choices=["keyword", "hash", "minilm"], default=["keyword", "hash"]
    )
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
