"""Measures QMD behind the gateway: warm latency, repeated kills, ten agents, natural questions."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table

from backends.qmd.server import exchange, question_for
from benchmarks.embedding_server import embedding_server
from benchmarks.hash_embedder import HashEmbedder
from benchmarks.notes import NoteWriter
from benchmarks.qmd_home import (
    PATIENCE_S,
    qmd_processes,
    qmd_settings,
    qmd_status,
    search,
    served_by_qmd,
)
from benchmarks.questions import Collection, locomo
from benchmarks.recall import Answer, System, ask, summary
from benchmarks.running import configured, facts, figures, timed
from benchmarks.scoring import percentile
from fakes.gguf import write_embedder
from gateway.client import SpawnedGateway, spawn_gateway
from gateway.process.log_output import configure_logs

SETUP = Path(__file__).resolve().parents[2] / "scripts/qmd-setup"
FILLED = ["memory-dir"]
"""The collections that are not empty in these workspaces; the gateway leaves out empty ones."""
PARTS = ("latency", "kills", "agents", "recall")
SEARCHES = 200
KILL_EVERY_S = 2.0
PAUSE_S = 0.2
"""The pause between searches, so that there are some in every state of QMD."""
TIMEOUT_MS = 4000
"""The documented default of `memory.qmd.limits.timeoutMs`."""
AGENTS = 10
NOTES, BULLETS = 2, 4
SAMPLE_EVERY_S = 0.02


async def latencies(command: str, collection: Collection, count: int, root: Path) -> Table:
    """Asks the gateway, QMD's server and a process per question the same questions in turn; returns the latencies."""
    arguments = configured(root, collection.workspace, qmd_settings(command))
    taken: dict[str, list[float]] = {"gateway": [], "server": [], "search": [], "query": []}
    async with spawn_gateway(arguments) as client:
        await served_by_qmd(client)
        status = await qmd_status(client)
        shell = _variables(arguments)
        texts = [one.query for one in collection.questions[: count + 5]]
        for text in texts[:5]:
            await search(client, text)
        for text in texts[5:]:
            asked = question_for(text, "search")
            assert asked is not None
            port = status["server"]["port"]
            query = exchange(port, "/query", asked.as_json(FILLED), timeout_s=30)
            taken["server"].append((await timed(query))[1])
            answer, milliseconds = await timed(search(client, text))
            taken["gateway"].append(milliseconds)
            assert answer["backend"] == "qmd", answer
            typed = "\n".join(f"{one.kind}: {one.text}" for one in asked.searches)
            for name, words in (("search", ["search"]), ("query", ["query", "--no-rerank"])):
                question = asked.searches[0].text if name == "search" else typed
                argv = [*status["runs"], *words, "--json", "--", question]
                process = anyio.run_process(argv, env=shell, cwd="/")
                taken[name].append((await timed(process))[1])
    return _latency_table(taken)


def _variables(arguments: list[str]) -> dict[str, str]:
    """Returns the environment of the gateway's QMD, as `memory-gateway qmd env` prints it."""
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
    table = figures("Warm search by words", "| n | p50 | p95 | to the gateway's p50")
    gateway = percentile(taken["gateway"], 0.5)
    for key, name in names.items():
        median, tail = percentile(taken[key], 0.5), percentile(taken[key], 0.95)
        ratio = f"{median / gateway:.2f}"
        cells = (f"{median:.1f} ms", f"{tail:.1f} ms", ratio)
        table.add_row(name, str(len(taken[key])), *cells)
    return table


async def killed_again_and_again(command: str, collection: Collection, root: Path) -> Table:
    arguments = configured(root, collection.workspace, qmd_settings(command))
    engines: Counter[str] = Counter()
    latencies: list[float] = []
    kills = [0]
    async with spawn_gateway(arguments) as client:
        await served_by_qmd(client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_kill, root, kills)
            for number in range(SEARCHES):
                question = collection.questions[number % len(collection.questions)]
                answer, milliseconds = await timed(search(client, question.query))
                latencies.append(milliseconds)
                fallback = answer.get("fallback") or {}
                engines[
                    f"{answer['backend']}{' for ' if fallback else ''}{fallback.get('from', '')}"
                ] += 1
                await anyio.sleep(PAUSE_S)
            tasks.cancel_scope.cancel()
        _kill_all(root)
        back_s = (await timed(served_by_qmd(client)))[1] / 1000
    late = sum(one > TIMEOUT_MS for one in latencies)
    return facts(
        "QMD killed every 2 s",
        {
            "searches answered": f"{len(latencies)} of {SEARCHES}, {kills[0] + 1} kills",
            "later than timeoutMs": late,
            "answered by": ", ".join(f"{name}: {n}" for name, n in engines.most_common()),
            "p50": f"{percentile(latencies, 0.5):.1f} ms",
            "longest": f"{max(latencies):.0f} ms",
            "back in service after the last kill": f"{back_s:.2f} s",
        },
    )


async def _kill(root: Path, kills: list[int]) -> None:
    while True:
        await anyio.sleep(KILL_EVERY_S)
        _kill_all(root)
        kills[0] += 1


def _kill_all(root: Path) -> None:
    for pid, _ in list(qmd_processes(root)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class _Agents:
    """The homes of all agents below one directory, and the variables that they share."""

    def __init__(self, root: Path, command: str) -> None:
        self.root = root
        runtime = root / "runtime"
        runtime.mkdir(parents=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "XDG_RUNTIME_DIR": str(runtime),
            "QMD_EMBED_MODEL": str(write_embedder(root / "embed.gguf")),
            "QMD_FORCE_CPU": "1",
        }
        self._settings = qmd_settings(command, searchMode="vsearch")
        self.most_embedding = 0

    def arguments(self, number: int) -> list[str]:
        workspace = self.root / f"workspace-{number}"
        return configured(self.root / f"a{number}", workspace, self._settings)

    def collections(self) -> dict[str, Any]:
        return {
            str(file.relative_to(self.root)): json.loads(file.read_bytes())["collections"]
            for file in sorted(self.root.glob("a*/memory-gateway/*/qmd/xdg-config/qmd/index.yml"))
        }

    def processes(self) -> list[tuple[int, str]]:
        return list(qmd_processes(self.root))

    async def watch(self) -> None:
        while True:
            seen = [pid for pid, line in self.processes() if " embed " in f"{line} "]
            # One may have ended while the others were listed; helpers are in the group of their process.
            groups = {group for pid in seen if (group := _group(pid)) is not None}
            self.most_embedding = max(self.most_embedding, len(groups))
            await anyio.sleep(SAMPLE_EVERY_S)


def _group(pid: int) -> int | None:
    """Returns the group of a process; None if it is gone or has ended."""
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if state[0] in "ZX" else int(state[2])
    return None


async def ten_agents(command: str, root: Path) -> Table:
    """Starts all gateways at once, kills all, and starts one again."""
    agents = _Agents(root, command)
    for number in range(AGENTS):
        NoteWriter(seed=number).workspace(root / f"workspace-{number}", NOTES, BULLETS)
    async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
        tasks.start_soon(agents.watch)
        started = [
            await stack.enter_async_context(
                spawn_gateway(agents.arguments(number), environment=agents.environment)
            )
            for number in range(AGENTS)
        ]
        async with anyio.create_task_group() as waiting:
            for client in started:
                waiting.start_soon(_embedded, client)
        before, running = agents.collections(), len(agents.processes())
        for client in started:
            client.process.kill()
        tasks.cancel_scope.cancel()
    async with spawn_gateway(agents.arguments(0), environment=agents.environment) as client:
        await _embedded(client)
        own = str(root / "a0/")
        strangers = [
            pid for pid, _ in agents.processes() if pid not in dict(qmd_processes(Path(own)))
        ]
        after = agents.collections()
    return facts(
        f"{AGENTS} gateways of {AGENTS} agents",
        {
            "`embed` runs at one time, at most": agents.most_embedding,
            "collections before the kill": sum(map(len, before.values())),
            "the same after it": before == after,
            "QMD processes before the kill": running,
            "of the other nine after one restart": len(strangers),
        },
    )


async def _embedded(client: SpawnedGateway) -> None:
    with anyio.fail_after(PATIENCE_S):
        while (await qmd_status(client)).get("lastEmbedSecondsAgo") is None:  # noqa: ASYNC110 - another process
            await anyio.sleep(0.1)


async def recall(command: str, collections: list[Collection]) -> Table:
    """Asks all natural questions of a gateway with QMD."""
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
