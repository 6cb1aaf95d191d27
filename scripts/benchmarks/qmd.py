"""QMD behind the gateway: warm latency, being killed again and again, ten agents, natural questions."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
from rich.console import Console
from rich.table import Table

from backends.qmd.server import post_query, question_for
from benchmarks.embedding_server import embedding_server
from benchmarks.hash_embedder import HashEmbedder
from benchmarks.qmd_agents import ten_agents
from benchmarks.qmd_home import qmd_settings, qmd_status, search, served_by_qmd, write_home
from benchmarks.qmd_kills import killed_again_and_again
from benchmarks.questions import Collection, locomo
from benchmarks.recall import Answer, System, ask, summary
from benchmarks.scoring import percentile
from gateway.client import spawn_gateway
from gateway.process.log_output import configure_logs

SETUP = Path(__file__).resolve().parents[2] / "scripts/qmd-setup"
FILLED = ["memory-dir"]
"""The collections that hold something in these workspaces; the gateway leaves out empty ones."""
PARTS = ("latency", "kills", "agents", "recall")


async def latencies(command: str, collection: Collection, count: int, root: Path) -> Table:
    """The same questions to the gateway, to QMD's server and to a process each, taking turns."""
    arguments = write_home(root, collection.workspace, qmd_settings(command))
    taken: dict[str, list[float]] = {"gateway": [], "server": [], "search": [], "query": []}
    async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
        await served_by_qmd(client)
        status = await qmd_status(client)
        shell = _variables(arguments)
        texts = [one.query for one in collection.questions[: count + 5]]
        for text in texts[:5]:
            await search(client, text)
        for text in texts[5:]:
            asked = question_for(text, "search")
            assert asked is not None
            started = time.perf_counter()
            await post_query(status["server"]["port"], asked.as_json(FILLED), timeout_s=30)
            taken["server"].append(time.perf_counter() - started)
            started = time.perf_counter()
            answer = await search(client, text)
            taken["gateway"].append(time.perf_counter() - started)
            assert answer["backend"] == "qmd", answer
            typed = "\n".join(f"{one.kind}: {one.text}" for one in asked.searches)
            for name, words in (("search", ["search"]), ("query", ["query", "--no-rerank"])):
                question = asked.searches[0].text if name == "search" else typed
                argv = [*status["runs"], *words, "--json", "--", question]
                started = time.perf_counter()
                await anyio.run_process(argv, env=shell, cwd="/")
                taken[name].append(time.perf_counter() - started)
    return _latency_table(taken)


def _variables(arguments: list[str]) -> dict[str, str]:
    """The environment of the gateway's QMD, as `memory-gateway qmd env` tells it."""
    argv = [sys.executable, "-m", "gateway", "qmd", *arguments, "--json", "env"]
    done = subprocess.run(argv, capture_output=True, check=True, encoding="utf-8")
    return {**os.environ, **json.loads(done.stdout), "PWD": "/"}


def _latency_table(taken: dict[str, list[float]]) -> Table:
    names = {
        "gateway": "through the gateway",
        "server": "QMD's own warm server, the same sub-queries",
        "search": "a process for each: qmd search, one sub-query",
        "query": "a process for each: qmd query --no-rerank, all of them",
    }
    table = Table(title="Warm search by words", title_justify="left")
    for column in ("", "n", "p50", "p95", "to the gateway's p50"):
        table.add_column(column, justify="right" if column else "left")
    gateway = percentile(taken["gateway"], 0.5)
    for key, name in names.items():
        median, tail = percentile(taken[key], 0.5), percentile(taken[key], 0.95)
        ratio = f"{median / gateway:.2f}"
        cells = (f"{median * 1000:.1f} ms", f"{tail * 1000:.1f} ms", ratio)
        table.add_row(name, str(len(taken[key])), *cells)
    return table


async def recall(command: str, collections: list[Collection]) -> Table:
    """All natural questions; an answer that QMD did not give would stop the run."""
    answers: list[Answer] = []
    async with embedding_server(HashEmbedder()) as server:
        for collection in collections:
            answers += await ask(collection, System("qmd", qmd=command), server, None)
    hit = sum(answer.score.results > 0 for answer in answers) / len(answers)
    return summary(f"LoCoMo, QMD by words; {hit:.1%} with some hit", answers, "group")


async def _run(options: argparse.Namespace, command: str, root: Path) -> None:
    console = Console(width=140)
    collections = locomo(options.locomo)
    if "latency" in options.parts:
        console.print(await latencies(command, collections[0], options.questions, root / "latency"))
    if "kills" in options.parts:
        console.print(await killed_again_and_again(command, collections[0], root / "kills"))
    if "agents" in options.parts:
        console.print(await ten_agents(command, root / "agents"))
    if "recall" in options.parts:
        console.print(await recall(command, collections))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locomo", type=Path, required=True, help="directory with conv-*/")
    parser.add_argument("--questions", type=int, default=60, help="for the latencies")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    configure_logs("error")
    command = subprocess.run([SETUP], capture_output=True, check=True, encoding="utf-8").stdout
    with tempfile.TemporaryDirectory(prefix="memory-gateway-qmd-") as root:
        anyio.run(_run, options, command.strip(), Path(root))


if __name__ == "__main__":
    main()
