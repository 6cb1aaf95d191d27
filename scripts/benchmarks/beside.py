"""Measures what work in the background costs the searches beside it, and what they cost the work.

Clients search at an even pace through the pipe of the real gateway, alternately while nothing else runs and
beside one kind of work: a rebuild of the whole index, the same after a change of chunking, a long transcript,
results of a batch job, or vectors that are loaded. The work is also done alone. It is measured in processor time as
well, since other work on the machine affects the time on the clock.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
from rich.console import Console

from benchmarks.freshness import cpu_s, status_of
from benchmarks.notes import NoteWriter
from benchmarks.running import embedded, embedding_with, figures, home, timed
from benchmarks.scoring import percentile
from fakes.embedding import vector_status
from fakes.transcripts import Transcript
from fakes.vendors import FakeVendor
from gateway.client import SpawnedGateway, spawn_gateway

_PATIENCE_S: Final = 1800
_BULLETS: Final = 30
_WORDS: Final = "ba de fi go ku la me ni po ra".split()
_WARM_UP: Final = 30
_LOOK_S: Final = 0.5
"""The seconds between two checks whether the work is done: each `status` lists the disk, beside the searches."""


class Searches:
    """Searches, one at a time for each client, and their latencies in seconds."""

    def __init__(self, pause_s: float, clients: int = 1) -> None:
        """`pause_s`: the pause between two searches of a client."""
        self._pause_s = pause_s
        self._clients = clients
        self._asked = 0
        self.seconds: list[float] = []
        self.swept_ms: list[float] = []
        """The time that each search spent on its look at the disk."""
        self.empty = 0

    async def one(self, client: SpawnedGateway) -> None:
        first = _WORDS[self._asked % len(_WORDS)]
        second = _WORDS[(self._asked // len(_WORDS) + self._asked + 1) % len(_WORDS)]
        self._asked += 1
        query = {"query": f"{first} {second}"}
        answer, ms = await timed(client.call("memory_search", query, timeout_s=_PATIENCE_S))
        self.seconds.append(ms / 1000)
        self.swept_ms.append(answer["timings"]["sweep"])
        self.empty += not answer["results"]
        await anyio.sleep(self._pause_s)

    async def until(self, client: SpawnedGateway, is_done: Callable[[], bool]) -> None:
        """Searches with all clients on one pipe until the work is done."""

        async def ask() -> None:
            while not is_done():
                await self.one(client)

        async with anyio.create_task_group() as tasks:
            for _ in range(self._clients):
                tasks.start_soon(ask)


class Host(NamedTuple):
    base_url: str
    key: str


@contextmanager
def host_elsewhere() -> Iterator[Host]:
    """Runs a host in a process of its own, so that its computing does not count as the gateway's delay."""
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_be_host, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    with ours:
        yield Host(*ours.recv())
    process.join()


def _be_host(pipe: Connection) -> None:
    with pipe, FakeVendor("openai") as host:
        host.with_batches()
        pipe.send((host.base_url, host.key))
        with suppress(EOFError):
            pipe.recv()  # until the other end is closed


class Home:
    """An agent with notes, and the host that embeds them, if there is one."""

    def __init__(self, root: Path, files: int, host: Host | None = None) -> None:
        self._root = root
        self._workspace = root / "workspace"
        self._host = host
        self._writer = NoteWriter()
        self._writer.workspace(self._workspace, files, _BULLETS)
        self._made = 0
        self.configure()

    def configure(self, weight: float = 0.7, tokens: int = 400) -> None:
        """Writes settings for a reload: a new weight of the vectors loads them again, new chunks need a rebuild."""
        search: dict[str, Any] = {
            "sources": ["memory", "sessions"],
            "experimental": {"sessionMemory": True},
            "query": {"hybrid": {"vectorWeight": weight, "textWeight": 1 - weight}},
            "sync": {"watch": False},
            "chunking": {"tokens": tokens},
        }
        if self._host is not None:
            search |= embedding_with(self._host, batch={"enabled": True, "pollIntervalMs": 100})
        self._arguments = home(self._root / "state", self._workspace, **search)

    def gateway(self) -> Any:
        return spawn_gateway(self._arguments)

    async def prepare(self, client: SpawnedGateway) -> None:
        await client.call("sync", {}, timeout_s=_PATIENCE_S)
        if self._host is not None:
            await embedded(client, _PATIENCE_S, _LOOK_S)

    async def rebuild(self, client: SpawnedGateway) -> None:
        await client.call("sync", {"force": True}, timeout_s=_PATIENCE_S)

    async def chunk_anew(self, client: SpawnedGateway) -> None:
        self._made += 1
        self.configure(tokens=400 - 20 * (self._made % 2))
        await client.call("reload", timeout_s=_PATIENCE_S)
        await client.call("sync", {}, timeout_s=_PATIENCE_S)

    def talk(self) -> None:
        """Writes a new transcript of a conversation of some hours."""
        self._made += 1
        transcript = Transcript(self._root / "state/agents/main/sessions", f"talk{self._made}")
        for _ in range(_TURNS):
            transcript.say(self._writer.sentence(40))
            transcript.answer(self._writer.sentence(120))

    def write(self) -> None:
        """Writes new notes, whose vectors arrive as the results of a job."""
        self._made += 1
        directory = self._workspace / f"memory/new{self._made}"
        directory.mkdir()
        for number in range(_NEW_NOTES):
            text = "\n".join(f"- {self._writer.sentence(40)}" for _ in range(_BULLETS))
            (directory / f"{number}.md").write_text(text, encoding="utf-8")

    async def load_vectors(self, client: SpawnedGateway) -> None:
        for _ in range(_LOADS):
            self._made += 1
            self.configure(0.5 + 0.01 * (self._made % 20))
            await client.call("reload", timeout_s=_PATIENCE_S)
            await client.call("memory_search", {"query": "ba"}, timeout_s=_PATIENCE_S)
            await embedded(client, _PATIENCE_S, _LOOK_S)
            while not (await vector_status(client))["search"]["residentVectors"]:  # noqa: ASYNC110 - another process
                await anyio.sleep(_LOOK_S)


def _nothing(_home: Home) -> None:
    """Does nothing: the work needs no preparation."""


_TURNS: Final = 2_000
_NEW_NOTES: Final = 150
_LOADS: Final = 5


class Part(NamedTuple):
    make: Callable[[Home], None]
    """Prepares the work before it is timed."""
    work: Callable[[Home, SpawnedGateway], Awaitable[None]]


PARTS: Final = {
    "rebuild": Part(_nothing, Home.rebuild),
    "chunking": Part(_nothing, Home.chunk_anew),
    "transcripts": Part(Home.talk, Home.prepare),
    "batch": Part(Home.write, Home.prepare),
    "vectors": Part(_nothing, Home.load_vectors),
}
_REBUILDS: Final = frozenset({"rebuild", "chunking"})
"""The parts that use all notes; the others use a fifth of them and a tenth of the searches."""
_WITH_HOST: Final = frozenset({"batch", "vectors"})


class Run(NamedTuple):
    seconds: float
    cpu_s: float
    """Processor time of the whole process, including that of searches beside it."""


Work = Callable[[], Awaitable[None]]


async def done_alone(client: SpawnedGateway, work: Work) -> Run:
    started, cpu = time.perf_counter(), cpu_s(client.process.pid)
    await work()
    return Run(time.perf_counter() - started, cpu_s(client.process.pid) - cpu)


async def done_beside(client: SpawnedGateway, work: Work, searches: Searches) -> Run:
    taken: list[Run] = []

    async def do() -> None:
        taken.append(await done_alone(client, work))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(do)
        await searches.until(client, lambda: bool(taken))
    return taken[0]


class Found(NamedTuple):
    chunks: int
    quiet: Searches
    beside: Searches
    alone: list[Run]
    shared: list[Run]
    search_cpu_s: float
    """Processor time of a quiet search."""


async def measure(part: str, files: int, count: int, options: argparse.Namespace) -> Found:
    with tempfile.TemporaryDirectory() as root, ExitStack() as stack:
        host = stack.enter_context(host_elsewhere()) if part in _WITH_HOST else None
        home = Home(Path(root), files, host)
        async with home.gateway() as client:
            return await _by_turns(part, home, client, count, options)


async def _by_turns(
    part: str, home: Home, client: SpawnedGateway, count: int, options: argparse.Namespace
) -> Found:
    clients = options.clients
    quiet_pause_s = options.quiet_pause if clients == 1 else options.pause
    quiet, beside = Searches(quiet_pause_s, clients), Searches(options.pause, clients)
    alone: list[Run] = []
    shared: list[Run] = []
    await home.prepare(client)
    chunks = (await status_of(client))["chunks"]
    for _ in range(_WARM_UP):
        await Searches(0.0).one(client)
    work, quiet_cpu_s = partial(PARTS[part].work, home, client), 0.0
    while len(beside.seconds) < count:
        enough, cpu = (
            min(count, len(quiet.seconds) + -(-count // options.rounds)),
            cpu_s(client.process.pid),
        )
        await quiet.until(client, partial(_has, quiet, enough))
        quiet_cpu_s += cpu_s(client.process.pid) - cpu
        if len(alone) < options.rounds:
            PARTS[part].make(home)
            alone.append(await done_alone(client, work))
        PARTS[part].make(home)
        shared.append(await done_beside(client, work, beside))
    return Found(chunks, quiet, beside, alone, shared, quiet_cpu_s / len(quiet.seconds))


def _has(searches: Searches, count: int) -> bool:
    return len(searches.seconds) >= count


def show(part: str, found: Found, console: Console) -> None:
    table = figures(
        f"{part}, {found.chunks:,} chunks",
        "searches | count | empty | p50 | p95 | most | sweep p50 | sweep p95",
    )
    for name, one in (("quiet", found.quiet), ("beside", found.beside)):
        times = [percentile(one.seconds, part) * 1000 for part in (0.5, 0.95)]
        times.append(max(one.seconds) * 1000)
        times += [percentile(one.swept_ms, part) for part in (0.5, 0.95)]
        shown = (f"{milliseconds:.1f} ms" for milliseconds in times)
        table.add_row(name, str(len(one.seconds)), str(one.empty), *shown)
    console.print(table)
    quiet, beside = (percentile(one.seconds, 0.95) for one in (found.quiet, found.beside))
    kept = "kept" if beside <= max(MOST_TIMES * quiet, ENOUGH_S) else "NOT kept"
    console.print(f"p95 ratio: {beside / quiet:.2f}; 1.5 times the quiet one or 40 ms: {kept}")
    for line in _work_lines(found):
        console.print(line)


MOST_TIMES: Final = 1.5
ENOUGH_S: Final = 0.04


def _work_lines(found: Found) -> Iterator[str]:
    alone, shared = (
        Run(*(percentile(list(values), 0.5) for values in zip(*runs, strict=True)))
        for runs in (found.alone, found.shared)
    )
    yield f"the work alone: {alone.seconds:.2f} s, {alone.cpu_s:.2f} s of processor time"
    yield f"beside searches: {shared.seconds:.2f} s, {shared.seconds / alone.seconds:.2f} times as long"
    searches = len(found.beside.seconds) / len(found.shared)
    theirs = searches * found.search_cpu_s
    yield (
        f"of it {searches:.0f} searches of {found.search_cpu_s * 1000:.1f} ms of processor time: {theirs:.2f} s;"
        f" the work itself {(shared.cpu_s - theirs) / alone.cpu_s:.2f} times as much as alone"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--files", type=int, default=4_150, help="about 5 chunks each")
    parser.add_argument("--clients", type=int, default=1, help="that search at the same time")
    parser.add_argument("--searches", type=int, default=1_000, help="a tenth for other parts")
    parser.add_argument("--rounds", type=int, default=3, help="of the work alone")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two searches")
    parser.add_argument("--quiet-pause", type=float, default=0.01, help="the same without work")
    options = parser.parse_args()
    console = Console(width=110)
    for part in options.parts:
        files, count = options.files, options.searches
        if part not in _REBUILDS:
            files, count = max(1, files // 5), max(1, count // 10)
        show(part, anyio.run(measure, part, files, count, options), console)


if __name__ == "__main__":
    main()
