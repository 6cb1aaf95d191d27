"""The warm QMD: `qmd mcp --http` in the foreground on loopback, supervised, asked over HTTP.

Questions become words and sentences in which QMD finds no commands; answers become rows or an error.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import socket
import time
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

import anyio
from anyio.abc import ByteReceiveStream
from anyio.to_thread import run_sync

from backends.interface import MAX_QUERY_CHARS, Mode
from backends.qmd.process import MAX_OUTPUT_BYTES, QmdUnavailableError, SearchMode, started
from backends.qmd.sidecar import Sidecar
from backends.ranking.query import content_words
from backends.text.analyser import detect_language, is_unspaced, normalise
from config.runtime.children import resident_bytes
from config.runtime.logs import Log
from config.runtime.tasks import Backoff, ResettableEvent, background_tasks, cancelled_after

HOST: Final = "127.0.0.1"
_log = Log()


async def exchange(
    port: int, path: str, question: dict[str, object] | None = None, *, timeout_s: float
) -> object:
    """Returns the decoded answer of the server. Raises QmdUnavailableError."""
    return await run_sync(_exchange, port, path, question, timeout_s, abandon_on_cancel=True)


def _exchange(port: int, path: str, question: dict[str, object] | None, timeout_s: float) -> object:
    method, body = ("POST", json.dumps(question).encode()) if question else ("GET", None)
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout_s)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        # A response keeps the socket open unless it is read to its end.
        with connection.getresponse() as response:
            data = response.read(MAX_OUTPUT_BYTES)
    except TimeoutError:
        raise QmdUnavailableError(
            "timeout", f"QMD's server did not answer within {timeout_s:.3g} s."
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise QmdUnavailableError(
            "crashed", f"QMD's server is gone: {str(error) or type(error).__name__}."
        ) from None
    finally:
        connection.close()
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        raise QmdUnavailableError("bad_answer", "QMD's server did not answer in JSON.") from None
    if response.status != http.client.OK:
        raise QmdUnavailableError(
            "bad_answer", f"QMD's server answered {response.status}: {str(answer)[:200]}."
        )
    return answer


START_TIMEOUT_S: Final = 20.0
CHECK_EVERY_S: Final = 5.0
CHECK_TIMEOUT_S: Final = 2.0
RECYCLE_IDLE_S: Final = 240.0
"""QMD unloads its models after five minutes without a question."""
_STABLE_S: Final = 30.0
_SAID_BYTES: Final = 2000
_LISTENING = re.compile(rb"listening on http://[^\s:]+:(\d+)/")


class WarmServer:
    """One supervised server. `run` keeps it alive until it is cancelled."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._pause = Backoff(0.1, 0.5, 5.0)
        self._suspicion = ResettableEvent()
        self._asked_at = 0.0
        self._models_loaded = False
        self._said = b""
        self._announced = anyio.Event()
        self.port: int | None = None
        """The port on which it answers; None while it does not."""
        self.pid: int | None = None
        self.starts = 0
        self.tried = anyio.Event()
        """Set when the first start has succeeded or failed."""
        self.last_error: str | None = None

    @property
    def memory_bytes(self) -> int | None:
        """Resident memory, if the system reports it."""
        return None if self.pid is None else resident_bytes(self.pid)

    def note_question(self, *, with_models: bool) -> None:
        """Notes that a question begins, which counts as use and may load models."""
        self._asked_at = time.monotonic()
        self._models_loaded = self._models_loaded or with_models

    def suspect(self) -> None:
        """Has the server checked at once, after a question that failed."""
        self._suspicion.set()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            began = time.monotonic()
            try:
                await self._live()
            except QmdUnavailableError as error:
                self.last_error = str(error)
                _log.warning("qmd server ended", error=str(error), cause=error.cause)
            finally:
                self.port = self.pid = None
                self.tried.set()
            if time.monotonic() - began > _STABLE_S:
                self._pause.succeeded()
            self._pause.failed()
            await anyio.sleep(self._pause.left_s)

    async def _live(self) -> None:
        """Runs the server once; returns when it is to be replaced."""
        port = free_port()
        arguments = ("mcp", "--http", "--port", str(port), "--host", HOST)
        argv = (*self._sidecar.program.command.argv, *arguments)
        self.starts += 1
        self._models_loaded, self._said, self._announced = False, b"", anyio.Event()
        async with started(argv, self._sidecar.variables) as process:
            self.pid = process.pid
            assert process.stdout is not None
            assert process.stderr is not None
            async with background_tasks() as tasks, cancelled_after(process.wait):
                tasks.start_soon(self._listen, process.stdout, port)
                tasks.start_soon(self._listen, process.stderr, port)
                await self._serve(port)
            ended_by_itself = process.returncode is not None
        if ended_by_itself:
            said = self._said.decode("utf-8", "replace").strip().splitlines()
            reason = said[-1] if said else f"exit {process.returncode}"
            raise QmdUnavailableError("crashed", f"QMD's server ended: {reason[:200]}.")

    async def _serve(self, port: int) -> None:
        await self._await_start(port)
        self.port, self.last_error = port, None
        self.tried.set()
        await self._watch(port)

    async def _await_start(self, port: int) -> None:
        """Waits for the server's own message first: on a port that was taken, another program would answer."""
        with anyio.move_on_after(START_TIMEOUT_S):
            await self._announced.wait()
            await exchange(port, "/health", timeout_s=CHECK_TIMEOUT_S)
            return
        raise QmdUnavailableError(
            "timeout", f"QMD's server did not start within {START_TIMEOUT_S:g} s."
        )

    async def _watch(self, port: int) -> None:
        """Returns when the server should be recycled; raises when it does not answer."""
        index = self._sidecar.home.index_identity()
        while True:
            with anyio.move_on_after(CHECK_EVERY_S):
                await self._suspicion.wait()
            self._suspicion.clear()
            await exchange(port, "/health", timeout_s=CHECK_TIMEOUT_S)
            now = self._sidecar.home.index_identity()
            is_idle = time.monotonic() - self._asked_at > RECYCLE_IDLE_S
            if (index is not None and now != index) or (self._models_loaded and is_idle):
                return
            index = now

    async def _listen(self, stream: ByteReceiveStream, port: int) -> None:
        async for piece in stream:
            self._said = (self._said + piece)[-_SAID_BYTES:]
            announced = _LISTENING.search(self._said)
            if announced is not None and int(announced[1]) == port:
                self._announced.set()


def free_port() -> int:
    """Returns a port of 127.0.0.1 on which nothing listens now; another program may take it a moment later."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


Kind = Literal["lex", "vec"]

MAX_TERMS: Final = 16
"""The most words. Each costs QMD one search per collection; the longest words are the most specific."""
MAX_SEMANTIC_CHARS: Final = 2000
_SYNTAX = re.compile(r"[\"“”'’`^*(){}\[\]<>~|\\]")
_NOT_LINE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_PREFIX = re.compile(r"^\s*(?:lex|vec|hyde|intent|expand)\s*:", re.IGNORECASE)
_TRIMMED: Final = "-./:@#+&=,_"


class SubQuery(NamedTuple):
    kind: Kind
    text: str


def lexical(text: str) -> tuple[SubQuery, ...]:
    """Returns all content words together, then each alone; empty when there is no word."""
    words = question_words(text)
    together = (" ".join(words),) if 1 < len(words) <= MAX_TERMS else ()
    alone = sorted(words, key=len, reverse=True)[:MAX_TERMS]
    return tuple(SubQuery("lex", query) for query in (*together, *alone))


def semantic(text: str) -> SubQuery | None:
    """Returns the question for an embedding model; None when there is nothing to embed."""
    line = one_line(text)[:MAX_SEMANTIC_CHARS]
    # A leading minus before a word is a negation, which QMD refuses in semantic queries.
    line = re.sub(r"(^|\s)-+(?=[\w\"])", r"\1", line)
    return SubQuery("vec", line) if line else None


def one_line(text: str) -> str:
    """Returns the text without line breaks, control characters and any prefix that QMD would interpret."""
    line = " ".join(_NOT_LINE.sub(" ", text[:MAX_QUERY_CHARS]).split())
    while (stripped := _PREFIX.sub("", line).strip()) != line:
        line = stripped
    return line


def question_words(text: str) -> list[str]:
    """Returns the words of a question without its stop words, as QMD's tokenizer can find them."""
    text = normalise(text[:MAX_QUERY_CHARS])
    words = content_words(text, detect_language(text))
    pieces = [piece for word in words for piece in _pieces(word)]
    return list(dict.fromkeys(pieces))


def _pieces(word: str) -> list[str]:
    """Splits a word. QMD's index knows single characters of unspaced scripts; pairs of them are more specific."""
    if is_unspaced(word):
        return [word[i : i + 2] for i in range(max(1, len(word) - 1))]
    possessive = re.sub(r"['’]s$", "", word)
    cleaned = _SYNTAX.sub(" ", possessive).split()
    return [trimmed for part in cleaned if (trimmed := part.strip(_TRIMMED))]


CANDIDATES: Final = 12
"""The number of documents asked for, whatever the limit, so that a smaller limit keeps the order."""
RERANKED: Final = 12
_SCHEME: Final = "qmd://"


class QmdQuestion(NamedTuple):
    """A question to QMD. `searches` is never empty."""

    searches: tuple[SubQuery, ...]
    rerank: bool
    mode: Mode

    def as_json(self, collections: Sequence[str]) -> dict[str, object]:
        """Returns the body of a request to the server."""
        return {
            "searches": [{"type": one.kind, "query": one.text} for one in self.searches],
            "collections": list(collections),
            "limit": CANDIDATES,
            "candidateLimit": RERANKED if self.rerank else CANDIDATES,
            "rerank": self.rerank,
        }


class ResultRow(NamedTuple):
    """One document that QMD proposes; `path` is relative to the collection."""

    collection: str
    path: str
    score: float
    """The score that QMD gave; 0 is a score like any other."""
    line: int | None


_MODES: Final[dict[SearchMode, Mode]] = {
    "search": "keyword",
    "vsearch": "vector",
    "query": "rerank",
}


def question_for(text: str, mode: SearchMode) -> QmdQuestion | None:
    """Returns the question for a search mode whose models are there; None when there is nothing to ask."""
    searches: tuple[SubQuery, ...] = () if mode == "vsearch" else lexical(text)
    if mode != "search" and (meaning := semantic(text)):
        searches = (*searches, meaning)
    return QmdQuestion(searches, mode == "query", _MODES[mode]) if searches else None


async def ask(
    server: WarmServer, question: QmdQuestion, collections: Sequence[str], *, timeout_s: float
) -> list[ResultRow]:
    """Returns the documents that QMD proposes, the best first. Raises QmdUnavailableError."""
    port = server.port
    if port is None:
        raise QmdUnavailableError("not_ready", server.last_error or "QMD's server is starting.")
    server.note_question(with_models=question.mode != "keyword")
    try:
        answer = await exchange(port, "/query", question.as_json(collections), timeout_s=timeout_s)
        rows = rows_of_answer(answer)
        if rows is None:
            raise QmdUnavailableError("bad_answer", "QMD's server gave no results and no error.")
    except BaseException:  # also when the deadline of the caller ended the waiting
        server.suspect()
        raise
    return rows


def rows_of_answer(answer: object) -> list[ResultRow] | None:
    """Returns the rows in an answer of the server; None when it is not one."""
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        return None
    return [row for item in results if (row := _row(item)) is not None]


def _row(item: Any) -> ResultRow | None:
    """Returns a row; None for an item that does not name at least a file."""
    address = item.get("file") if isinstance(item, dict) else None
    if not isinstance(address, str):
        return None
    text = unquote(address.removeprefix(_SCHEME).lstrip("/"), errors="replace")
    collection, _, path = text.partition("/")
    line = item.get("line")
    if not collection or not path:
        return None
    is_line = isinstance(line, int) and line > 0
    return ResultRow(collection, path, _score(item.get("score")), line if is_line else None)


def _score(value: Any) -> float:
    """Returns a score from 0 to 1; 0 for what is not a number. JSON's integers may be too large for a float."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(min(1.0, max(0.0, value))) if is_number and abs(value) < math.inf else 0.0
