"""A memory for programs: `with MemoryClient(notes="~/notes") as memory: memory.search("the boiler")`.

It starts `memory-gateway serve` as a child, which becomes the owner of the index, or joins the one that runs. Any
number of threads, or tasks, may ask at the same time. A refusal is raised as a `RefusedError`.

Imports nothing else of this program, since our own packages are on nobody else's import path.
"""

# ruff: noqa: PTH100, PTH110, PTH118, PTH120 - as in `memory_gateway`
from __future__ import annotations

import asyncio
import itertools
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import date
from typing import Any, Final, Literal, Self, TypeVar

import msgspec

_HERE: Final = os.path.dirname(os.path.abspath(__file__))
_START: Final = ("config", "runtime", "start.py")
_PATIENCE_S: Final = 3.0
_LAST_WORDS_BYTES: Final = 4096
_LONGEST_LINE_BYTES: Final = 4 * 1024 * 1024
"""The gateway discards a longer one, and its error cannot say whose call that was."""

T = TypeVar("T")
Source = Literal["memory", "sessions"]


class Passage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One result of a search. Lines count from 1, ends included."""

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: Source
    confidence: Literal["likely", "maybe", "unlikely"] | None = None
    citation: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()


class Behind(msgspec.Struct, frozen=True):
    """The number of changed files that the answer may miss, and the reason."""

    files: int
    reason: str


class Passages(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The results of a search, the best first, and their limitations."""

    results: tuple[Passage, ...]
    outcome: Literal["ok", "empty", "partial"]
    mode: str | None = None
    provider: str | None = None
    model: str | None = None
    stale: Behind | None = None
    warning: str | None = None


class NoteText(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a note; `status` is `not_found` for a permitted path without a file."""

    text: str
    path: str
    status: Literal["ok", "not_found"]
    first_line: int = msgspec.field(name="from")
    lines: int
    truncated: bool = False
    next_line: int | None = msgspec.field(name="nextFrom", default=None)
    links: Mapping[str, str] = {}


class Written(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The place of an entry after it was written."""

    path: str
    start_line: int
    end_line: int
    created: bool = False


class RecalledPlace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    path: str
    start_line: int
    end_line: int
    score: float
    source: Source


class Recalled(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The text to put before a prompt, or a `reason` why there is none."""

    tokens: int
    text: str = ""
    notes: tuple[RecalledPlace, ...] = ()
    reason: str | None = None
    stale: Behind | None = None


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    source: Source
    indexed: int
    pending: int
    skipped: int


class MemoryStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The everyday part of a status; `call("status")` gives all of it."""

    agent_id: str
    version: str
    pid: int
    enabled: bool
    workspace: str
    files: int
    chunks: int
    dirty: bool
    provider: str | None = None
    model: str | None = None
    sources: tuple[SourceStatus, ...] = ()
    issues: tuple[str, ...] = ()


class GatewayError(Exception):
    """An error with a stable `kind`, a message, and a remedy, if there is one."""

    def __init__(self, kind: str, message: str, remedy: str | None = None) -> None:
        super().__init__(f"{message} {remedy}" if remedy else message)
        self.kind = kind
        self.message = message
        self.remedy = remedy


class RefusedError(GatewayError):
    """The gateway refused: `denied`, `disabled`, or a kind of error that docs/protocol.md lists."""


class GatewayEndedError(GatewayError):
    """The gateway ended, or never started; the message has its last words."""


class LateAnswerError(GatewayError):
    """No answer came in time; the work was cancelled."""


class _Error(msgspec.Struct):
    message: str
    data: dict[str, Any] = {}


class _Reply(msgspec.Struct):
    id: int | str | None = None
    result: Any = None
    error: _Error | None = None


_replies: Final = msgspec.json.Decoder(_Reply)
for _kind in (Passages, NoteText, Written, Recalled, MemoryStatus):
    msgspec.json.Decoder(_kind)  # now: a first use by several threads at once would end the process


class _Gateway:
    """The child, and the calls that wait for it."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None) -> None:
        self._last_words = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
        self._process = subprocess.Popen(  # noqa: S603 - this program
            [*_command(), "serve", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._last_words,
            env=None if environment is None else dict(environment),
            start_new_session=True,  # Ctrl-C is for the caller, who may go on after it
        )
        self._ids = itertools.count(1)
        self._waiting: dict[int | str | None, Future[Any]] = {}
        self._lock = threading.Lock()
        self._has_ended = False
        self._to_write: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name="memory-gateway", daemon=True)
            for work in (self._read, self._write_all)
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, method: str, params: object) -> tuple[int, Future[Any]]:
        """Sends a call; returns its number, and the future of its result."""
        call_id, future = next(self._ids), Future[Any]()
        line = _line(id=call_id, method=method, params=params)
        if len(line) > _LONGEST_LINE_BYTES:
            raise RefusedError(
                "line_too_long",
                f"{method} was not asked: {len(line):,} bytes are more than {_LONGEST_LINE_BYTES:,}.",
                "Send less at once.",
            )
        with self._lock:
            if self._has_ended:
                raise self._obituary()
            self._waiting[call_id] = future
        self._to_write.put(line)
        return call_id, future

    def take_back(self, call_id: int) -> None:
        """Cancels a call that nobody waits for any more."""
        with self._lock:
            self._waiting.pop(call_id, None)
        self._to_write.put(_line(method="$/cancelRequest", params={"id": call_id}))

    def close(self) -> None:
        """Ends the child: end of input, then SIGTERM, then SIGKILL."""
        process = self._process
        self._to_write.put(None)
        for push in (process.terminate, process.kill):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE_S)
                break
            push()
        process.wait()
        for thread in self._threads:
            thread.join()
        self._last_words.close()

    def _write_all(self) -> None:
        """Writes in a thread of its own: a child that reads nothing would block callers beyond their deadlines."""
        assert self._process.stdin is not None
        # The end of its output shows everybody that it ended.
        with suppress(OSError), self._process.stdin as pipe:
            while (line := self._to_write.get()) is not None:
                pipe.write(line)
                pipe.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines, suppress(msgspec.DecodeError):
            for line in lines:
                reply = _replies.decode(line)
                future = self._waiting.pop(reply.id, None)
                if future is not None and future.set_running_or_notify_cancel():
                    _settle(future, reply)
        with self._lock:
            self._has_ended = True
            left, self._waiting = list(self._waiting.values()), {}
        for future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(self._obituary())

    def _obituary(self) -> GatewayEndedError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE_S)
        words = os.pread(self._last_words.fileno(), 1 << 20, 0)[-_LAST_WORDS_BYTES:]
        code = self._process.returncode
        said = words.decode(errors="replace").strip()
        return GatewayEndedError(
            "ended", f"The gateway ended with exit code {code}." + (f"\n{said}" if said else "")
        )


def _line(**call: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **call}) + b"\n"


def _settle(future: Future[Any], reply: _Reply) -> None:
    if (error := reply.error) is None:
        future.set_result(reply.result)
        return
    kind, remedy = str(error.data.get("kind", "internal")), error.data.get("remedy")
    advice = remedy if isinstance(remedy, str) else None
    future.set_exception(RefusedError(kind, error.message, advice))


def _command() -> tuple[str, ...]:
    """Returns the command that starts this program, from a wheel or a clone."""
    folders = (_HERE, os.path.dirname(_HERE))
    start = next(p for f in folders if os.path.exists(p := os.path.join(f, *_START)))
    return (sys.executable, "-E", "-P", start, "gateway")


def _answer(found: Any, kind: type[T]) -> T:
    """Returns the typed answer. Raises RefusedError if it is a refusal."""
    error = found.get("error")
    if error is not None:
        raise RefusedError(str(found.get("kind", "refused")), str(error))
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as problem:
        raise GatewayError("bad_answer", f"The gateway answered otherwise: {problem}.") from None


def _given(**values: Any) -> dict[str, Any]:
    """Returns parameters as the wire has them, without those that were not given."""
    return {name: value for name, value in values.items() if value is not None and value != ()}


class _Client:
    """One memory and its gateway, shared by both clients."""

    def __init__(
        self,
        notes: str | os.PathLike[str] | None = None,
        *,
        agent: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        config: str | os.PathLike[str] | None = None,
        write: bool = False,
        session_key: str | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """Names the memory as the options of the command line do; without any, it is the one that `setup` named.

        `write` lets this program append. `session_key` names the conversation that asks, for `scope`. The start, and
        each call, may take `timeout_s`; `math.inf` is no limit.
        """
        given = {"--notes": notes, "--agent": agent, "--workspace": workspace,
                 "--state-dir": state_dir, "--config": config, "--log-level": "error"}  # fmt: skip
        named = [part for flag, value in given.items() if value is not None
                 for part in (flag, os.fspath(value))]  # fmt: skip
        self._arguments = [*named, *(["--write"] if write else [])]
        self._environment = environment
        self._timeout_s = timeout_s
        self._greeting = _given(client="program", sessionKey=session_key)
        self._gateway: _Gateway | None = None

    def _open(self) -> None:
        if self._gateway is not None:
            raise GatewayError("open", "The client is open already.", "Use it in one `with` block.")
        self._gateway = _Gateway(self._arguments, self._environment)

    def _end(self) -> None:
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            gateway.close()

    def _ask(self, method: str, params: object) -> tuple[int, Future[Any]]:
        if self._gateway is None:
            raise GatewayEndedError(
                "closed", "The client is not open.", "Use it in a `with` block."
            )
        return self._gateway.ask(method, params or {})

    def _take_back(self, call_id: int) -> None:
        """Cancels a call; one whose gateway was closed meanwhile has ended already."""
        if self._gateway is not None:
            self._gateway.take_back(call_id)

    def _late(self, method: str) -> LateAnswerError:
        message = f"{method} did not answer in {self._timeout_s:g} s."
        return LateAnswerError("deadline_exceeded", message)


class MemoryClient(_Client):
    """A blocking client. Its methods raise RefusedError, GatewayEndedError, LateAnswerError."""

    def __enter__(self) -> Self:
        self._open()
        try:
            self.call("initialize", self._greeting)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and the gateway if nobody else uses it."""
        self._end()

    def search(self, query: str, *, max_results: int | None = None, min_score: float | None = None,
               sources: Sequence[Source] = (), include: Sequence[str] = (), exclude: Sequence[str] = (),
               after: date | None = None, before: date | None = None,
               tags: Sequence[str] = ()) -> Passages:  # fmt: skip
        """Returns the passages that answer a question, the best first."""
        params = _given(query=query, maxResults=max_results, minScore=min_score, sources=sources,
                        include=include, exclude=exclude, after=after, before=before, tags=tags)  # fmt: skip
        return _answer(self.call("memory_search", params), Passages)

    def get(
        self, path: str, *, first_line: int | None = None, lines: int | None = None
    ) -> NoteText:
        """Returns a note, or some lines of it."""
        params = {"path": path, **_given(lines=lines, **{"from": first_line})}
        return _answer(self.call("memory_get", params), NoteText)

    def append(self, text: str, *, target: Literal["daily", "longterm"] = "daily") -> Written:
        """Writes an entry into today's log, or into MEMORY.md; needs `write`, or `append.enabled`."""
        return _answer(self.call("memory_append", {"text": text, "target": target}), Written)

    def recall(
        self, prompt: str, *, max_tokens: int | None = None, min_score: float | None = None
    ) -> Recalled:
        """Returns the text that a model should get before this prompt."""
        params = _given(prompt=prompt, maxTokens=max_tokens, minScore=min_score)
        return _answer(self.call("recall", params), Recalled)

    def status(self) -> MemoryStatus:
        """Returns what is indexed, and what is wrong with it."""
        return _answer(self.call("status", {}), MemoryStatus)

    def call(self, method: str, params: object = None) -> Any:
        """Calls any method of docs/protocol.md; returns the answer as plain data."""
        call_id, future = self._ask(method, params)
        try:
            return future.result(min(self._timeout_s, threading.TIMEOUT_MAX))
        except TimeoutError:
            self._take_back(call_id)
            raise self._late(method) from None
        except KeyboardInterrupt:
            self._take_back(call_id)
            raise


class AsyncMemoryClient(_Client):
    """The same client for asyncio: `async with AsyncMemoryClient() as memory: await memory.search(...)`.

    Cancelling a call cancels its work in the gateway.
    """

    async def __aenter__(self) -> Self:
        self._open()  # not in a thread: a caller cancelled meanwhile would never know of the child
        try:
            await self.call("initialize", self._greeting)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Does the same as `MemoryClient.close`, to its end even if its caller is cancelled."""
        await asyncio.shield(asyncio.to_thread(self._end))

    async def search(self, query: str, *, max_results: int | None = None, min_score: float | None = None,
                     sources: Sequence[Source] = (), include: Sequence[str] = (), exclude: Sequence[str] = (),
                     after: date | None = None, before: date | None = None,
                     tags: Sequence[str] = ()) -> Passages:  # fmt: skip
        """Does the same as `MemoryClient.search`."""
        params = _given(query=query, maxResults=max_results, minScore=min_score, sources=sources,
                        include=include, exclude=exclude, after=after, before=before, tags=tags)  # fmt: skip
        return _answer(await self.call("memory_search", params), Passages)

    async def get(
        self, path: str, *, first_line: int | None = None, lines: int | None = None
    ) -> NoteText:
        """Does the same as `MemoryClient.get`."""
        params = {"path": path, **_given(lines=lines, **{"from": first_line})}
        return _answer(await self.call("memory_get", params), NoteText)

    async def append(self, text: str, *, target: Literal["daily", "longterm"] = "daily") -> Written:
        """Does the same as `MemoryClient.append`."""
        return _answer(await self.call("memory_append", {"text": text, "target": target}), Written)

    async def recall(
        self, prompt: str, *, max_tokens: int | None = None, min_score: float | None = None
    ) -> Recalled:
        """Does the same as `MemoryClient.recall`."""
        params = _given(prompt=prompt, maxTokens=max_tokens, minScore=min_score)
        return _answer(await self.call("recall", params), Recalled)

    async def status(self) -> MemoryStatus:
        """Does the same as `MemoryClient.status`."""
        return _answer(await self.call("status", {}), MemoryStatus)

    async def call(self, method: str, params: object = None) -> Any:
        """Does the same as `MemoryClient.call`."""
        call_id, future = self._ask(method, params)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            self._take_back(call_id)
            raise self._late(method) from None
        except asyncio.CancelledError:
            self._take_back(call_id)
            raise
