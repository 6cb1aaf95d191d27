"""What long-running tasks wait for: a signal, or the time to try again."""

from __future__ import annotations

import time
from collections.abc import Iterator

import anyio


def lacks_threads(error: BaseException) -> bool:
    """Whether no further thread can be started. Python says so only in the text of the error."""
    return isinstance(error, RuntimeError) and str(error) == "can't start new thread"


class Wakeup:
    """Wakes the tasks that wait now, but none that wait later.

    Use it as `while not condition: await wakeup.wait()`: on one event loop nothing runs between the check
    and the wait, so no signal is lost.
    """

    def __init__(self) -> None:
        self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def fire(self) -> None:
        self._event.set()
        self._event = anyio.Event()


class ResettableEvent:
    """An event that can be cleared, which those of anyio cannot. A signal is kept until then."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def clear(self) -> None:
        if self._event.is_set():  # else somebody may be waiting for this very one
            self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()


class Backoff:
    """How long to wait after failures in a row: `first_s`, then `second_s` and twice as long each time."""

    def __init__(self, first_s: float, second_s: float, longest_s: float) -> None:
        self._steps = (first_s, second_s, longest_s)
        self._pauses = _pauses(*self._steps)
        self._until = 0.0

    def failed(self) -> None:
        self._until = time.monotonic() + next(self._pauses)

    def succeeded(self) -> None:
        self._pauses = _pauses(*self._steps)
        self._until = 0.0

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())


def _pauses(first_s: float, second_s: float, longest_s: float) -> Iterator[float]:
    yield first_s
    while True:
        yield min(second_s, longest_s)
        second_s = min(2 * second_s, longest_s)
