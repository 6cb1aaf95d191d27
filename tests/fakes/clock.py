"""Clocks that stand still until a task sleeps on one, or until the test lets time pass."""

from __future__ import annotations

import anyio
import anyio.lowlevel


class FakeClock:
    """Implements `providers.resilience.Clock`: a sleep ends at once and advances the time."""

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


class SteppedClock:
    """Implements `providers.resilience.Clock`: time passes only by `step`, from one end of a sleep to the next."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.sleepers: dict[anyio.Event, float] = {}
        """The time at which each sleeper is to be woken."""

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        woken = anyio.Event()
        self.sleepers[woken] = self.time + seconds
        try:
            await woken.wait()
        finally:
            self.sleepers.pop(woken, None)

    def step(self) -> None:
        """Wakes the next sleeper."""
        if self.sleepers:
            woken = min(self.sleepers, key=lambda sleeper: self.sleepers[sleeper])
            self.time = max(self.time, self.sleepers.pop(woken))
            woken.set()
