"""Measures cold starts, resident memory, warm searches, first answers with a query's vector, and single commands.

Ratios are within one run: the yardstick is a bare interpreter that imports the libraries of the gateway.
`--instructions` counts instructions instead of time (it needs valgrind), which other work on the machine does not
change.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.embedding_server import embedding_server
from benchmarks.hash_embedder import HashEmbedder
from benchmarks.notes import NoteWriter
from benchmarks.plot import draw
from benchmarks.running import embedded, embedding_with, figures, home, resident_bytes, timed
from benchmarks.scoring import percentile
from config.runtime.start import command_of
from gateway.client import GATEWAY_COMMAND, spawn_gateway

ROUNDS = 15
WARM_SEARCHES = 300
COMMAND_FILES = 100
"""The notes in the workspace on which the commands are measured."""
BARE = "import sys; sys.modules['rich'] = None; import apsw, msgspec, anyio, structlog"
"""structlog imports rich if that is installed; the gateway prevents it."""
FIRST_QUERY: Final = "When did she start the new job?"
_WORDS_ASKED: Final = 5
_LONG_WORD: Final = re.compile(r"\w{4,}")


def questions(workspace: Path, count: int, seed: int = 17) -> list[str]:
    """Returns some words of as many lines of the notes."""
    notes = sorted(workspace.rglob("*.md"))
    lines = [
        words
        for note in notes
        for line in note.read_text(encoding="utf-8").splitlines()
        if len(words := _LONG_WORD.findall(line)) >= _WORDS_ASKED
    ]
    rng = random.Random(seed)
    return [" ".join(rng.sample(rng.choice(lines), _WORDS_ASKED)) for _ in range(count)]


def bare_interpreter_s() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", BARE], check=True)
    return time.perf_counter() - started


async def cold_start(arguments: list[str], mode: str = "keyword") -> tuple[float, int]:
    """Returns the seconds from the start to the first reply, which has to be of this mode, and the resident bytes."""
    started = time.perf_counter()
    async with spawn_gateway(arguments) as client:
        answer = await client.call("memory_search", {"query": FIRST_QUERY}, timeout_s=30)
        seconds = time.perf_counter() - started
        if answer["mode"] != mode:
            raise ValueError(f"answered by {answer['mode']}, not {mode}: {answer.get('warning')}")
        return seconds, resident_bytes(client.process.pid)


async def build(arguments: list[str]) -> int:
    """Makes the index; returns how many chunks it has."""
    async with spawn_gateway(arguments) as client:
        await client.call("sync", {}, timeout_s=600)
        status = await client.call("status", {}, timeout_s=60)
        return int(status["chunks"])


async def warm_latencies(arguments: list[str], asked: Sequence[str]) -> list[float]:
    """Returns the milliseconds of each search. Raises ValueError if one finds nothing, which takes less."""
    async with spawn_gateway(arguments) as client:
        await client.call("sync", {}, timeout_s=60)
        latencies = []
        for query in asked:
            answer, latency = await timed(
                client.call("memory_search", {"query": query}, timeout_s=30)
            )
            if not answer["results"]:
                raise ValueError(f"nothing found for {query!r}")
            latencies.append(latency)
        return latencies


COMMANDS: Final = (
    ("search", "--json", "--max-results", "1"),
    ("search", "--max-results", "1"),
    ("get", "--json"),
    ("status", "--json"),
    ("status",),
)
_WORDS: Final = 4
_COUNT: Final = re.compile(rb"Collected : (\d+)")
_ASKED: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "memory_search",
    "params": {"query": FIRST_QUERY},
}


def command_s(argv: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True)
    return time.perf_counter() - started


def instructions(
    argv: Sequence[str],
    mode: str | None = None,
    *,
    event: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> int:
    """Counts the instructions of a process, in all threads, until it ends or has answered a search in this mode."""
    counter = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*counter, *argv], stdin=pipe, stdout=pipe, stderr=pipe, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if mode:
            process.stdin.write(json.dumps(_ASKED).encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if json.loads(answer)["result"]["mode"] != mode:
                raise ValueError(f"not answered by {mode}: {answer!r}")
            process.send_signal(signal.SIGALRM)  # ends it at once; valgrind says what it counted
        errors = process.communicate(None if mode else event)[1]
    found = _COUNT.search(errors)
    if found is None or process.returncode != (-signal.SIGALRM if mode else 0):
        raise ValueError(f"valgrind counted nothing: {errors[-500:]!r}")
    return int(found[1])


async def commands(
    arguments: list[str], workspace: Path, gateway: str, table: Table, *, counted: bool
) -> None:
    """Compares commands with the bare interpreter; `get` reads the first note, `search` looks for its first words."""
    bare, note = [sys.executable, "-c", BARE], first_note(workspace)
    words = (workspace / note).read_text(encoding="utf-8").split()[:_WORDS]
    about = {"get": [note], "search": [" ".join(words)]}
    lines = {
        one: [*command_of("gateway"), one[0], *arguments, *one[1:], *about.get(one[0], [])]
        for one in COMMANDS
    }
    if counted:
        yardstick = float(instructions(bare))
        taken = {one: float(instructions(argv)) for one, argv in lines.items()}
    else:
        rounds = [[command_s(argv) for argv in (bare, *lines.values())] for _ in range(ROUNDS)]
        yardstick, *found = (percentile(list(one), 0.5) for one in zip(*rounds, strict=True))
        taken = dict(zip(lines, found, strict=True))
    for one, cost in taken.items():
        name = " ".join(part for part in one if part not in {"--max-results", "1"})
        shown = f"{cost / 1e6:.0f} M" if counted else f"{cost * 1000:.0f} ms"
        table.add_row(name, gateway, shown, f"{cost / yardstick:.2f}")


def count_start(arguments: list[str], table: Table) -> None:
    """Counts the instructions of `serve` until it has answered a search."""
    yardstick = instructions([sys.executable, "-c", BARE])
    cost = instructions([*GATEWAY_COMMAND, *arguments], "keyword")
    table.add_row("serve, one search", "itself", f"{cost / 1e6:.0f} M", f"{cost / yardstick:.2f}")


def first_note(workspace: Path) -> str:
    return str(min(workspace.rglob("*.md")).relative_to(workspace))


async def measure_commands(workspace: Path, *, counted: bool) -> Table:
    table = figures(
        f"Commands against the bare interpreter, {workspace.name}",
        "command | gateway",
        "instructions" if counted else "median",
        "ratio",
    )
    with tempfile.TemporaryDirectory() as state:
        arguments = home(Path(state), workspace, "warning")
        await build(arguments)
        if counted:
            count_start(arguments, table)
        await commands(arguments, workspace, "none", table, counted=counted)
        async with spawn_gateway(arguments) as client:
            await client.call("sync", {}, timeout_s=60)
            await commands(arguments, workspace, "runs", table, counted=counted)
    return table


async def measure_first_vector(workspace: Path, *, counted: bool) -> Table:
    """Compares the first answer with a query's vector with that by keywords; every note has its vector already."""
    table = figures(
        f"First answer of a process, {workspace.name}", "keywords | with a query's vector | ratio"
    )
    with tempfile.TemporaryDirectory() as scratch:
        async with embedding_server(HashEmbedder()) as server:
            by_words = home(Path(scratch) / "plain", workspace, "warning")
            search = embedding_with(server) | {
                "query": {"embeddingTimeoutMs": 60_000}
            }  # valgrind is slow
            search["model"] = HashEmbedder.name
            by_both = home(Path(scratch) / "hybrid", workspace, "warning", **search)
            await build(by_words)
            async with spawn_gateway(by_both) as client:
                await client.call("sync", {}, timeout_s=600)
                await embedded(client)
            if counted:
                counts = [
                    await anyio.to_thread.run_sync(instructions, [*GATEWAY_COMMAND, *one], mode)
                    for one, mode in ((by_words, "keyword"), (by_both, "hybrid"))
                ]
                ratio = counts[1] / counts[0]
                table.add_row(*(f"{one / 1e6:.0f} M" for one in counts), f"{ratio:.2f}")
                return table
            words, both = [], []
            for _ in range(ROUNDS):
                words.append((await cold_start(by_words))[0])
                both.append((await cold_start(by_both, "hybrid"))[0])
    first, second = percentile(words, 0.5), percentile(both, 0.5)
    ratio = percentile([two / one for one, two in zip(words, both, strict=True)], 0.5)
    table.add_row(f"{first * 1000:.0f} ms", f"{second * 1000:.0f} ms", f"{ratio:.2f}")
    return table


PLOT: Final = Path(__file__).resolve().parents[2] / "docs/start.svg"


class Measured(NamedTuple):
    """The number of chunks, and times in milliseconds."""

    chunks: int
    bare: float
    first: float
    warm: float


async def measure(workspace: Path, table: Table) -> Measured:
    with tempfile.TemporaryDirectory() as state:
        arguments = home(Path(state), workspace, "warning")
        chunks = await build(arguments)
        bare, cold, resident = [], [], []
        for _ in range(ROUNDS):
            bare.append(bare_interpreter_s())
            seconds, size = await cold_start(arguments)
            cold.append(seconds)
            resident.append(size)
        warm = await warm_latencies(arguments, questions(workspace, WARM_SEARCHES))
    yardstick, first = percentile(bare, 0.5), percentile(cold, 0.5)
    table.add_row(
        workspace.name,
        f"{yardstick * 1000:.0f} ms",
        f"{first * 1000:.0f} ms",
        f"{first / yardstick:.2f}",
        f"{max(resident) / 1e6:.0f} MB",
        f"{percentile(warm, 0.5):.1f} ms",
        f"{percentile(warm, 0.95):.1f} ms",
    )
    return Measured(chunks, yardstick * 1000, first * 1000, percentile(warm, 0.5))


def plot(measured: list[Measured]) -> None:
    names = ("bare interpreter", "first reply", "warm search")
    lines = {
        name: [(one.chunks, one[place]) for one in measured] for place, name in enumerate(names, 1)
    }
    title = "Start on an existing index, and warm keyword searches"
    draw(PLOT, lines, title=title, x="chunks", y="ms", dashed=names[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspaces", nargs="*", type=Path)
    parser.add_argument("--files", type=int, nargs="*", default=[10, 100, 1_000])
    parser.add_argument(
        "--instructions", action="store_true", help="count them; first answers and commands only"
    )
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a start would compile all that it imports
    table = figures(
        "Start on an existing index, and warm keyword searches through the pipe",
        "workspace | bare | first reply | ratio | resident | warm p50 | warm p95",
    )
    measured, once = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for files in options.files:
            workspace = Path(scratch) / f"{files} notes"
            NoteWriter().workspace(workspace, files, bullets=30)
            if not options.instructions:
                measured.append(anyio.run(measure, workspace, table))
            if files == COMMAND_FILES:
                once += [
                    anyio.run(partial(taken, workspace, counted=options.instructions))
                    for taken in (measure_first_vector, measure_commands)
                ]
    for workspace in options.workspaces if not options.instructions else ():
        anyio.run(measure, workspace.resolve(), table)
    console = Console(width=110)
    for one in (*([] if options.instructions else [table]), *once):
        console.print(one)
    if measured:
        plot(measured)


if __name__ == "__main__":
    main()
