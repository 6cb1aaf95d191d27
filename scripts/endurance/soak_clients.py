"""The clients of a soak: some keep notes, one has a conversation, one operates the gateway.

Each knows what it wrote, so the right answer to what it asks is known. An answer may be outdated only if
it says that it is stale.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

import anyio
import msgspec

from benchmarks.notes import NoteWriter
from config.errors import ErrorKind, MemoryGatewayError
from fakes.transcripts import Transcript
from fakes.vendors import FakeVendor
from gateway.client import GatewayClient, RemoteError, connect
from gateway.ownership.sockets import reach_owner

T = TypeVar("T")


@dataclass(frozen=True)
class Pace:
    """The rounds of a client: by the clock or, for a run that has to do the same on any machine, by a count."""

    seconds: float | None = None
    rounds: int | None = None
    pause_s: float = 0.0
    """The pause between two rounds of one client."""
    is_over: Callable[[], bool] = lambda: False
    """Called before each round; returns True to end."""

    async def __call__(self) -> AsyncIterator[int]:
        """Yields the numbers of the rounds, from 1, until the soak is over."""
        ends = None if self.seconds is None else time.monotonic() + self.seconds
        number = 0
        while (
            (self.rounds is None or number < self.rounds)
            and (ends is None or time.monotonic() < ends)
            and not self.is_over()
        ):
            number += 1
            yield number
            await anyio.sleep(self.pause_s)


def shuffled(operations: Sequence[T], rng: Random) -> Iterator[T]:
    """Yields all operations in a random order, again and again: none is left out for long."""
    while True:
        yield from rng.sample(operations, len(operations))


MOST_KEPT = 50


@dataclass
class Findings:
    """The results of a soak. `errors` and `wrong` have to be empty at the end."""

    done: Counter[str] = field(default_factory=Counter)
    """The number of times each activity was done."""
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Answers that missed what is known to exist, or showed what is known to be gone."""
    stale: int = 0
    """Answers that missed something and said so."""
    modes: Counter[str] = field(default_factory=Counter)
    """The number of searches with vectors, and of those with words only."""
    search_s: list[float] = field(default_factory=list)

    @contextmanager
    def activity(self, name: str, *expected: ErrorKind) -> Iterator[None]:
        """Counts an activity, and records an error that it should not end with."""
        self.done[name] += 1
        try:
            yield
        except MemoryGatewayError as error:
            kind = error.kind if isinstance(error, RemoteError) else None
            if kind not in expected or kind is None:
                self.errors.append(f"{name}: {type(error).__name__} {kind}: {error}")

    def faults(self) -> list[str]:
        return [*self.errors, *self.wrong][:MOST_KEPT]


PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.05
_CALL_S: Final = 60.0

Result = dict[str, Any]


async def must_find(
    client: GatewayClient, findings: Findings, path: str, word: str, **params: object
) -> None:
    """Searches for a word; exactly one hit must show it, in this file."""

    def fault(results: list[Result]) -> str | None:
        shown = [one for one in results if word in one["snippet"].lower()]
        if [one["path"] for one in shown] == [path]:
            return None
        return f"{word} is in {path}; {len(results)} results, shown in {[r['path'] for r in shown]}"

    await _ask(client, findings, word, fault, params)


async def must_not_find(client: GatewayClient, findings: Findings, word: str) -> None:
    """Searches for a word that is in no file any more; no hit may show it."""

    def fault(results: list[Result]) -> str | None:
        shown = [one["path"] for one in results if word in one["snippet"].lower()]
        return f"{word} is gone, and shown in {shown}" if shown else None

    await _ask(client, findings, word, fault, {})


async def _ask(
    client: GatewayClient, findings: Findings, word: str, fault: Any, params: dict[str, object]
) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        started = time.perf_counter()
        answer: Any = await client.call(
            "memory_search", {"query": word, **params}, timeout_s=_CALL_S
        )
        findings.search_s.append(time.perf_counter() - started)
        findings.modes[answer.get("mode", answer["outcome"])] += 1
        wrong = fault(answer["results"])
        if wrong is None:
            return
        if not answer.get("stale") or time.monotonic() > deadline:
            rest = {name: answer[name] for name in answer if name != "results"}
            findings.wrong.append(f"{wrong}: {rest}")
            return
        findings.stale += 1
        await anyio.sleep(_PAUSE_S)


FEWEST: Final = 20
MOST: Final = 60
MOST_LINES: Final = 80
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"
_REMEMBERED: Final = 20


@dataclass(frozen=True)
class Note:
    path: str
    """Relative to the workspace."""
    word: str


class Notes:
    """The notes of one client. All methods are plain file operations, as an editor or an agent does them."""

    def __init__(
        self, workspace: Path, name: str, seed: int, bullets: tuple[int, int] = (3, 25)
    ) -> None:
        self._bullets = bullets
        self.rng = Random(f"{name} {seed}")
        self.gone: deque[str] = deque(maxlen=_REMEMBERED)
        """Words that are in no file any more."""
        self._workspace = workspace
        self._name = name
        self._writer = NoteWriter(words=3_000, seed=self.rng.randrange(1 << 30))
        self._words: dict[str, str] = {}
        self._made = 0
        for _ in range(FEWEST):
            self.create()

    def any(self) -> Note:
        path = self.rng.choice(sorted(self._words))
        return Note(path, self._words[path])

    def create(self) -> None:
        self._made += 1
        self._write(f"memory/{self._name}/{self._made % 7}/note-{self._made}.md")

    def edit(self) -> None:
        self._write(self.any().path)

    def append(self) -> None:
        """Grows a note at its end, until it is too long."""
        note = self.any()
        file = self._workspace / note.path
        if file.read_text("utf-8").count("\n") > MOST_LINES:
            self.edit()
            return
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"- {self._writer.sentence(12)}\n")

    def delete(self) -> None:
        note = self.any()
        (self._workspace / note.path).unlink()
        self._forget(note.path)

    def rename(self) -> None:
        note = self.any()
        self._made += 1
        path = f"memory/{self._name}/moved/note-{self._made}.md"
        (self._workspace / path).parent.mkdir(exist_ok=True)
        (self._workspace / note.path).rename(self._workspace / path)
        self._words[path] = self._words.pop(note.path)

    def grow_or_shrink(self) -> None:
        """Keeps the number of notes between its bounds."""
        grow = self.rng.random() < 0.5
        if len(self._words) >= MOST or (not grow and len(self._words) > FEWEST):
            self.delete()
        else:
            self.create()

    def text(self, path: str) -> str:
        return (self._workspace / path).read_text("utf-8")

    def _write(self, path: str) -> None:
        self._forget(path)
        word = "".join(self.rng.choices(_LETTERS, k=14))
        day = date(2024, 1, 1) + timedelta(days=self.rng.randrange(700))
        text = (
            self._writer.note(day, self.rng.randint(*self._bullets)) + f"- Ask {word} about it.\n"
        )
        file = self._workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if self.rng.random() < 0.5:
            file.write_text(text, encoding="utf-8")
        else:
            draft = file.with_suffix(".tmp")
            draft.write_text(text, encoding="utf-8")
            draft.replace(file)
        self._words[path] = word

    def _forget(self, path: str) -> None:
        if path in self._words:
            self.gone.append(self._words.pop(path))


NOTE_OPERATIONS: Final = (
    *("find",) * 8, *("gone",) * 2, *("get",) * 2, *("edit",) * 4, *("append",) * 2,
    *("grow or shrink",) * 3, "rename", "leave", "hang up",
)  # fmt: skip
MOSTLY_SEARCHES: Final = (*NOTE_OPERATIONS, *("find",) * 8, *("gone",) * 2)
EDITS: Final = frozenset({"edit", "append", "grow or shrink", "rename"})


class NoteClient:
    """A client that writes notes and asks for them."""

    def __init__(
        self,
        notes: Notes,
        lock: Path,
        findings: Findings,
        operations: Sequence[str] = NOTE_OPERATIONS,
    ) -> None:
        self._operations = operations
        self._notes = notes
        self._lock = lock
        self._findings = findings

    async def keep(self, pace: Pace) -> None:
        """Works over the socket: each connection lasts until the operation `leave`."""
        operations = shuffled(self._operations, self._notes.rng)
        async with aclosing(pace()) as rounds:
            while True:
                stream = await reach_owner(self._lock)
                async with connect(stream, stream) as client:
                    if not await self._visit(client, operations, rounds):
                        return

    async def keep_over(self, client: GatewayClient, pace: Pace) -> None:
        """Works over a connection that lasts: the pipe."""
        lasting = [one for one in self._operations if one != "leave"]
        operations = shuffled(lasting, self._notes.rng)
        async with aclosing(pace()) as rounds:
            await self._visit(client, operations, rounds)

    async def _visit(
        self, client: GatewayClient, operations: Iterator[str], rounds: AsyncIterator[int]
    ) -> bool:
        """Works over one connection; returns False when the soak is over."""
        async for _ in rounds:
            operation = next(operations)
            with self._findings.activity(operation):
                if operation == "leave":
                    return True
                await self._do(operation, client)
        return False

    async def _do(self, operation: str, client: GatewayClient) -> None:
        notes = self._notes
        if operation == "find":
            note = notes.any()
            await must_find(client, self._findings, note.path, note.word)
        elif operation == "gone":
            if notes.gone:
                await must_not_find(client, self._findings, notes.rng.choice(notes.gone))
        elif operation == "get":
            await self._get(client)
        elif operation == "hang up":
            await self._hang_up()
        else:
            getattr(notes, operation.replace(" ", "_"))()

    async def _get(self, client: GatewayClient) -> None:
        note = self._notes.any()
        got: Any = await client.call("memory_get", {"path": note.path})
        if got["text"] != self._notes.text(note.path):
            self._findings.wrong.append(f"memory_get of {note.path}: {got}")

    async def _hang_up(self) -> None:
        """Sends requests and half a line, and does not wait for the answers."""
        stream = await reach_owner(self._lock)
        async with stream:
            for number, word in enumerate(("boiler", "heating", self._notes.any().word)):
                params = {"query": word}
                call = {"jsonrpc": "2.0", "id": number, "method": "memory_search", "params": params}
                await stream.send(msgspec.json.encode(call) + b"\n")
            await stream.send(b'{"jsonrpc":"2.0","id":9,"method":"sta')


MOST_TURNS: Final = 200
_FIND_EVERY: Final = 4
_TURNS_A_ROUND: Final = 3


class TranscriptClient:
    def __init__(
        self, directory: Path, findings: Findings, rng: Random, most_turns: int = MOST_TURNS
    ) -> None:
        self._most_turns = most_turns
        self._directory = directory
        self._findings = findings
        self._rng = rng
        self._writer = NoteWriter(words=3_000, seed=rng.randrange(1 << 30))
        self._sessions = 0
        self._turns = 0

    async def talk(self, client: GatewayClient, pace: Pace) -> None:
        transcript = await self._begin(client)
        async for number in pace():
            with self._findings.activity("turns"):
                word = self._say(transcript)
                await client.call("session_updated", {"path": str(transcript.path)})
            if number % _FIND_EVERY == 0:
                with self._findings.activity("find a turn"):
                    await client.call("sync", {}, timeout_s=120)
                    path = f"sessions/{transcript.path.name}"
                    await must_find(client, self._findings, path, word, sources=["sessions"])
            if self._turns > self._most_turns:
                transcript.path.unlink()
                transcript = await self._begin(client)

    async def _begin(self, client: GatewayClient) -> Transcript:
        self._sessions += 1
        self._turns = 0
        with self._findings.activity("sessions"):
            key = f"agent:main:telegram:direct:{self._sessions}"
            await client.call("session_start", {"sessionKey": key})
        return Transcript(self._directory, f"session-{self._sessions}")

    def _say(self, transcript: Transcript) -> str:
        """Writes some turns; returns a word that is only in the last one."""
        for _ in range(_TURNS_A_ROUND - 1):
            transcript.say(self._writer.sentence(25))
            transcript.work("output " * 200)
        word = "".join(self._rng.choices("bcdfghjklmnpqrstvwxz", k=14))
        transcript.answer(f"{self._writer.sentence(20)} It is called {word}.")
        self._turns += _TURNS_A_ROUND
        return word


OPERATOR_OPERATIONS: Final = (
    *("status",) * 4, *("health",) * 4, *("metrics",) * 2, *("sync",) * 2, *("memory_append",) * 4,
    "rebuild", "results", "weights", "chunking", "provider", "nonsense",
)  # fmt: skip
CACHED: Final = 3_000
"""The number of embeddings that are kept: without a bound they stay for good, by design."""
_OPERATOR_S: Final = 300.0
_HEALTH_TRIES: Final = 3
_MOST_APPENDED: Final = 30_000
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"


class Operator:
    def __init__(
        self, config: Path, workspace: Path, vendor: FakeVendor, findings: Findings, rng: Random
    ) -> None:
        self._config = config
        self._workspace = workspace
        self._findings = findings
        self._rng = rng
        remote = {"baseUrl": vendor.base_url, "apiKey": vendor.key}
        self._search: dict[str, Any] = {
            "provider": "openai",
            "remote": remote,
            "sources": ["memory", "sessions"],
            "experimental": {"sessionMemory": True},
            "cache": {"maxEntries": CACHED},
        }
        self.configure()

    def configure(self, **changed: object) -> None:
        """Writes the usual settings with these changes."""
        content = {
            "agents": {"defaults": {"memorySearch": self._search | changed}},
            "memory": {"append": {"enabled": True}},
        }
        self._config.write_text(json.dumps(content), encoding="utf-8")

    async def operate(self, client: GatewayClient, pace: Pace) -> None:
        operations = shuffled(OPERATOR_OPERATIONS, self._rng)
        async for _ in pace():
            operation = next(operations)
            expected = (ErrorKind.CONFIG_INVALID,) if operation == "nonsense" else ()
            with self._findings.activity(operation, *expected):
                await self._do(operation, client)

    async def _do(self, operation: str, client: GatewayClient) -> None:
        match operation:
            case "status" | "metrics":
                await client.call(operation)
            case "health":
                await self._health(client)
            case "sync" | "rebuild":
                await client.call("sync", {"force": operation == "rebuild"}, timeout_s=_OPERATOR_S)
            case "memory_append":
                await self._append(client)
            case "nonsense":
                await self._nonsense(client)
            case _:
                self.configure(**self._change(operation))
                await client.call("reload", timeout_s=_OPERATOR_S)

    def _change(self, operation: str) -> dict[str, object]:
        changes: dict[str, dict[str, object]] = {
            "results": {"query": {"maxResults": self._rng.randint(3, 12)}},
            "weights": {"query": {"hybrid": {"vectorWeight": self._rng.random()}}},
            "chunking": {"chunking": {"tokens": self._rng.choice((200, 300, 400))}},
            "provider": {"provider": "none"},
        }
        return changes[operation]

    async def _health(self, client: GatewayClient) -> None:
        """Checks `health`: on a busy machine one check may fail for lack of time, but not several in a row."""
        for _ in range(_HEALTH_TRIES):
            health: Any = await client.call("health")
            if health["status"] != "failing":
                return
        self._findings.errors.append(f"health: {health}")

    async def _nonsense(self, client: GatewayClient) -> None:
        """Writes settings that a reload has to refuse, then the usual ones again."""
        self._config.write_text('{"agents": {"defaults": [', encoding="utf-8")
        try:
            await client.call("reload", timeout_s=_OPERATOR_S)
            self._findings.errors.append("a configuration without an end was accepted")
        finally:
            self.configure()
            await client.call("reload", timeout_s=_OPERATOR_S)

    async def _append(self, client: GatewayClient) -> None:
        word = "".join(self._rng.choices(_LETTERS, k=14))
        added: Any = await client.call("memory_append", {"text": f"- Tell {word} as well."})
        lines = {"path": added["path"], "from": added["startLine"], "lines": 3}
        got: Any = await client.call("memory_get", lines)
        if word not in got["text"]:
            self._findings.wrong.append(f"{word} was appended; memory_get: {got}")
        log = anyio.Path(self._workspace / added["path"])
        if (await log.stat()).st_size > _MOST_APPENDED:
            await log.unlink()
