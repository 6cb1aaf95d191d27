"""What long-running tasks wait for: a signal, or the time to try again."""

from __future__ import annotations

import time

import anyio


def lacks_threads(error: BaseException) -> bool:
    """Whether the machine allows no further thread. Python has only words for that."""
    return isinstance(error, RuntimeError) and str(error) == "can't start new thread"


class Wakeup:
    """A repeatable event: wakes those who wait now, and none who come later.

    Meant for `while not condition: await wakeup.wait()`: on one event loop nothing can come between
    the check and the wait, so no signal is lost.
    """

    def __init__(self) -> None:
        self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def fire(self) -> None:
        self._event.set()
        self._event = anyio.Event()


class Backoff:
    """How long to leave something alone after failures in a row: `first_s`, then doubling from `second_s`."""

    def __init__(self, first_s: float, second_s: float, longest_s: float) -> None:
        self._steps = (first_s, second_s, longest_s)
        self._failures = 0
        self._until = 0.0

    def failed(self) -> None:
        first, second, longest = self._steps
        length = first if self._failures == 0 else min(second * 2 ** (self._failures - 1), longest)
        self._failures += 1
        self._until = time.monotonic() + length

    def succeeded(self) -> None:
        self._failures, self._until = 0, 0.0

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())
