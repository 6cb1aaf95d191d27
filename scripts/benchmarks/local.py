"""Measures what local embeddings cost: throughput, queries beside a backlog, and memory.

Everything is compared within one run: the worker with a bare loop over ONNX Runtime in one thread, in turn; queries
beside documents with queries alone; the gateway with one that has no local model.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import onnxruntime
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from benchmarks.embedding_server import embedding_server
from benchmarks.minilm import MiniLM
from benchmarks.minilm_onnx import minilm_onnx
from benchmarks.notes import NoteWriter, vocabulary
from benchmarks.running import embedded, embedding_with, figures, home, resident_bytes, timed
from benchmarks.scoring import percentile
from gateway.client import SpawnedGateway, spawn_gateway
from providers.embedding.service import Delivery, EmbeddingService
from providers.local.embedder import LocalEmbedder, LocalSpec
from providers.local.model import Wishes

CHUNK_TOKENS = 400
ROUNDS = 9
CHUNKS_A_ROUND = 24
QUEUED = 1_000
QUERIES = 200
PAUSE_S = 0.02
"""The pause between queries, as if somebody typed them."""
SEARCHES = 30
FILES, BULLETS = 60, 12
MIB = 1 << 20


def chunks(count: int, tokens: Callable[[str], int]) -> list[str]:
    """Returns texts of exactly `CHUNK_TOKENS` tokens, the special ones included, all different."""
    draw = random.Random(5)
    words = [word for word in vocabulary(4_000) if tokens(word) == 3]
    return [" ".join(draw.choices(words, k=CHUNK_TOKENS - 2)) for _ in range(count)]


@asynccontextmanager
async def local_service(model: Path) -> AsyncIterator[EmbeddingService]:
    spec = LocalSpec(str(model), model.name, model.parent, Wishes(), os.environ)
    service = EmbeddingService(LocalEmbedder(spec))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.run)
        await service.embed_query("warm up")
        yield service
        tasks.cancel_scope.cancel()


class BareOnnx:
    """The yardstick: ONNX Runtime's own functions in a loop of one thread, and nothing around them."""

    def __init__(self, path: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(path.parent / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(512)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])

    def embed(self, text: str) -> np.ndarray:
        """Returns a vector of length 1."""
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        (rows,) = self._session.run(None, feed)
        whole = rows[0].mean(axis=0)
        return whole / np.linalg.norm(whole)


def bare_seconds(bare: BareOnnx, texts: Sequence[str]) -> float:
    started = time.perf_counter()
    for text in texts:
        bare.embed(text)
    return time.perf_counter() - started


@contextmanager
def bare_loop(model: Path) -> Iterator[Callable[[list[str]], float]]:
    """Runs the bare loop in a process; yields a function that returns the seconds that it takes for some texts."""
    command = [sys.executable, "-m", "benchmarks.local", "--bare", str(model)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, encoding="utf-8", **pipes) as process:

        def run(texts: list[str]) -> float:
            process.stdin.write(json.dumps(texts) + "\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        run(["warm up"])
        yield run
        process.stdin.close()


async def _ignore(_delivery: Delivery) -> None:
    pass


async def compare_throughput(model: Path, texts: list[str], table: Table) -> None:
    async with local_service(model) as service:
        with bare_loop(model) as bare:
            bare_s, worker_s = [], []
            for number in range(ROUNDS):
                part = texts[number * CHUNKS_A_ROUND :][:CHUNKS_A_ROUND]
                bare_s.append(await anyio.to_thread.run_sync(bare, part))
                started = time.perf_counter()
                await service.embed_documents(part, on_batch=_ignore)
                worker_s.append(time.perf_counter() - started)
    ratios = [one / other for one, other in zip(bare_s, worker_s, strict=True)]
    table.add_row(
        f"{CHUNKS_A_ROUND / statistics.median(bare_s):.2f}",
        f"{CHUNKS_A_ROUND / statistics.median(worker_s):.2f}",
        f"{statistics.median(ratios):.3f}",
        f"{min(ratios):.3f} to {max(ratios):.3f}",
    )


async def time_queries(model: Path, texts: list[str], table: Table) -> None:
    async with local_service(model) as service:
        idle = await _queries(service, "idle")
        async with anyio.create_task_group() as tasks:
            done: list[int] = []
            begun = anyio.Event()

            async def count(delivery: Delivery) -> None:
                done.append(len(delivery.items))
                begun.set()

            async def embed() -> None:
                await service.embed_documents(texts[:QUEUED], on_batch=count)

            tasks.start_soon(embed)
            await begun.wait()
            busy = await _queries(service, "busy")
            left = QUEUED - sum(done)
            tasks.cancel_scope.cancel()
    for name, times in (("nothing else", idle), (f"{QUEUED:,} documents, {left} left", busy)):
        ratio = percentile(times, 0.95) / percentile(idle, 0.95)
        shown = [f"{percentile(times, share):.1f} ms" for share in (0.5, 0.95, 1.0)]
        table.add_row(name, *shown, f"{ratio:.2f}")


async def _queries(service: EmbeddingService, name: str) -> list[float]:
    times = []
    for number in range(QUERIES):
        question = f"what was said about the {name} pump number {number}"
        times.append((await timed(service.embed_query(question)))[1])
        await anyio.sleep(PAUSE_S)
    return times


async def compare_memory(model: Path, table: Table) -> None:
    with tempfile.TemporaryDirectory() as name:
        workspace = Path(name) / "workspace"
        NoteWriter().workspace(workspace, FILES, BULLETS)
        async with embedding_server(MiniLM(512)) as server:
            remote = await _resident(
                workspace, embedding_with(server) | {"model": server.embedders[0].name}
            )
            keywords = await _resident(workspace, {"provider": "none"})
            vectors = await _resident(workspace, {"provider": "none"}, loaded=("numpy", "simsimd"))
            local = await _resident(
                workspace, {"provider": "local", "local": {"modelPath": str(model)}}
            )
    for label, (gateway, worker) in (
        ("keywords only", keywords),
        ("the same, with the libraries for vectors", vectors),
        ("local", local),
        ("the same model on a loopback server", remote),
    ):
        more = (gateway - vectors[0]) / MIB
        worker_shown = f"{worker / MIB:.0f} MiB" if worker else ""
        table.add_row(label, f"{gateway / MIB:.1f} MiB", f"{more:+.1f} MiB", worker_shown)


async def _resident(
    workspace: Path, search: dict[str, Any], *, loaded: Sequence[str] = ()
) -> tuple[int, int]:
    """Returns the memory of gateway and worker after everything was embedded and some questions were answered.

    `loaded` are modules that the gateway imports whether it needs them or not.
    """
    with tempfile.TemporaryDirectory() as state:
        arguments = home(Path(state), workspace, **search)
        imports = "".join(f"import {module}\n" for module in loaded)
        (Path(state) / "sitecustomize.py").write_text(imports, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": state}
        async with spawn_gateway(arguments, environment=environment) as client:
            await client.call("sync", {}, timeout_s=600)
            if search["provider"] != "none":
                await embedded(client)
            for number in range(SEARCHES):
                await client.call("memory_search", {"query": f"the note of day {number}"})
            return resident_bytes(client.process.pid), await _worker_bytes(client)


async def _worker_bytes(client: SpawnedGateway) -> int:
    vector = (await client.call("status", {}))["details"]["vector"]
    details = vector.get("provider", {}).get("active", {}).get("details") or {}
    return details.get("worker", {}).get("residentBytes") or 0


async def measure(parts: list[str], console: Console) -> None:
    model = minilm_onnx(8)
    texts = chunks(QUEUED, MiniLM(512).tokens)
    steps: dict[str, tuple[Table, Callable[[Table], Awaitable[None]]]] = {
        "throughput": (
            figures(
                f"Chunks of {CHUNK_TOKENS} tokens a second, {ROUNDS} rounds by turns",
                "bare loop | through the worker | ratio | range",
            ),
            lambda table: compare_throughput(model, texts, table),
        ),
        "queries": (
            figures(f"{QUERIES} queries, beside", "| p50 | p95 | longest | p95, ratio to alone"),
            lambda table: time_queries(model, texts, table),
        ),
        "memory": (
            figures("Resident memory", "embeddings | gateway | difference | worker"),
            lambda table: compare_memory(model, table),
        ),
    }
    for part in parts:
        table, step = steps[part]
        await step(table)
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = ["throughput", "queries", "memory"]
    parser.add_argument("parts", nargs="*", default=names, help=f"of {', '.join(names)}")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:  # lists of texts come in, a line each
        bare = BareOnnx(options.bare)
        for line in sys.stdin:
            print(bare_seconds(bare, json.loads(line)), flush=True)
        return
    anyio.run(measure, options.parts, Console(width=140))


if __name__ == "__main__":
    main()
