"""A clock that stands still until somebody sleeps on it."""

from __future__ import annotations

import anyio.lowlevel


class FakeClock:
    """Implements `providers.resilience.Clock`: a sleep passes at once, and moves the time on."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.time += seconds
        await anyio.lowlevel.checkpoint()

    def advance(self, seconds: float) -> None:
        self.time += seconds
