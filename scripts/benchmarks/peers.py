"""The leaderboard: the same notes, embeddings and questions for this gateway and its peers.

Each peer is asked through an interface of its own, warm where it has a server. After the installation models
come from a server on loopback or from a file; telemetry is switched off where a peer has a switch for it, and proxies lead nowhere.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
from packaging.requirements import Requirement
from rich.console import Console

from backends.qmd.server import post_query
from backends.ranking.query import content_words
from benchmarks.embedding_server import EmbeddingServer, embedding_server
from benchmarks.minilm import MiniLM
from benchmarks.minilm_gguf import minilm_gguf
from benchmarks.peer_scoring import (
    BUDGET,
    Asked,
    Measured,
    cut,
    markdown,
    sampled,
    shown,
)
from benchmarks.plot import bars
from benchmarks.questions import Collection, locomo
from benchmarks.recall import SYSTEMS, System, embedded
from fakes.openclaw import OpenClaw
from fakes.openclaw_model import FakeModel
from gateway.client import spawn_gateway
from gateway.process.logs import configure_logs

SCRIPTS: Final = Path(__file__).resolve().parents[1]
PLOT: Final = SCRIPTS.parent / "docs/peers.svg"
MODEL: Final = "all-minilm-l6-v2"
WIDE: Final = 30
"""Results asked for where a page of the usual length does not fill the budget."""
_PATIENCE_S: Final = 600
_PRODUCT: Final = "memory-gateway"

Ask = Callable[[str, int], Any]
"""The passages for a question, at most so many; awaitable."""


class Running(NamedTuple):
    """A peer that has indexed one workspace."""

    ask: Ask
    index_s: float
    pid: int | None
    """The process whose tree is weighed; None: this one."""


class Place(NamedTuple):
    """What a peer is given: a copy of the notes, a directory of its own, and the embeddings."""

    notes: Path
    home: Path
    server: EmbeddingServer


class Peer(NamedTuple):
    name: str
    page: int
    """Results of its own page."""
    run: Callable[[Place], AbstractAsyncContextManager[Running]]
    installed: Callable[[], float]
    """Megabytes."""
    note: str = ""


class PeerError(Exception):
    """A peer did not do what was asked; says what it printed."""


# ---- What all of them need


def _environment(place: Place, **more: str) -> dict[str, str]:
    """Nothing of the user's own; a proxy that is nobody keeps what ignores an opt-out on this machine."""
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


def _run(argv: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        argv, env=environment, capture_output=True, encoding="utf-8", timeout=_PATIENCE_S, check=False
    )  # fmt: skip
    if done.returncode:
        raise PeerError(
            f"{argv[:3]} ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}"
        )
    return done.stdout


class Lines:
    """A process that answers each line of JSON with one."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, encoding="utf-8",
        )  # fmt: skip

    def tell(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def call(self, message: dict[str, Any]) -> Any:
        """The member `result` of the next line that has one. Raises PeerError."""
        assert self.process.stdout is not None
        self.tell(message)
        for line in self.process.stdout:
            answer = json.loads(line)
            if "error" in answer:
                raise PeerError(f"an error was answered: {str(answer['error'])[:500]}")
            if "result" in answer:
                return answer["result"]
        self._errors.seek(0)
        said = self._errors.read()[-2000:].decode("utf-8", "replace")
        raise PeerError(f"{self.process.args} ended: {said}")


@contextmanager
def _lines(argv: list[str], environment: dict[str, str]) -> Iterator[Lines]:
    lines = Lines(argv, environment)
    try:
        yield lines
    finally:
        lines.process.kill()
        lines.process.communicate()


def resident_mb(pid: int) -> float:
    """The resident memory of a process and its descendants; pages that two of them share count twice."""
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
    """What the script prints: the command, installed by now."""
    done = subprocess.run(
        [str(SCRIPTS / script), *arguments], stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    return Path(done.stdout.strip())


# ---- This gateway


@asynccontextmanager
async def _ours(system: System, place: Place) -> AsyncIterator[Running]:
    config = place.home / "openclaw.json"
    config.write_text(json.dumps(system.settings(place.server)), encoding="utf-8")
    arguments = ["--workspace", str(place.notes.parent), "--state-dir", str(place.home)]
    arguments += ["--config", str(config), "--log-level", "error"]
    started = time.perf_counter()
    async with spawn_gateway(arguments, environment=dict(os.environ)) as client:
        await client.call("sync", {}, timeout_s=_PATIENCE_S)
        if system.model:
            await embedded(client)
        index_s = time.perf_counter() - started

        async def ask(query: str, limit: int) -> list[str]:
            params = {"query": query, "maxResults": limit}
            answer = await client.call("memory_search", params, timeout_s=60)
            return [hit["snippet"] for hit in answer["results"]]

        yield Running(ask, index_s, client.process.pid)


def _ours_mb(extras: frozenset[str]) -> float:
    """The files of the gateway and of every distribution that it needs; it lies among development tools here."""
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
    """Whole lines, as many as fit; a longer line is a chunk of its own, cut to the size."""
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
    with _lines(argv, _environment(place)) as lines:
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
    _run([command, "project", "add", "bench", str(place.notes.parent), "--default"], environment)
    said = _run([command, "reindex", "--full"], environment)
    if kind == "hybrid" and "skipped" in said:
        raise PeerError(f"no embeddings were made: {said[-500:]}")
    index_s = time.perf_counter() - started
    with _lines([command, "mcp"], environment) as lines:
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        request = partial(dict, jsonrpc="2.0", id=1)
        greeting = request(method="initialize", params=hello)
        await anyio.to_thread.run_sync(lines.call, greeting)
        lines.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})

        async def ask(query: str, limit: int) -> list[str]:
            arguments = {"query": query, "project": "bench", "page_size": limit}
            arguments |= {"search_type": kind, "output_format": "json"}
            params = {"name": "search_notes", "arguments": arguments}
            asked = request(method="tools/call", params=params)
            answer = await anyio.to_thread.run_sync(lines.call, asked)
            found = json.loads(answer["content"][0]["text"])
            return [hit.get("content") or "" for hit in found["results"]]

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
    _run([str(command), "collection", "add", str(place.notes), "--name", "memory"], environment)
    return str(command), environment


@asynccontextmanager
async def _qmd_words(place: Place) -> AsyncIterator[Running]:
    started = time.perf_counter()
    command, environment = _qmd_home(place)
    index_s = time.perf_counter() - started

    async def ask(query: str, limit: int) -> list[str]:
        argv = [command, "search", "--format", "json", "-n", str(limit), "--", query]
        printed = await anyio.to_thread.run_sync(_run, argv, environment)
        start = printed.find("[")
        return [hit["snippet"] for hit in json.loads(printed[start:])] if start >= 0 else []

    yield Running(ask, index_s, 0)


@asynccontextmanager
async def _qmd_vectors(place: Place) -> AsyncIterator[Running]:
    started = time.perf_counter()
    command, environment = _qmd_home(place)
    _run([command, "embed"], environment)
    index_s = time.perf_counter() - started
    port = _free_port()
    with _lines([command, "mcp", "--http", "--port", str(port)], environment) as lines:
        await _listening(port)

        async def ask(query: str, limit: int) -> list[str]:
            words = " ".join(content_words(query, "en")) or query
            searches = [{"type": "lex", "query": words}, {"type": "vec", "query": query}]
            question = {"searches": searches, "limit": limit, "rerank": False}
            answer = await post_query(port, question, timeout_s=120)
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
    remote = {"baseUrl": place.server.base_url, "apiKey": place.server.key}
    search: dict[str, Any] = {"provider": "openai-compatible", "model": MODEL, "remote": remote}
    if not dated:
        search["query"] = {"minScore": 0}
    with FakeModel(most=1) as model:
        host = OpenClaw(command, place.home, model)
        host.configure({"memory": {"search": search}})
        notes = host.workspace / "memory"
        notes.mkdir()
        for number, file in enumerate(sorted(place.notes.glob("*.md"))):
            shutil.copy(file, notes / (file.name if dated else f"conversation-{number:03}.md"))
        started = time.perf_counter()
        indexed = await anyio.to_thread.run_sync(
            partial(host.run, "memory", "index", "--force", patience_s=_PATIENCE_S)
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

_QMD_NOTE = "its models for expansion and reranking are downloads that are not made here, so `qmd query`, its default, cannot be measured; "
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
        "what its Python interface returns unless told otherwise; its rerankers are downloads or a remote service",
    ),
    "basic-memory": Peer(
        "basic-memory 0.24.1, words", 10, partial(_basic_memory, "text"), _basic_memory_mb,
        "`search_notes` over MCP, as JSON; its own embedding model is a download, without which it searches words",
    ),
    "basic-memory-hybrid": Peer(
        "basic-memory 0.24.1, hybrid", 10, partial(_basic_memory, "hybrid"), _basic_memory_mb,
        "the same with the shared embeddings; where the Python found has an SQLite without extensions, it is given pysqlite3",
    ),
    "qmd": Peer(
        "QMD 2.8.3, words", 20, _qmd_words, _qmd_mb,
        _QMD_NOTE + "`qmd search --format json`, a process for each question, in which all words must occur; no process stays",
    ),
    "qmd-vectors": Peer(
        "QMD 2.8.3, words and vectors", 10, _qmd_vectors, _qmd_mb,
        _QMD_NOTE + "`lex:` (without stop words) and `vec:` at its warm server, not reranked; it runs the same MiniLM itself, "
        "from a file, cut at 512 tokens; understated, since its own models are larger",
    ),
    "openclaw": Peer(
        "OpenClaw 2026.9.6", 6, partial(_openclaw, dated=True), _openclaw_mb,
        "`memory_search` through its gateway; notes lose half of their weight every 30 days, which no key changes, and these are years old",
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


async def measure(peer: Peer, collections: list[Collection], server: EmbeddingServer) -> Measured:
    asked: list[Asked] = []
    index_s = resident = 0.0
    for collection in collections:
        with tempfile.TemporaryDirectory(prefix="memory-gateway-peer-") as root:
            home, notes = Path(root) / "home", Path(root) / "notes" / "memory"
            home.mkdir()
            # A copy: some of them write into the notes.
            shutil.copytree(collection.workspace / "memory", notes)
            async with peer.run(Place(notes, home, server)) as running:
                index_s += running.index_s
                await running.ask(collection.questions[0].query, peer.page)  # what is loaded once
                for question in collection.questions:
                    started = time.perf_counter()
                    page = await running.ask(question.query, peer.page)
                    latency_ms = (time.perf_counter() - started) * 1000
                    short = sum(map(len, page)) < BUDGET
                    wide = await running.ask(question.query, WIDE) if short else page
                    own, equal = shown(question, page), shown(question, cut(wide))
                    asked.append(Asked(own, equal, latency_ms))
                if running.pid:
                    resident = max(resident, resident_mb(running.pid))
    return Measured(peer.name, asked, index_s, peer.installed(), resident, peer.note)


def plot(rows: list[Measured], path: Path = PLOT) -> None:
    """Questions of which evidence is shown, within the same characters."""
    shares = {
        one.name: (
            sum(asked.budget.any for asked in one.asked) / len(one.asked),
            sum(asked.budget.all for asked in one.asked) / len(one.asked),
        )
        for one in rows
        if one.asked
    }
    bars(
        path,
        shares,
        title="Evidence shown within 4,200 characters",
        names=("any of it", "all of it"),
    )


async def _measure_all(options: argparse.Namespace) -> None:
    collections = sampled(locomo(options.locomo), options.questions)
    rows: list[Measured] = []
    # Without a cache of vectors: whoever indexes second would seem quicker.
    async with embedding_server(MiniLM()) as server:
        for name in options.only or PEERS:
            peer = PEERS[name]
            print(f"{peer.name} ...", file=sys.stderr, flush=True)
            try:
                rows.append(await measure(peer, collections, server))
            except (PeerError, OSError, subprocess.SubprocessError) as error:
                rows.append(Measured(peer.name, [], 0, 0, 0, f"not measured: {error}"))
    rows.sort(key=lambda one: -sum(asked.budget.all for asked in one.asked))
    Console(width=10_000, highlight=False).print(markdown(rows), markup=False, soft_wrap=True)
    if options.plot:
        plot(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--locomo", type=Path, required=True, help="directory with conv-*/ workspaces"
    )
    parser.add_argument("--questions", type=int, metavar="N", help="so many of all, evenly spread")
    parser.add_argument("--only", nargs="+", choices=PEERS, metavar="NAME", help=", ".join(PEERS))
    parser.add_argument("--plot", action="store_true", help=f"write {PLOT.name} into docs/")
    options = parser.parse_args()
    configure_logs("error")
    anyio.run(_measure_all, options)


if __name__ == "__main__":
    main()
