"""A model of notes that an editor saves while agents append to them and people delete from them.

Each line has a mark of its own. An acknowledged line is found until somebody deletes it; a deleted line is in no
answer to a later question, and a minute later in no file of the gateway.

An editor that saves replaces the file that it read by a new one. Lines that were written to the old file in between
are lost: the editor looks for them in the file that it replaced, and they are not expected to be found.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio

from config.errors import MemoryGatewayError
from endurance.agent import ANSWER_S, Agent
from gateway.client import GatewayClient

ERASED_S: Final = 60.0
CLIENTS: Final = 3
NOTES: Final = 6
_MARK: Final = re.compile(r"mark[0-9]{6}q")
_BACKWARDS: Final = re.compile(r"q[0-9]{6}kram")
_PAUSE_S: Final = 0.01
_EDITS_A_SECOND: Final = 12
_LEAST_LINES: Final = 5
"""The fewest lines that a note keeps, so that most of its lines are not new."""


class Model:
    """The state of every mark. All times are of the monotonic clock."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent = agent
        self.rng = Random(seed)
        self.places = [agent.workspace / f"memory/edited-{number}.md" for number in range(NOTES)]
        self.live: dict[str, float] = {}
        """The marks that must be found, and since when."""
        self.dead: dict[str, float] = {}
        """The marks that were deleted, and when."""
        self.lost: set[str] = set()
        """The marks of lines that the editor overwrote."""
        self.failures: list[str] = []
        self.counts: Counter[str] = Counter()
        self._made = 0

    def new_mark(self) -> str:
        self._made += 1
        return f"mark{self._made:06d}q"

    def acknowledge(self, mark: str) -> None:
        self.counts["appended"] += 1
        if mark not in self.lost:
            self.live[mark] = time.monotonic()

    def edit(self, notes: list[Path]) -> None:
        """Saves one note with a new line, and sometimes without one or most of the others. Blocks for a moment."""
        path = self.rng.choice(notes)
        try:
            with path.open("rb") as old:
                self._save(path, old.read().decode(), old)
        except FileNotFoundError:
            self._save(path, f"# {path.stem}\n\n", None)

    def _save(self, path: Path, text: str, old: Any) -> None:
        lines = text.split("\n")
        deletable = [n for n, line in enumerate(lines) if self._is_live(line)]
        gone: list[str] = []
        if len(deletable) > _LEAST_LINES and self.rng.random() < 0.6:
            gone = [_marks(lines.pop(self.rng.choice(deletable)))[0]]
        came = self.new_mark()
        lines.insert(min(2, len(lines)), f"- the editor noted {came} about the boiler")
        if len(deletable) > 4 * _LEAST_LINES:
            gone += [mark for line in lines for mark in _marks(line) if mark in self.live]
            lines = [line for line in lines if not set(_marks(line)) & set(gone)]
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text("\n".join(lines), encoding="utf-8")
        draft.replace(path)
        self.counts["saved"] += 1
        now = time.monotonic()
        if old is not None:
            old.seek(0)
            for mark in set(_marks(old.read().decode())) - set(_marks(text)):
                self._overwrite(mark)
        self.live[came] = now
        for mark in gone:
            self._bury(mark, now)

    def _is_live(self, line: str) -> bool:
        marks = _marks(line)
        return bool(marks) and all(mark in self.live for mark in marks)

    def _overwrite(self, mark: str) -> None:
        """Allows the mark to be found or not: its line may be written again."""
        self.lost.add(mark)
        self.live.pop(mark, None)
        self.counts["overwritten by the editor"] += 1

    def _bury(self, mark: str, now: float) -> None:
        self.live.pop(mark, None)
        self.dead[mark] = now
        self.counts["deleted"] += 1

    def judge(self, mark: str, asked_at: float, answer: dict[str, Any]) -> None:
        """Checks the answer to a search for `mark`."""
        self.counts["searched"] += 1
        shown = {one for hit in answer["results"] for one in _marks(hit["snippet"])}
        ghosts = [one for one in shown if self.dead.get(one, asked_at) < asked_at]
        is_missing = mark not in shown and self.live.get(mark, asked_at) < asked_at
        if not (ghosts or is_missing):
            return
        if answer.get("stale") or answer.get("error"):  # it says that it is behind the notes
            self.counts["stale"] += 1
            return
        self.failures += [
            f"{one} was deleted {asked_at - self.dead[one]:.3f} s before and is shown: {self._where(one)}"
            for one in ghosts
        ]
        if is_missing:
            self.failures.append(f"{mark} is not found: {self._where(mark)}")

    def _where(self, mark: str) -> str:
        has = [
            file.name
            for file in self.agent.workspace.rglob("*.md")
            if mark in file.read_text(encoding="utf-8", errors="replace")
        ]
        return f"it stands in {', '.join(has)}" if has else "it stands in no note"

    def remains(self, *, before: float) -> set[tuple[str, str]]:
        """Returns the marks deleted before then that are still in files of the gateway, with the names of the files."""
        old = {mark for mark, at in self.dead.items() if at < before}
        return {(file, mark) for file, mark in self._kept() if mark in old}

    def _kept(self) -> Iterator[tuple[str, str]]:
        for file in self.agent.state.rglob("*"):
            try:
                text = file.read_bytes().decode("latin-1") if file.is_file() else ""
            except OSError:
                continue
            yield from ((file.name, mark) for mark in _MARK.findall(text))
            yield from ((file.name, found[::-1]) for found in _BACKWARDS.findall(text))


def _marks(text: str) -> list[str]:
    return _MARK.findall(text)


async def check(agent: Agent, seed: int, seconds: float) -> Model:
    """Works for that time with three clients and an editor, then waits until no deleted line is left."""
    model = Model(agent, seed)
    agent.configure(memory={"append": {"enabled": True}})
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(agent.gateway()) for _ in range(CLIENTS)]
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:
                for number, client in enumerate(clients):
                    tasks.start_soon(_use, model, client, Random(seed * 100 + number))
                tasks.start_soon(_edit, model)
                tasks.start_soon(_look, model)
        ended = time.monotonic()
        for mark in sorted(model.live):
            await _search(model, clients[0], mark)
        await _until_erased(model, ended)
    return model


async def _use(model: Model, client: GatewayClient, rng: Random) -> None:
    while True:
        try:
            if rng.random() < 0.5:
                await _append(model, client)
            else:
                known = sorted(model.live if rng.random() < 0.6 else model.dead)
                if known:
                    await _search(model, client, rng.choice(known[-200:]))
        except MemoryGatewayError as error:
            model.failures.append(f"{type(error).__name__}: {error}")
        await anyio.sleep(_PAUSE_S)


async def _append(model: Model, client: GatewayClient) -> None:
    mark = model.new_mark()
    with anyio.CancelScope(shield=True):  # every line that is written has to be known
        answer = await client.call(
            "memory_append", {"text": f"- an agent noted {mark}"}, timeout_s=ANSWER_S
        )
    if "path" not in answer:
        model.failures.append(f"not appended: {answer}")
        return
    model.acknowledge(mark)
    log = model.agent.workspace / answer["path"]
    if log not in model.places:
        model.places.append(log)


async def _search(model: Model, client: GatewayClient, mark: str) -> None:
    asked_at = time.monotonic()
    answer = await client.call("memory_search", {"query": mark}, timeout_s=ANSWER_S)
    model.judge(mark, asked_at, answer)


async def _edit(model: Model) -> None:
    while True:
        # The log that agents append to is saved as often as all others together.
        logs = [place for place in model.places[NOTES:] if place.exists()]
        model.edit(logs if logs and model.rng.random() < 0.5 else model.places[:NOTES])
        await anyio.sleep(model.rng.uniform(0, 2 / _EDITS_A_SECOND))


async def _look(model: Model) -> None:
    while True:
        await anyio.sleep(5.0)
        _note_remains(model, time.monotonic() - ERASED_S)


async def _until_erased(model: Model, ended: float) -> None:
    while model.remains(before=ended):
        if time.monotonic() > ended + ERASED_S:
            _note_remains(model, ended)
            return
        await anyio.sleep(0.5)
    model.counts["seconds until erased"] = round(time.monotonic() - ended)


def _note_remains(model: Model, before: float) -> None:
    left = model.remains(before=before)
    if left:
        model.failures.append(f"deleted and still in files: {sorted(left)[:5]} of {len(left)}")


def seconds_wanted(usual: float) -> float:
    """Returns the value of `EDITORS_SECONDS`, or the usual one."""
    return float(os.environ.get("EDITORS_SECONDS", usual))
