"""The recall benchmark: measures how often the agent gets to see what was written.

Starts the real gateway on each workspace, asks every question through the pipe with the default
settings, and prints shares with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.embedding_server import EmbeddingServer, embedding_server
from benchmarks.families import (
    DATA,
    FAMILIES,
    VAULT,
    Page,
    Summary,
    families,
    form_table,
    shares_table,
)
from benchmarks.hash_embedder import HashEmbedder
from benchmarks.minilm import MiniLM
from benchmarks.minilm_gguf import CACHE
from benchmarks.minilm_onnx import minilm_onnx
from benchmarks.publishing import FAMILIES_KEPT, publish_families
from benchmarks.qmd_home import DIRECT_CHAT, qmd_settings, served_by_qmd
from benchmarks.questions import (
    Collection,
    Question,
    absent,
    elsewhere,
    hard,
)
from benchmarks.reliability import (
    Passage,
    calibration_error,
    draw_reliability,
    passages,
    reliability_table,
    unanswerable,
    without_answer,
)
from benchmarks.running import configured, embedded, embedding_with, figures, timed
from benchmarks.scoring import (
    PAPER_RESULTS,
    Score,
    every_fourth,
    gold_sessions_found,
    percentile,
    score,
    separation,
    wilson,
)
from benchmarks.vector_cache import CachedEmbedder
from gateway.client import SpawnedGateway, spawn_gateway

ABSENT = "sample, no answer there"
VAULT_ABSENT = "vault, no answer there"
ELSEWHERE = "LoCoMo, asked of the next conversation"
ANSWERED = {ABSENT: "sample", VAULT_ABSENT: "vault", ELSEWHERE: "LoCoMo"}
"""Sets without answers, each with one whose questions have them."""
ROOT = Path(__file__).resolve().parents[2]
SAMPLE_QUESTIONS = DATA / "sample_questions.json"


class Answer(NamedTuple):
    question: Question
    result: dict[str, Any]
    """The result of `memory_search` without `timings`, so that it is the same in each run."""
    score: Score
    latency_ms: float


class System(NamedTuple):
    """One way of running the gateway; `model` names the model of the loopback server."""

    name: str
    model: str | None = None
    local: Callable[[], Path] | None = None
    """Returns the file of a model with which the gateway embeds by itself."""
    served: str | None = None
    """The address of another server with `model`, which distinguishes queries and passages if its model does."""
    qmd: str = ""
    """The command of a QMD that answers by words."""
    query: dict[str, object] | None = None
    """The settings of `memorySearch.query`."""

    def settings(self, server: EmbeddingServer) -> dict[str, object]:
        search: dict[str, object] = {"provider": "none"}
        if self.model:
            search = embedding_with(server) | {"model": self.model}
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
    "local": System("hybrid, all-MiniLM-L6-v2 in the gateway's own worker", local=minilm_onnx),
    "local-8": System("the same in 8 bits", local=lambda: minilm_onnx(8)),
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
    "hash": System("hybrid, hash embedder", HashEmbedder.name),
}


async def ask(
    collection: Collection, system: System, server: EmbeddingServer, max_results: int | None
) -> list[Answer]:
    """Asks all questions of one workspace, one after the other."""
    with tempfile.TemporaryDirectory() as state:
        settings = system.settings(server)
        arguments = configured(Path(state), collection.workspace, settings, "warning")
        async with spawn_gateway(arguments) as client:
            await client.call("sync", {}, timeout_s=600)
            if system.model or system.local:
                await embedded(client)
            if system.qmd:
                await served_by_qmd(client)
            return [
                await _answer(client, question, max_results) for question in collection.questions
            ]


async def _answer(client: SpawnedGateway, question: Question, max_results: int | None) -> Answer:
    params: dict[str, object] = {"query": question.query, "sessionKey": DIRECT_CHAT}
    if question.before:
        params["before"] = question.before
    if max_results:
        params["maxResults"] = max_results
    result, latency_ms = await timed(client.call("memory_search", params, timeout_s=30))
    result.pop("timings", None)
    return Answer(question, result, score(question, result["results"]), latency_ms)


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
    """Returns a table with a row for all, then one for each group."""
    table = figures(title, "| n | any_snip | all_snip | lines | MRR | chars | empty | p50 | p95")
    groups = defaultdict(list)
    for answer in answers:
        groups[getattr(answer.question, by)].append(answer)
    for name, members in [("all", answers), *sorted(groups.items())]:
        table.add_row(name, *_row(members))
    return table


def scores(title: str, answered: list[Answer], unanswered: list[Answer]) -> Table:
    """Returns a table of the highest scores with and without an answer, and of how well they separate the two."""
    known, unknown = ([_highest(one) for one in answers] for answers in (answered, unanswered))
    table = figures(title, "| n | nothing | p10 | median | p90 | highest")
    for name, found in (("answered", known), ("no answer there", unknown)):
        heights = [f"{percentile(found, share):.2f}" for share in (0.1, 0.5, 0.9, 1.0)]
        table.add_row(name, str(len(found)), str(found.count(0.0)), *heights)
    table.caption = (
        f"an answered question scores higher in {separation(known, unknown):.3f} of pairs"
    )
    return table


def _highest(answer: Answer) -> float:
    """Returns the highest score; 0 if nothing was found."""
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


SLIPPED: Final = ("LoCoMo", "REALTALK", "RealMem", "BEAM")
_SLIPS_SEED: Final = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locomo", type=Path, help="directory with conv-*/ workspaces")
    parser.add_argument("--multilingual", type=Path, help="directory with queries.json")
    parser.add_argument(
        "--families",
        type=Path,
        metavar="DIR",
        help="with realtalk, realmem and beam, each with conv-*/ workspaces",
    )
    parser.add_argument(
        "--only", nargs="+", metavar="SET", help="names as the tables have them: BEAM, vault, ..."
    )
    parser.add_argument(
        "--slips", action="store_true", help=f"ask those of {', '.join(SLIPPED)} with a slip each"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the families' figures")
    parser.add_argument("--max-results", type=int, help="default: the gateway's own, 6")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=["keyword"])
    parser.add_argument("--local", type=Path, metavar="FILE", help="hybrid with this local model")
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
    parser.add_argument(
        "--reliability",
        type=Path,
        metavar="FILE",
        help="ask questions without an answer, too, and draw how often passages of a score answer (SVG)",
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help=f"write the families' figures into docs/benchmarks.md and {FAMILIES_KEPT}",
    )
    options = parser.parse_args()
    if options.slips and (options.publish or options.reliability):
        parser.error("--slips: figures with slips are not those that are published.")
    anyio.run(_run, options)


async def _run(options: argparse.Namespace) -> None:
    console = Console(width=140)
    found = families(options.families, options.locomo, options.multilingual)
    sets = found | {
        "sample, no word in common": hard(DATA / "sample_hard_questions.json"),
        ABSENT: absent(DATA / "sample_absent_questions.json"),
        VAULT_ABSENT: [
            found["vault"][0]._replace(questions=unanswerable(VAULT / "unanswerable.json"))
        ],
    }
    if options.locomo:
        sets[ELSEWHERE] = elsewhere(sets["LoCoMo"])
    if options.slips:
        rng = random.Random(_SLIPS_SEED)
        for name in (name for name in SLIPPED if name in sets):
            sets[name] = [
                one._replace(questions=[asked.with_slip(rng) for asked in one.questions])
                for one in sets[name]
            ]
    if unknown := set(options.only or ()) - set(sets):
        sys.exit(f"There is no set {', '.join(sorted(unknown))}, but {', '.join(sets)}.")
    sets = {name: one for name, one in sets.items() if not options.only or name in options.only}
    systems = [SYSTEMS[name] for name in options.systems]
    if options.local:
        systems.append(System(f"hybrid, {options.local.name}", local=options.local.resolve))
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
    figures: dict[str, dict[str, Any]] = {}
    reliability: dict[str, dict[str, list[Passage]]] = {}
    for system in systems:
        by_set: dict[str, list[Answer]] = {}
        for name, collections in sets.items():
            answers = by_set[name] = []
            for collection in collections:
                answers += await ask(collection, system, server, options.max_results)
            if options.answers:
                _keep(options.answers, system.name, name, answers)
            _show(console, f"{name}, {system.name}", answers, by_set.get(ANSWERED.get(name, "")))
        by_family = Summary.of({name: _pages(by_set[name]) for name in by_set if name in FAMILIES})
        console.print(shares_table(f"Any / all of the evidence, {system.name}", by_family))
        console.print(form_table(f"What the pages are made of, {system.name}", by_family))
        figures[system.name] = kept = by_family.as_json()
        if "RealMem" in sets:
            kept["RealMem, sessions"] = paper = await _as_its_paper(sets["RealMem"], system, server)
            said = ", ".join(f"{share:.3f} in {count} results" for count, share in paper.items())
            console.print(f"RealMem as its paper counts, {system.name}: {said}")
        if options.reliability:
            answered = {name: by_set[name] for name in by_set if name in FAMILIES}
            reliability[system.name] = found = await _passages(sets, answered, system, server)
            console.print(reliability_table(f"Do passages of a score answer, {system.name}", found))
            errors = {name: calibration_error(each) for name, each in found.items()}
            figures[system.name]["calibration error"] = errors
    _write(options, figures, reliability)


def _write(
    options: argparse.Namespace,
    figures: dict[str, dict[str, Any]],
    reliability: dict[str, dict[str, list[Passage]]],
) -> None:
    if options.reliability:
        draw_reliability(options.reliability, reliability)
    if options.publish:
        publish_families(figures, ROOT)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _show(
    console: Console, title: str, answers: list[Answer], answered: list[Answer] | None
) -> None:
    """Shows answers; `answered`: those to questions with answers, beside which those without are shown."""
    if answered:
        console.print(scores(title, answered, answers))
    elif any(one.question.evidence for one in answers):
        console.print(summary(title, answers, "group"))
        if len({answer.question.language for answer in answers}) > 1:
            console.print(summary(f"{title}, by language", answers, "language"))


def _pages(answers: list[Answer]) -> list[Page]:
    return [Page.of(one.question, one.result["results"]) for one in answers]


async def _passages(
    sets: dict[str, list[Collection]],
    answered: dict[str, list[Answer]],
    system: System,
    server: EmbeddingServer,
) -> dict[str, list[Passage]]:
    """Returns the passages of each family, for its own questions and for questions to which it has no answer."""
    found: dict[str, list[Passage]] = {}
    for name, collections in without_answer({name: sets[name] for name in answered}).items():
        answers = list(answered[name])
        for collection in collections:
            answers += await ask(collection, system, server, None)
        found[name] = [
            passage for one in answers for passage in passages(one.question, one.result["results"])
        ]
    return found


async def _as_its_paper(
    collections: list[Collection], system: System, server: EmbeddingServer
) -> dict[int, float]:
    """Returns the share of the sessions with evidence that the first results show, by the number of results."""
    found: dict[int, list[float]] = {count: [] for count in PAPER_RESULTS}
    for collection in every_fourth(collections):
        for one in await ask(collection, system, server, max(PAPER_RESULTS)):
            for count, shares in found.items():
                results = one.result["results"][:count]
                shares.append(gold_sessions_found(collection.workspace, one.question, results))
    return {count: sum(shares) / len(shares) for count, shares in found.items()}


if __name__ == "__main__":
    main()
