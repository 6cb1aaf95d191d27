"""Faults of notes: changes by people and editors while the gateway is at work."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from config.errors import MemoryGatewayError
from endurance.agent import ANSWER_S
from endurance.editors import ERASED_S, Model
from endurance.faults.base import Fault
from endurance.run import Run

_ENTRIES: Final = 20
_POLL_S: Final = 0.2


class SavingEditor(Fault):
    """An acknowledged entry is in a note, unless the editor itself overwrote it."""

    name = "saving-editor"
    about = "entries are appended to the log beside an editor that saves it by rename"

    def __init__(self) -> None:
        self._model: Model | None = None

    async def before(self, run: Run) -> None:
        run.agent.add({"memory": {"append": {"enabled": True}}})
        self._model = Model(run.agent, run.number)

    async def inject(self, run: Run) -> None:
        model = self._model
        assert model is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._save, model)
            for _ in range(_ENTRIES):
                if run.is_alive:
                    await self._append(run, model)
            tasks.cancel_scope.cancel()

    async def _append(self, run: Run, model: Model) -> None:
        mark = model.new_mark()
        with suppress(MemoryGatewayError):  # nothing is promised for an unacknowledged entry
            text = f"- an agent noted {mark}"
            answer = await run.gateway.call("memory_append", {"text": text}, timeout_s=ANSWER_S)
            model.acknowledge(mark)
            log = run.agent.workspace / answer["path"]
            if log not in model.places:
                model.places.append(log)

    async def _save(self, model: Model) -> None:
        while True:
            model.edit(model.places[-1:])
            await anyio.sleep(0.02)

    async def remove(self, run: Run) -> None:
        if self._model is None:
            return
        notes = run.agent.workspace.rglob("*.md")
        text = "".join(one.read_text(encoding="utf-8", errors="replace") for one in notes)
        lost = [mark for mark in self._model.live if mark not in text]
        if lost:
            run.fail(f"acknowledged and in no note: {lost[:5]} of {len(lost)}")

    async def after(self, run: Run) -> None:  # noqa: ARG002 - as every fault has it
        """Deletes the notes of the model."""
        if self._model is not None:
            for place in self._model.places:
                place.unlink(missing_ok=True)


class DeletedText(Fault):
    """A minute after the sync no byte of a deleted note is in a file of the gateway."""

    name = "deleted"
    about = "a note with a password is indexed and deleted"
    runs = 2

    async def inject(self, run: Run) -> None:
        self._secret = f"opens-with-{run.rng.randrange(10**12):012d}"
        note = run.agent.workspace / "memory/password.md"
        note.write_text(f"# Cellar\n\n- the cellar door {self._secret}\n", encoding="utf-8")
        with suppress(MemoryGatewayError):
            await run.gateway.call("sync", {}, timeout_s=ANSWER_S)
        note.unlink()

    async def remove(self, run: Run) -> None:
        with suppress(MemoryGatewayError):
            await run.gateway.call("sync", {}, timeout_s=ANSWER_S)
            ends = time.monotonic() + ERASED_S
            while run.is_alive and (left := await self._left(run)):
                if time.monotonic() > ends:
                    run.fail(f"deleted a minute ago and still in {', '.join(left)}")
                    return
                await anyio.sleep(_POLL_S)

    async def _left(self, run: Run) -> list[str]:
        """Returns the names of the files that contain the secret.

        Another process reads them: closing the host's database here would release the locks that this one has on it.
        """
        # exit code 1: in no file; 2: a file was deleted meanwhile
        found = await anyio.run_process(
            ["grep", "-rlaFs", self._secret, str(run.agent.state)], check=False
        )
        return [Path(line).name for line in found.stdout.decode().splitlines()]
