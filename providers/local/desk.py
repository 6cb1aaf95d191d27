"""What is to be embedded, what the worker has of it, and which text a dead worker died of.

A worker that dies leaves suspects: the batch it was computing. A batch that was computed alone is
halved until one text is left, and that text gets an error once it has ended two workers; everything
else is computed again. While anything is suspected, nothing is computed beside it. Does no I/O.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from config.errors import ErrorKind
from providers.errors import ProviderError
from providers.interface import ItemError
from providers.local.job import Job
from providers.local.protocol import Computed, Computing, Embed, Failed, Lane

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
