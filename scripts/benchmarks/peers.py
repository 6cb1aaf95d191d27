"""Makes the leaderboard: the same notes, embeddings and questions for this gateway and its peers.

Each peer is asked through an interface of its own, warm if it has a server. After the installation models come from
a server on loopback or from a file; telemetry is switched off if a peer has a switch for it, and proxies lead nowhere.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import anyio
from packaging.requirements import Requirement
from rich.console import Console

from backends.qmd.server import exchange
from backends.ranking.query import content_words
from benchmarks.embedding_server import EmbeddingServer, embedding_server
from benchmarks.families import FAMILIES, families
from benchmarks.minilm import MiniLM
from benchmarks.minilm_gguf import minilm_gguf
from benchmarks.peer_scoring import (
    BUDGET,
    Asked,
    Board,
    Figures,
    Leaderboard,
    Row,
    cut,
    publish,
    sampled,
    shown,
    summed,
)
from benchmarks.questions import Collection
from benchmarks.recall import SYSTEMS, System
from benchmarks.running import configured, embedded, embedding_with, timed
from fakes.openclaw import HostError, OpenClaw
from fakes.openclaw_model import FakeModel
from gateway.client import spawn_gateway
from gateway.process.log_output import configure_logs

SCRIPTS: Final = Path(__file__).resolve().parents[1]
KEPT: Final = "docs/peers.json"
"""The file with the figures that are published."""
MODEL: Final = "all-minilm-l6-v2"
WIDE: Final = 30
"""The number of results asked for if a page of the usual length does not fill the budget."""
PATIENCE_S: Final = 600.0
"""The time limit of every call to a peer, also of indexing; the machine may be busy."""
_PRODUCT: Final = "memory-gateway"

Ask = Callable[[str, int], Any]
"""A function that returns, when awaited, the passages for a question, at most so many."""


class Running(NamedTuple):
    """A peer that has indexed one workspace."""

    ask: Ask
    index_s: float
    pid: int | None
    """The process whose memory is measured, with its descendants; None or 0: there is none to measure."""


class Place(NamedTuple):
    """The things that a peer is given: a copy of the notes, a directory of its own, and the embeddings."""

    notes: Path
    home: Path
    server: EmbeddingServer


class Peer(NamedTuple):
    name: str
    page: int
    """The number of results on its own page."""
    run: Callable[[Place], AbstractAsyncContextManager[Running]]
    installed: Callable[[], float]
    """Returns the megabytes of its installation."""
    note: str = ""


class PeerError(Exception):
    """A peer did not do what was asked; the message says what it printed."""


# ---- Common to all


def _environment(place: Place, **more: str) -> dict[str, str]:
    """Returns an environment without the user's own; a proxy that does not exist stops what ignores an opt-out."""
    nowhere = "http://127.0.0.1:9"
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(place.home),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "DO_NOT_TRACK": "1",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1,localhost",
        **more,
    }


def output_of(argv: list[str], environment: dict[str, str], limit_s: float = PATIENCE_S) -> str:
    """Returns what the command printed. Raises PeerError, also if it has not ended within `limit_s`."""
    with subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            printed, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{_named(argv)} did not end within {limit_s:g} s") from None
        finally:
            _end(process)
    if process.returncode:
        said = (errors or printed)[-2000:]
        raise PeerError(f"{_named(argv)} ended with {process.returncode}: {said}")
    return printed


def _named(argv: list[str]) -> str:
    return " ".join([Path(argv[0]).name, *argv[1:3]])


def _end(process: subprocess.Popen[str]) -> None:
    """Kills the process with everything that it started: a child that keeps a pipe open would be waited for."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Lines:
    """A process that answers each line of JSON with one."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self._name = _named(argv)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        self.process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, encoding="utf-8", start_new_session=True,
        )  # fmt: skip

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def call(self, message: dict[str, Any], limit_s: float = PATIENCE_S) -> Any:
        """Sends a message; returns the member `result` of the next line that has one.

        Raises PeerError, also if there is none within `limit_s`: then the process is killed, which ends the reading.
        """
        expired = threading.Event()
        late = threading.Timer(limit_s, lambda: (expired.set(), self.end()))
        late.start()
        try:
            return self._call(message)
        except _EndedError:
            if expired.is_set():
                raise PeerError(f"{self._name} did not answer within {limit_s:g} s") from None
            self._errors.seek(0)
            said = self._errors.read()[-2000:].decode("utf-8", "replace")
            raise PeerError(f"{self._name} ended: {said}") from None
        finally:
            late.cancel()

    def _call(self, message: dict[str, Any]) -> Any:
        assert self.process.stdout is not None
        try:
            self.send(message)
        except BrokenPipeError:
            raise _EndedError from None
        for line in self.process.stdout:
            answer = json.loads(line)
            if "error" in answer:
                raise PeerError(f"an error was answered: {str(answer['error'])[:500]}")
            if "result" in answer:
                return answer["result"]
        raise _EndedError

    def end(self) -> None:
        _end(self.process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        with suppress(BrokenPipeError):  # the last message may never have been read
            self.process.communicate()
        self._errors.close()


class _EndedError(Exception):
    """No more lines will come."""


def resident_mb(pid: int) -> float:
    """Returns the resident memory of a process and its descendants; pages that two of them share count twice."""
    parents: dict[int, list[int]] = {}
    pages: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                pages[int(entry.name)] = int((entry / "statm").read_text().split()[1])
            except OSError:
                continue
            parents.setdefault(int(after_name[1]), []).append(int(entry.name))
    tree, total = [pid], 0
    while tree:
        one = tree.pop()
        total += pages.get(one, 0)
        tree += parents.get(one, [])
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


def _directory_mb(directory: Path) -> float:
    files = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


def _set_up(script: str, *arguments: str) -> Path:
    """Runs the script; returns the path that it prints, of the command that it has installed."""
    done = subprocess.run(
        [str(SCRIPTS / script), *arguments], stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    return Path(done.stdout.strip())


# ---- This gateway


@asynccontextmanager
async def _ours(system: System, place: Place) -> AsyncIterator[Running]:
    arguments = configured(place.home, place.notes.parent, system.settings(place.server))
    started = time.perf_counter()
    async with spawn_gateway(arguments) as client:
        await client.call("sync", {}, timeout_s=PATIENCE_S)
        if system.model:
            await embedded(client)
        index_s = time.perf_counter() - started

        async def ask(query: str, limit: int) -> list[str]:
            params = {"query": query, "maxResults": limit}
            answer = await client.call("memory_search", params, timeout_s=60)
            return [hit["snippet"] for hit in answer["results"]]

        yield Running(ask, index_s, client.process.pid)


def _ours_mb(extras: frozenset[str]) -> float:
    """Returns the size of the gateway and of every distribution that it needs, without the development tools here."""
    wanted = [(_PRODUCT, extras)]
    seen: set[str] = set()
    total = 0.0
    while wanted:
        name, asked = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        distribution = importlib.metadata.distribution(name)
        if name != _PRODUCT:
            files = (Path(str(distribution.locate_file(one))) for one in distribution.files or ())
            total += sum(path.stat().st_size for path in files if path.is_file())
        for line in distribution.requires or ():
            need = Requirement(line)
            environments = [{"extra": extra} for extra in (asked or {""})]
            if need.marker is None or any(need.marker.evaluate(one) for one in environments):
                wanted.append((need.name.lower(), frozenset(need.extras)))
    floors = ("config", "providers", "backends", "gateway")
    own = sum(_directory_mb(SCRIPTS.parent / floor) for floor in floors)
    return total / 1e6 + own


# ---- The baseline


@asynccontextmanager
async def _fts5(place: Place) -> AsyncIterator[Running]:
    started = time.perf_counter()
    database = sqlite3.connect(place.home / "baseline.sqlite")
    database.execute("CREATE VIRTUAL TABLE chunks USING fts5(text, tokenize = 'porter unicode61')")
    for file in sorted(place.notes.rglob("*.md")):
        rows = [(chunk,) for chunk in chunks(file.read_text(encoding="utf-8"))]
        database.executemany("INSERT INTO chunks VALUES (?)", rows)
    database.commit()
    index_s = time.perf_counter() - started

    async def ask(query: str, limit: int) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        statement = "SELECT text FROM chunks WHERE chunks MATCH ? ORDER BY rank LIMIT ?"
        return [text for (text,) in database.execute(statement, (words, limit))]

    try:
        yield Running(ask, index_s, None)
    finally:
        database.close()


def chunks(text: str, size: int = 700) -> Iterator[str]:
    """Yields chunks of whole lines, as many as fit; a longer line is a chunk of its own, cut to the size."""
    kept = ""
    for line in text.splitlines(keepends=True):
        if kept and len(kept) + len(line) > size:
            yield kept
            kept = ""
        kept += line[:size]
    if kept.strip():
        yield kept


# ---- memsearch


@asynccontextmanager
async def _memsearch(place: Place) -> AsyncIterator[Running]:
    python = _set_up("peers-setup", "memsearch")
    settings = {
        "paths": [str(place.notes)],
        "embedding_model": MODEL,
        "embedding_base_url": place.server.base_url,
        "embedding_api_key": place.server.key,
        "milvus_uri": str(place.home / "milvus.db"),
    }
    argv = [str(python), str(Path(__file__).with_name("memsearch_driver.py")), json.dumps(settings)]
    started = time.perf_counter()
    with Lines(argv, _environment(place)) as lines:
        await anyio.to_thread.run_sync(lines.call, {"method": "index"})
        index_s = time.perf_counter() - started

        async def ask(query: str, limit: int) -> Any:
            asked = {"method": "search", "query": query, "limit": limit}
            return await anyio.to_thread.run_sync(lines.call, asked)

        yield Running(ask, index_s, lines.process.pid)


def _memsearch_mb() -> float:
    return _directory_mb(_set_up("peers-setup", "memsearch").parents[1])


# ---- basic-memory


@asynccontextmanager
async def _basic_memory(kind: str, place: Place) -> AsyncIterator[Running]:
    python = _set_up("peers-setup", "basic-memory")
    command = str(python.with_name("basic-memory"))
    settings = {
        "CONFIG_DIR": str(place.home / ".basic-memory"),
        "NO_PROMOS": "1",
        "AUTO_UPDATE": "false",
        "LOGFIRE_ENABLED": "false",
        "SEMANTIC_SEARCH_ENABLED": str(kind == "hybrid").lower(),
        "SEMANTIC_EMBEDDING_PROVIDER": "openai",
        "SEMANTIC_EMBEDDING_MODEL": MODEL,
        "SEMANTIC_EMBEDDING_DIMENSIONS": "384",
        "SEMANTIC_EMBEDDING_API_BASE": place.server.base_url,
        "SEMANTIC_EMBEDDING_API_KEY": place.server.key,
    }
    environment = _environment(place, **{f"BASIC_MEMORY_{k}": v for k, v in settings.items()})
    started = time.perf_counter()
    add = [command, "project", "add", "bench", str(place.notes.parent), "--default"]
    said = " ".join((await anyio.to_thread.run_sync(output_of, add, environment)).split())
    if kind == "hybrid" and "0 skipped, 0 errors, 0 with pending chunks" not in said:
        raise PeerError(f"not everything was embedded: {said[-500:]}")
    index_s = time.perf_counter() - started
    with Lines([command, "mcp"], environment) as lines:
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        request = partial(dict, jsonrpc="2.0", id=1)
        greeting = request(method="initialize", params=hello)
        await anyio.to_thread.run_sync(lines.call, greeting)
        lines.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

        async def ask(query: str, limit: int) -> list[str]:
            arguments = {"query": query, "project": "bench", "page_size": limit}
            arguments |= {"search_type": kind, "output_format": "json"}
            params = {"name": "search_notes", "arguments": arguments}
            asked = request(method="tools/call", params=params)
            answer = await anyio.to_thread.run_sync(lines.call, asked)
            found = json.loads(answer["content"][0]["text"])
            return [
                hit.get("matched_chunk") or hit.get("content") or "" for hit in found["results"]
            ]

        yield Running(ask, index_s, lines.process.pid)


def _basic_memory_mb() -> float:
    return _directory_mb(_set_up("peers-setup", "basic-memory").parents[1])


# ---- QMD


def _qmd_home(place: Place) -> tuple[str, dict[str, str]]:
    command = _set_up("qmd-setup")
    directories = {"XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config", "QMD_CONFIG_DIR": "qmd"}
    more = {name: str(place.home / directory) for name, directory in directories.items()}
    more |= {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    more |= {"QMD_EMBED_MODEL": str(minilm_gguf()), "QMD_FORCE_CPU": "1"}
    environment = _environment(place, **more)
    output_of(
        [str(command), "collection", "add", str(place.notes), "--name", "memory"], environment
    )
    return str(command), environment


@asynccontextmanager
async def _qmd_words(place: Place) -> AsyncIterator[Running]:
    started = time.perf_counter()
    command, environment = _qmd_home(place)
    index_s = time.perf_counter() - started

    async def ask(query: str, limit: int) -> list[str]:
        argv = [command, "search", "--format", "json", "-n", str(limit), "--", query]
        printed = await anyio.to_thread.run_sync(output_of, argv, environment)
        start = printed.find("[")
        return [hit["snippet"] for hit in json.loads(printed[start:])] if start >= 0 else []

    yield Running(ask, index_s, 0)


@asynccontextmanager
async def _qmd_vectors(place: Place) -> AsyncIterator[Running]:
    started = time.perf_counter()
    command, environment = _qmd_home(place)
    output_of([command, "embed"], environment)
    index_s = time.perf_counter() - started
    port = _free_port()
    with Lines([command, "mcp", "--http", "--port", str(port)], environment) as lines:
        await _listening(port)

        async def ask(query: str, limit: int) -> list[str]:
            words = " ".join(content_words(query, "en")) or query
            searches = [{"type": "lex", "query": words}, {"type": "vec", "query": query}]
            question = {"searches": searches, "limit": limit, "rerank": False}
            answer = await exchange(port, "/query", question, timeout_s=120)
            return [hit["snippet"] for hit in answer["results"]]

        yield Running(ask, index_s, lines.process.pid)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _listening(port: int) -> None:
    with anyio.fail_after(60):
        while True:
            try:
                await (await anyio.connect_tcp("localhost", port)).aclose()
                return
            except OSError:
                await anyio.sleep(0.05)


def _qmd_mb() -> float:
    return _directory_mb(_set_up("qmd-setup").parents[2])


# ---- OpenClaw


@asynccontextmanager
async def _openclaw(place: Place, *, dated: bool) -> AsyncIterator[Running]:
    command = str(_set_up("openclaw-setup"))
    search = embedding_with(place.server) | {"provider": "openai-compatible", "model": MODEL}
    if not dated:
        search["query"] = {"minScore": 0}
    with FakeModel(most=1) as model:
        host = OpenClaw(command, place.home, model)
        host.configure({"memory": {"search": search}})
        notes = host.workspace / "memory"
        notes.mkdir()
        for number, file in enumerate(sorted(place.notes.rglob("*.md"))):
            name = file.relative_to(place.notes) if dated else Path(f"conversation-{number:03}.md")
            (notes / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, notes / name)
        started = time.perf_counter()
        indexed = await anyio.to_thread.run_sync(
            partial(host.run, "memory", "index", "--force", patience_s=PATIENCE_S)
        )
        if indexed.returncode:
            raise PeerError(f"OpenClaw did not index: {indexed.stdout[-2000:]}")
        index_s = time.perf_counter() - started
        with host.gateway() as running:

            async def ask(query: str, limit: int) -> list[str]:
                arguments = {"query": query, "maxResults": limit}
                found = await anyio.to_thread.run_sync(running.invoke, "memory_search", arguments)
                details = found["details"]
                if details.get("disabled") or "results" not in details:
                    raise PeerError(f"OpenClaw did not search: {str(details)[:500]}")
                return [hit["snippet"] for hit in details["results"]]

            yield Running(ask, index_s, running.pid)


def _openclaw_mb() -> float:
    return _directory_mb(_set_up("openclaw-setup").parents[2])


# ---- The run

_QMD_NOTE = (
    "its models for expansion and reranking are downloads that are not made here, so `qmd query`, its default, "
    "cannot be measured; "
    "a passage has at most 300 characters and loses the end of longer lines, whose text takes another call; "
)
PEERS: Final = {
    "keyword": Peer(
        "Memory Gateway, keywords", 6, partial(_ours, SYSTEMS["keyword"]), lambda: _ours_mb(frozenset()),
        "the default without a key",
    ),
    "hybrid": Peer(
        "Memory Gateway, hybrid", 6, partial(_ours, SYSTEMS["minilm"]),
        lambda: _ours_mb(frozenset({"openai", "vector"})),
    ),
    "memsearch": Peer(
        "memsearch 0.4.23", 5, _memsearch, _memsearch_mb,
        "hybrid, the five results of its command, asked through its Python interface, which stays warm",
    ),
    "memsearch-10": Peer(
        "memsearch 0.4.23, 10 results", 10, _memsearch, _memsearch_mb,
        "what its Python interface returns unless asked otherwise; its rerankers are downloads or a remote service",
    ),
    "basic-memory": Peer(
        "basic-memory 0.24.1, words", 10, partial(_basic_memory, "text"), _basic_memory_mb,
        "`search_notes` over MCP, as JSON (its text shows 200 characters of a hit): the part of a note that "
        "matched where it names one, else the note's first 4,000 characters; its own embedding model is a download, "
        "without which it searches words",
    ),
    "basic-memory-hybrid": Peer(
        "basic-memory 0.24.1, hybrid", 10, partial(_basic_memory, "hybrid"), _basic_memory_mb,
        "the same with the shared embeddings; where the Python found has an SQLite without extensions, "
        "it is given pysqlite3",
    ),
    "qmd": Peer(
        "QMD 2.8.3, words", 20, _qmd_words, _qmd_mb,
        _QMD_NOTE + "`qmd search --format json`, a process for each question, in which all words must occur; "
        "no process stays",
    ),
    "qmd-vectors": Peer(
        "QMD 2.8.3, words and vectors", 10, _qmd_vectors, _qmd_mb,
        _QMD_NOTE + "`lex:` (without stop words) and `vec:` at its warm server, not reranked; "
        "it runs the same MiniLM itself, from a file, cut at 512 tokens; understated, since its own models are larger",
    ),
    "openclaw": Peer(
        "OpenClaw 2026.9.6", 6, partial(_openclaw, dated=True), _openclaw_mb,
        "`memory_search` through its gateway; notes lose half of their weight every 30 days, which no key "
        "changes, and these are years old",
    ),
    "openclaw-undated": Peer(
        "OpenClaw 2026.9.6, undated files", 6, partial(_openclaw, dated=False), _openclaw_mb,
        "the same notes under names without dates, which by its documentation do not fade, and `minScore` 0",
    ),
    "fts5": Peer(
        "FTS5, OR, 700-character chunks", 6, _fts5, lambda: 0.0,
        "the baseline: fifty lines around SQLite; no process of its own",
    ),
}  # fmt: skip
OWN: Final = ["keyword", "hybrid"]
"""The peers that `--only own` stands for."""


async def measure(peer: Peer, collections: list[Collection], server: EmbeddingServer) -> Figures:
    asked: list[Asked] = []
    index_s = resident = 0.0
    for collection in collections:
        with tempfile.TemporaryDirectory(prefix="memory-gateway-peer-") as root:
            home, notes = Path(root) / "home", Path(root) / "notes" / "memory"
            home.mkdir()
            # A copy: some peers write into the notes.
            shutil.copytree(collection.workspace / "memory", notes)
            for file in collection.workspace.glob("*.md"):
                shutil.copy(file, notes)
            async with peer.run(Place(notes, home, server)) as running:
                index_s += running.index_s
                await running.ask(collection.questions[0].query, peer.page)  # what is loaded once
                for question in collection.questions:
                    page, latency_ms = await timed(running.ask(question.query, peer.page))
                    short = sum(map(len, page)) < BUDGET
                    wide = await running.ask(question.query, WIDE) if short else page
                    own, equal = shown(question, page), shown(question, cut(wide))
                    asked.append(Asked(own, equal, latency_ms))
                if running.pid:
                    resident = max(resident, resident_mb(running.pid))
    return summed(
        asked,
        index_s=index_s,
        installed_mb=peer.installed(),
        resident_mb=resident,
        load=os.getloadavg()[0],
    )


async def _measured(peer: Peer, collections: list[Collection], server: EmbeddingServer) -> Row:
    """Measures a peer; a failure becomes the note of its row, and the others are measured all the same."""
    print(f"{peer.name} ...", file=sys.stderr, flush=True)
    try:
        return Row(peer.name, await measure(peer, collections, server), peer.note)
    except (PeerError, HostError, OSError, ValueError, subprocess.SubprocessError) as error:
        return Row(peer.name, None, f"not measured: {error}")


async def _measure_all(
    options: argparse.Namespace, found: dict[str, list[Collection]]
) -> Leaderboard:
    """Measures all peers that were asked for; with `--keep` each row is kept as soon as it is measured."""
    board = Leaderboard({})
    if options.keep and options.keep.exists():
        board = Leaderboard.read(options.keep)
    chosen = {
        name: sampled(one, options.questions, options.workspaces) for name, one in found.items()
    }
    for family, collections in chosen.items():
        new = Board.of(collections)
        kept = board.families.setdefault(family, new)
        if kept.sample != new.sample:
            sys.exit(
                f"{options.keep} has answers to other questions of {family} ({kept.questions}, not {new.questions}). "
                "Give the --questions and --workspaces of that run, or another file."
            )
    board.families = {name: board.families[name] for name in FAMILIES if name in board.families}
    only = options.only or PEERS
    names = OWN + [one for one in only if one != "own"] if "own" in only else list(only)
    # Without a cache of vectors: the peer that indexes second would seem quicker.
    async with embedding_server(MiniLM()) as server:
        for name, family in product(names, chosen):
            print(f"{family}: ", end="", file=sys.stderr)
            row = await _measured(PEERS[name], chosen[family], server)
            board.families[family].rows[name] = row
            if options.keep:
                board.write(options.keep)
    return board


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("locomo", "multilingual", "families"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="as for bench recall")
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=FAMILIES,
        metavar="FAMILY",
        default=[],
        help=f"which are measured: {', '.join(FAMILIES)}; none: what was kept is shown",
    )
    parser.add_argument(
        "--questions", type=int, metavar="N", help="so many of each family, evenly spread"
    )
    parser.add_argument(
        "--workspaces", type=int, metavar="N", help="of each family the first so many alone"
    )
    names = ["own", *PEERS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="JSON: rows measured replace those in it, and all of them are shown",
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="write the table into README.md, what it takes and the notes into docs/benchmarks.md, "
        f"the plot into docs/peers.svg, the figures into {KEPT}",
    )
    options = parser.parse_args()
    if not options.sets and not options.keep:
        parser.error("--sets FAMILY ... is missing, or --keep FILE to show what was measured")
    found = families(options.families, options.locomo, options.multilingual)
    if missing := set(options.sets) - set(found):
        parser.error(f"the notes of {', '.join(missing)} were not named")
    configure_logs("error")
    asked = {name: found[name] for name in options.sets}
    board = anyio.run(_measure_all, options, asked) if asked else Leaderboard.read(options.keep)
    for each in board.families.values():
        each.rows = {
            name: Row(PEERS[name].name, row.figures, PEERS[name].note if row.figures else row.note)
            for name, row in each.rows.items()
        }  # as they are worded now
    shown_board = (
        f"{board.table()}\n\n{board.what_it_takes()}\n\n{board.circumstances()}\n\n{board.notes()}"
    )
    Console(width=10_000, highlight=False).print(shown_board, markup=False, soft_wrap=True)
    if options.publish:
        publish(board, SCRIPTS.parent)
        board.write(SCRIPTS.parent / KEPT)


if __name__ == "__main__":
    main()
