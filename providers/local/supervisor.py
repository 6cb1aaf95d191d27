"""Keeping one worker process at work: started on demand, restarted after a crash, let go when idle.

Knows what the worker has of each call, so that the text that crashed it is found and the others are computed.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import anyio
import msgspec
import structlog

from config.errors import ErrorKind, ungrouped
from providers.errors import ProviderError
from providers.interface import EmbeddedBatch, ItemError, Vector, WorkerState
from providers.local.process import Worker, started
from providers.local.protocol import Cancel, Computed, Computing, Embed, Failed, Lane, Open, Ping
from providers.resilience import Clock, SystemClock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_NO_DIRECTION = ItemError(
    kind=ErrorKind.PROVIDER_BAD_RESPONSE,
    message="The model gave a vector that is zero or not finite.",
)


class Job:
    """Belongs to one event loop. `texts` carry their prompts."""

    def __init__(self, lane: Lane, texts: Sequence[str]) -> None:
        self.lane = lane
        self.texts = tuple(texts)
        self.ended = anyio.Event()
        self.error: ProviderError | None = None
        self.cut = 0
        """How many texts were longer than what the model is given."""
        self._tokens = 0
        self._items: dict[int, Vector | ItemError] = {}
        if not texts:
            self.ended.set()

    def accept(self, positions: Sequence[int], reply: Computed) -> None:
        """Takes the vectors of these texts."""
        self._tokens += reply.tokens
        self.cut += reply.cut
        rows = _rows(reply.vectors, len(positions))
        for position, row in zip(positions, rows, strict=True):
            self.answer(position, row if row.any() else _NO_DIRECTION)

    def answer(self, position: int, item: Vector | ItemError) -> None:
        self._items[position] = item
        if len(self._items) == len(self.texts):
            self.ended.set()

    def fail(self, error: ProviderError) -> None:
        """Ends the job as a whole."""
        self.error = error
        self.ended.set()

    def missing(self, positions: Iterable[int]) -> list[int]:
        """Those of the positions that have no answer yet."""
        return [position for position in positions if position not in self._items]

    def result(self) -> EmbeddedBatch:
        """Of a job that ended. Raises the `ProviderError` it ended with."""
        if self.error is not None:
            raise self.error
        items = tuple(self._items[position] for position in range(len(self.texts)))
        return EmbeddedBatch(items, self._tokens)


def _rows(data: bytes, count: int) -> NDArray[np.float32]:
    import numpy as np  # noqa: PLC0415 - loaded in a worker thread before the first job

    return np.frombuffer(data, dtype="<f4").reshape(count, -1)


_AHEAD: Final[dict[Lane, int]] = {"query": 4, "document": 2}
"""Requests that the worker has at a time, so that it never waits for the next one."""
_DEATHS_THAT_CONVICT: Final = 2
_MOST_REMEMBERED: Final = 1_000


@dataclass(eq=False, slots=True)
class _Parcel:
    """Some texts of one job, as they go to the worker."""

    job: Job
    positions: Sequence[int]
    suspect: bool = False
    computing: Sequence[int] = ()


class Desk:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[Lane, deque[_Parcel]] = {"query": deque(), "document": deque()}
        self._sent: dict[int, _Parcel] = {}
        self._numbers = 0
        self._deaths: OrderedDict[bytes, int] = OrderedDict()
        self.convicted = 0
        """Texts that got an error because they end workers."""

    @property
    def is_empty(self) -> bool:
        return not self._sent and not any(self._waiting.values())

    def put(self, job: Job) -> None:
        for position, text in enumerate(job.texts):
            if self._deaths.get(_digest(text), 0) >= _DEATHS_THAT_CONVICT:
                self._convict(job, position, "on an earlier try")
        if unknown := job.missing(range(len(job.texts))):
            self._waiting[job.lane].append(_Parcel(job, unknown))

    def next(self) -> Embed | None:
        """What to send now, if anything. Queries come first."""
        suspects = any(parcel.suspect for parcel in self._parcels())
        for lane, waiting in self._waiting.items():
            if not waiting or (suspects and self._sent):
                continue
            if sum(parcel.job.lane == lane for parcel in self._sent.values()) < _AHEAD[lane]:
                return self._send(waiting.popleft())
        return None

    def withdraw(self, job: Job) -> list[int]:
        """Forgets a job; returns the numbers under which the worker has parts of it."""
        waiting = self._waiting[job.lane]
        self._waiting[job.lane] = deque(parcel for parcel in waiting if parcel.job is not job)
        numbers = [number for number, parcel in self._sent.items() if parcel.job is job]
        for number in numbers:
            del self._sent[number]
        return numbers

    def note(self, reply: Computing | Computed | Failed) -> None:
        """Takes what the worker says; what it says of a forgotten job is nothing."""
        parcel = self._sent.get(reply.number)
        if parcel is None:
            return
        positions = [parcel.positions[at] for at in reply.positions]
        if isinstance(reply, Computing):
            parcel.computing = positions
            return
        parcel.computing = ()
        if isinstance(reply, Computed):
            parcel.job.accept(positions, reply)
        else:
            fault = ItemError(kind=ErrorKind.PROVIDER_UNAVAILABLE, message=f"{reply.message}.")
            for position in positions:
                parcel.job.answer(position, fault)
        if not parcel.job.missing(parcel.positions):
            del self._sent[reply.number]

    def bury(self, cause: str, *, blame: bool = True) -> None:
        """Takes back what a dead worker had. Without `blame` no text is held responsible."""
        dead = list(self._sent.values())
        self._sent.clear()
        alone = blame and sum(bool(parcel.computing) for parcel in dead) == 1
        for parcel in reversed(dead):
            rest = parcel.job.missing(set(parcel.positions) - set(parcel.computing))
            again = [_Parcel(parcel.job, sorted(rest))] if rest else []
            if parcel.computing:
                again = [*self._after_death(parcel, cause, alone=alone, blame=blame), *again]
            self._waiting[parcel.job.lane].extendleft(reversed(again))

    def fail_all(self, error: ProviderError) -> None:
        """Ends every job."""
        for parcel in tuple(self._parcels()):
            parcel.job.fail(error)
            self.withdraw(parcel.job)

    def _after_death(
        self, parcel: _Parcel, cause: str, *, alone: bool, blame: bool
    ) -> list[_Parcel]:
        suspects = parcel.computing
        half = len(suspects) // 2
        if alone and half:
            parts = (suspects[:half], suspects[half:])
            return [_Parcel(parcel.job, part, suspect=True) for part in parts]
        if alone and self._count_death(parcel.job.texts[suspects[0]]) >= _DEATHS_THAT_CONVICT:
            self._convict(parcel.job, suspects[0], cause)
            return []
        return [_Parcel(parcel.job, suspects, suspect=blame)]

    def _count_death(self, text: str) -> int:
        digest = _digest(text)
        self._deaths[digest] = self._deaths.pop(digest, 0) + 1
        if len(self._deaths) > _MOST_REMEMBERED:
            self._deaths.popitem(last=False)
        return self._deaths[digest]

    def _convict(self, job: Job, position: int, cause: str) -> None:
        self.convicted += 1
        message = f"llama.cpp dies of this text ({cause}), so it is left out."
        job.answer(position, ItemError(kind=ErrorKind.PROVIDER_UNAVAILABLE, message=message))

    def _send(self, parcel: _Parcel) -> Embed:
        self._numbers += 1
        self._sent[self._numbers] = parcel
        texts = [parcel.job.texts[position] for position in parcel.positions]
        return Embed(self._numbers, parcel.job.lane, texts)

    def _parcels(self) -> Iterator[_Parcel]:
        yield from self._sent.values()
        for waiting in self._waiting.values():
            yield from waiting


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


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
