"""Keeps one worker process at work: starts it on demand, restarts it, lets it go when idle.

Owns the worker's life. `run` must be running for anything to be embedded; all its parts end with it.
Which text a dead worker died of, and what is computed again, is decided by `desk`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec
import structlog

from config.groups import ungrouped
from providers.errors import ProviderError
from providers.interface import EmbeddedBatch
from providers.local.desk import Desk
from providers.local.job import Job
from providers.local.process import Worker, started
from providers.local.protocol import Cancel, Computed, Computing, Failed, Lane, Open, Ping
from providers.resilience.clock import Clock, SystemClock

_log = structlog.get_logger(__name__)

_MOST_DOUBLINGS: Final = 20


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long the supervisor waits for what, in seconds."""

    idle_s: float = 300.0
    """Without work, until the worker's memory is given back."""
    open_s: float = 300.0
    """For a model to be loaded, perhaps from a slow disk."""
    beat_s: float = 2.0
    """Between questions whether a busy worker lives."""
    silence_s: float = 10.0
    """Without an answer, until the worker is taken for stuck."""
    first_pause_s: float = 0.1
    """Before a restart; doubled by every death before anything was computed."""
    longest_pause_s: float = 30.0


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """For `status`."""

    status: Literal["off", "loading", "running"]
    pid: int | None = None
    resident_bytes: int | None = None
    """Of the worker process; where the system does not tell, None."""
    deaths: int = 0
    """Ends that nobody asked for."""
    last_death: str | None = None
    cut_texts: int = 0
    """Texts of which the model read only the beginning."""
    refused_texts: int = 0
    """Texts that are left out because llama.cpp dies of them."""


class Supervisor:
    """Belongs to one event loop."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        patience: Patience | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._environment = environment
        self._patience = patience or Patience()
        self._clock = clock or SystemClock()
        self._desk = Desk()
        self._order: Open | None = None
        self._changed = anyio.Event()
        self._cancelled: list[int] = []
        self._ping_due = False
        self._worker: Worker | None = None
        self._status: Literal["off", "loading", "running"] = "off"
        self._ending: str | None = None
        """Why we end the worker ourselves, if we do."""
        self._silent_beats = 0
        self._fruitless = 0
        """Deaths in a row without anything computed between them."""
        self._deaths = 0
        self._last_death: str | None = None
        self._cut = 0

    async def embed(self, order: Open, lane: Lane, texts: Sequence[str]) -> EmbeddedBatch:
        """One item for each text. Raises `ProviderError`; waits as long as that takes."""
        if self._order != order:
            self._order = order
            self._end("its model was replaced")
        job = Job(lane, texts)
        self._desk.put(job)
        self._wake()
        try:
            await job.ended.wait()
        finally:
            if not job.ended.is_set():
                self._cancelled += self._desk.withdraw(job)
                self._wake()
        self._cut += job.cut
        return job.result()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            while self._desk.is_empty:
                await self._changed.wait()
            try:
                await self._one_life()
            except ProviderError as error:
                self._desk.fail_all(error)
            await self._clock.sleep(self.pause_s())

    def state(self) -> WorkerState:
        """May be asked from any thread."""
        worker = self._worker
        return WorkerState(
            status=self._status,
            pid=worker.pid if worker else None,
            resident_bytes=_resident_bytes(worker.pid) if worker else None,
            deaths=self._deaths,
            last_death=self._last_death,
            cut_texts=self._cut,
            refused_texts=self._desk.convicted,
        )

    async def _one_life(self) -> None:
        """From start to end of one worker. Raises `ProviderError` if it cannot be used."""
        assert self._order is not None
        self._ending, self._status = None, "loading"
        try:
            async with started(self._environment) as worker:
                self._worker = worker
                with ungrouped():
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(worker.listen_to_errors)
                        await worker.open(self._order, within_s=self._patience.open_s)
                        self._status, self._silent_beats = "running", 0
                        tasks.start_soon(self._feed, worker)
                        tasks.start_soon(self._watch)
                        await self._listen(worker)
                        tasks.cancel_scope.cancel()
                await self._bury(worker)
        finally:
            self._worker, self._status = None, "off"

    async def _bury(self, worker: Worker) -> None:
        cause = await worker.cause_of_death()
        if self._ending is None:
            self._deaths += 1
            self._fruitless += 1
            self._last_death = cause
            _log.warning("local embeddings: the worker died", cause=cause)
        self._desk.bury(cause, blame=self._ending is None)

    async def _feed(self, worker: Worker) -> None:
        """Gives the worker what waits, as fast as it takes it."""
        while True:
            changed = self._changed
            while self._cancelled:
                await worker.send(Cancel(self._cancelled.pop()))
            while (request := self._desk.next()) is not None:
                await worker.send(request)
            if self._ping_due:
                self._ping_due = False
                await worker.send(Ping())
            await changed.wait()

    async def _listen(self, worker: Worker) -> None:
        while replies := await worker.receive():
            self._silent_beats = 0
            for reply in replies:
                if isinstance(reply, Computing | Computed | Failed):
                    self._desk.note(reply)
                if isinstance(reply, Computed | Failed):
                    self._fruitless = 0
            self._wake()

    async def _watch(self) -> None:
        """Notices a worker that is stopped, and lets one go that has nothing to do.

        Counts beats and not seconds, so that a pause of the whole machine is not held against it.
        """
        patience = self._patience
        while True:
            await self._clock.sleep(patience.beat_s)
            self._silent_beats += 1
            silence_s = self._silent_beats * patience.beat_s
            if self._desk.is_empty:
                if silence_s >= patience.idle_s:
                    self._end("it had nothing to do")
            elif silence_s >= patience.silence_s:
                self._deaths += 1
                self._last_death = f"it did not answer for {silence_s:g} s and was ended"
                self._end(self._last_death)
            else:
                self._ping_due = True
                self._wake()

    def _end(self, reason: str) -> None:
        if self._worker is not None:
            _log.info("local embeddings: the worker is ended", reason=reason)
            self._ending = reason
            self._worker.kill()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def pause_s(self) -> float:
        """Before the next worker may start."""
        if self._fruitless == 0:
            return 0.0
        doubled = self._patience.first_pause_s * 2.0 ** min(self._fruitless - 1, _MOST_DOUBLINGS)
        return min(doubled, self._patience.longest_pause_s)


def _resident_bytes(pid: int) -> int | None:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
