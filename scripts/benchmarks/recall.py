"""How often the agent gets to see what was written: the recall benchmark.

Starts the real gateway on each workspace, asks every question through the pipe with the default
settings, and prints shares with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.diversity import POOL, diversified
from benchmarks.embedding_server import EmbeddingServer, embedding_server
from benchmarks.hash_embedder import HashEmbedder
from benchmarks.minilm import MiniLM
from benchmarks.minilm_gguf import CACHE, minilm_gguf
from benchmarks.qmd_home import DIRECT_CHAT, qmd_settings, served_by_qmd
from benchmarks.questions import (
    Collection,
    Question,
    absent,
    elsewhere,
    hard,
    locomo,
    multilingual,
    sample,
)
from benchmarks.scoring import Score, percentile, score, separation, wilson
from benchmarks.vector_cache import CachedEmbedder
from gateway.client import SpawnedGateway, spawn_gateway

USUAL_RESULTS = 6
ABSENT = "sample, no answer there"
ELSEWHERE = "LoCoMo, asked of the next conversation"
ANSWERED = {ABSENT: "sample", ELSEWHERE: "LoCoMo"}
"""Sets without answers, each with one whose questions have them."""
QUESTIONS = Path(__file__).resolve().parents[2] / "tests/data"
SAMPLE_QUESTIONS = QUESTIONS / "sample_questions.json"


class Answer(NamedTuple):
    question: Question
    result: dict[str, object]
    """What `memory_search` returned, without `timings`: the same whenever it is asked again."""
    score: Score
    latency_ms: float


class System(NamedTuple):
    """One way of running the gateway; `model` names what the loopback server embeds with."""

    name: str
    model: str | None = None
    local: Callable[[], Path] | None = None
    """Embeds by itself, with llama.cpp and this file."""
    served: str | None = None
    """The address of another server with `model`, which tells queries from passages where its model does."""
    qmd: str = ""
    """The command of a QMD that answers by words."""
    query: dict[str, object] | None = None
    """`memorySearch.query`."""
    mmr: float | None = None
    """The share of relevance in an order by maximal marginal relevance."""

    def settings(self, server: EmbeddingServer) -> dict[str, object]:
        search: dict[str, object] = {"provider": "none"}
        if self.model:
            remote = {"baseUrl": server.base_url, "apiKey": server.key}
            search = {"provider": "openai", "model": self.model, "remote": remote}
        if self.local:
            search = {"provider": "local", "local": {"modelPath": str(self.local())}}
        if self.served:
            search = {
                "provider": "openai-compatible",
                "model": self.model,
                "remote": {"baseUrl": self.served},
                "queryInputType": "query",
                "documentInputType": "passage",
            }
        if self.qmd:
            return qmd_settings(self.qmd)
        if self.query:
            search["query"] = self.query
        return {"agents": {"defaults": {"memorySearch": search}}}


SYSTEMS = {
    "keyword": System("keyword"),
    "minilm": System("hybrid, all-MiniLM-L6-v2", "all-minilm-l6-v2"),
    "minilm-512": System("hybrid, all-MiniLM-L6-v2 up to 512 tokens", "all-minilm-l6-v2-512"),
    "local": System("hybrid, all-MiniLM-L6-v2 in the gateway's own worker", local=minilm_gguf),
    "rrf": System(
        "hybrid, all-MiniLM-L6-v2, reciprocal rank fusion",
        "all-minilm-l6-v2",
        query={"hybrid": {"fusion": "rrf"}},
    ),
    "decay": System(
        "hybrid, all-MiniLM-L6-v2, half of the weight left after 30 days",
        "all-minilm-l6-v2",
        query={"decay": {"enabled": True, "halfLifeDays": 30}},
    ),
    "mmr-0.9": System("hybrid, all-MiniLM-L6-v2, MMR 0.9", "all-minilm-l6-v2", mmr=0.9),
    "mmr-0.7": System("hybrid, all-MiniLM-L6-v2, MMR 0.7", "all-minilm-l6-v2", mmr=0.7),
    "hash": System("hybrid, hash embedder", HashEmbedder.name),
}


async def ask(
    collection: Collection, system: System, server: EmbeddingServer, max_results: int | None
) -> list[Answer]:
    """All questions of one workspace, one after the other."""
    with tempfile.TemporaryDirectory() as state:
        config = Path(state) / "openclaw.json"
        config.write_text(json.dumps(system.settings(server)), encoding="utf-8")
        arguments = ["--workspace", str(collection.workspace), "--state-dir", state]
        arguments += ["--config", str(config), "--log-level", "warning"]
        async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
            await client.call("sync", {}, timeout_s=600)
            if system.model or system.local:
                await embedded(client)
            if system.qmd:
                await served_by_qmd(client)
            return [
                await _answer(client, question, max_results, system.mmr)
                for question in collection.questions
            ]


async def embedded(client: SpawnedGateway) -> None:
    """Waits until every text has its vector."""
    with anyio.fail_after(1800):
        while True:
            status = await client.call("status", {}, timeout_s=60)
            backfill = status["details"]["vector"].get("backfill")
            if backfill and backfill["coverage"]["embedded"] == backfill["coverage"]["total"]:
                return
            await anyio.sleep(0.5)


async def _answer(
    client: SpawnedGateway, question: Question, max_results: int | None, mmr: float | None
) -> Answer:
    params: dict[str, object] = {"query": question.query, "sessionKey": DIRECT_CHAT}
    if max_results:
        params["maxResults"] = max_results
    if mmr is not None:
        params |= {"maxResults": POOL, "explain": True}
    started = time.perf_counter()
    result = await client.call("memory_search", params, timeout_s=30)
    latency_ms = (time.perf_counter() - started) * 1000
    result.pop("timings", None)
    results = result["results"]
    if mmr is not None:
        results = diversified(results, max_results or USUAL_RESULTS, mmr)
    return Answer(question, result, score(question, results), latency_ms)


def _keep(file: Path, system: str, name: str, answers: list[Answer]) -> None:
    with file.open("a", encoding="utf-8") as kept:
        for one in answers:
            line = {
                "system": system,
                "set": name,
                "question": one.question.query,
                "result": one.result,
            }
            print(json.dumps(line, ensure_ascii=False), file=kept)


def summary(title: str, answers: list[Answer], by: str) -> Table:
    """A row for all, then one for each group."""
    table = Table(title=title, title_justify="left")
    for column in ("", "n", "any_snip", "all_snip", "lines", "MRR", "chars", "empty", "p50", "p95"):
        table.add_column(column, justify="left" if not column else "right")
    groups = defaultdict(list)
    for answer in answers:
        groups[getattr(answer.question, by)].append(answer)
    for name, members in [("all", answers), *sorted(groups.items())]:
        table.add_row(name, *_row(members))
    return table


def scores(title: str, answered: list[Answer], unanswered: list[Answer]) -> Table:
    """The highest scores where there is an answer and where there is none, and how well they tell the two apart."""
    known, unknown = ([_highest(one) for one in answers] for answers in (answered, unanswered))
    table = Table(title=title, title_justify="left")
    for column in ("", "n", "nothing", "p10", "median", "p90", "highest"):
        table.add_column(column, justify="left" if not column else "right")
    for name, found in (("answered", known), ("no answer there", unknown)):
        heights = [f"{percentile(found, share):.2f}" for share in (0.1, 0.5, 0.9, 1.0)]
        table.add_row(name, str(len(found)), str(found.count(0.0)), *heights)
    table.caption = (
        f"an answered question scores higher in {separation(known, unknown):.3f} of pairs"
    )
    return table


def _highest(answer: Answer) -> float:
    """0 where nothing was found."""
    return max((hit["score"] for hit in answer.result["results"]), default=0.0)


def _row(answers: list[Answer]) -> Iterable[str]:
    n = len(answers)
    scores = [answer.score for answer in answers]
    latencies = [answer.latency_ms for answer in answers]
    yield str(n)
    yield _share(sum(one.any_text for one in scores), n)
    yield _share(sum(one.all_text for one in scores), n)
    yield _share(sum(one.any_lines for one in scores), n)
    yield f"{sum(one.reciprocal_rank for one in scores) / n:.3f}"
    yield f"{sum(one.characters for one in scores) / n:.0f}"
    yield str(sum(not one.results for one in scores))
    yield f"{percentile(latencies, 0.5):.1f} ms"
    yield f"{percentile(latencies, 0.95):.1f} ms"


def _share(successes: int, n: int) -> str:
    low, high = wilson(successes, n)
    return f"{successes / n:.3f} ({low:.2f}-{high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locomo", type=Path, help="directory with conv-*/ workspaces")
    parser.add_argument("--multilingual", type=Path, help="directory with queries.json")
    parser.add_argument("--max-results", type=int, help="default: the gateway's own, 6")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=["keyword"])
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="hybrid with this local model")
    parser.add_argument(
        "--served",
        nargs=2,
        metavar=("URL", "MODEL"),
        help="hybrid with a model that an OpenAI-compatible server has",
    )
    parser.add_argument(
        "--answers",
        type=Path,
        metavar="FILE",
        help="keep every answer, a line of JSON each, to compare two commits with cmp",
    )
    options = parser.parse_args()
    anyio.run(_run, options)


async def _run(options: argparse.Namespace) -> None:
    console = Console(width=140)
    sets = {
        "sample": sample(SAMPLE_QUESTIONS),
        "sample, no word in common": hard(QUESTIONS / "sample_hard_questions.json"),
        ABSENT: absent(QUESTIONS / "sample_absent_questions.json"),
    }
    if options.locomo:
        sets["LoCoMo"] = locomo(options.locomo)
        sets[ELSEWHERE] = elsewhere(sets["LoCoMo"])
    if options.multilingual:
        sets["multilingual"] = multilingual(options.multilingual)
    systems = [SYSTEMS[name] for name in options.systems]
    if options.gguf:
        systems.append(System(f"hybrid, {options.gguf.name}", local=options.gguf.resolve))
    if options.served:
        url, model = options.served
        systems.append(System(f"hybrid, {model}", model, served=url))
    vectors = CACHE / "vectors.sqlite"
    with CachedEmbedder(MiniLM(), vectors) as usual, CachedEmbedder(MiniLM(512), vectors) as longer:
        async with embedding_server(usual, longer, HashEmbedder()) as server:
            if options.answers:
                options.answers.write_bytes(b"")
            await _compare(console, sets, systems, server, options)


async def _compare(
    console: Console,
    sets: dict[str, list[Collection]],
    systems: list[System],
    server: EmbeddingServer,
    options: argparse.Namespace,
) -> None:
    for system in systems:
        by_set: dict[str, list[Answer]] = {}
        for name, collections in sets.items():
            answers = by_set[name] = []
            for collection in collections:
                answers += await ask(collection, system, server, options.max_results)
            if options.answers:
                _keep(options.answers, system.name, name, answers)
            if name in ANSWERED:
                answered = by_set[ANSWERED[name]]
                console.print(scores(f"{name}, {system.name}", answered, answers))
                continue
            console.print(summary(f"{name}, {system.name}", answers, "group"))
            if len({answer.question.language for answer in answers}) > 1:
                console.print(summary(f"{name}, {system.name}, by language", answers, "language"))


if __name__ == "__main__":
    main()
