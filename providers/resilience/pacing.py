"""How many requests are under way at once, and the pauses a host asks for.

One pacer a host: a pause that one request is told of holds back all, and the number at once is halved
by each rate limit and grows again by one with every few successes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from providers.resilience.clock import Clock

_SUCCESSES_TO_GROW = 5


class Pacer:
    def __init__(self, clock: Clock, at_once: int) -> None:
        self._clock = clock
        self._most = at_once
        self._limiter = anyio.CapacityLimiter(at_once)
        self._not_before = clock.now()
        self._successes = 0

    @property
    def at_once(self) -> int:
        return int(self._limiter.total_tokens)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for a free place and for the end of any pause; holds the place for the block."""
        async with self._limiter:
            while (wait := self._not_before - self._clock.now()) > 0:
                await self._clock.sleep(wait)
            yield

    def slow_down(self, pause_s: float) -> None:
        """A rate limit was hit: nobody begins before the pause is over, and fewer at once after."""
        self._not_before = max(self._not_before, self._clock.now() + pause_s)
        self._limiter.total_tokens = max(1, self.at_once // 2)
        self._successes = 0

    def succeeded(self) -> None:
        self._successes += 1
        if self._successes >= _SUCCESSES_TO_GROW and self.at_once < self._most:
            self._limiter.total_tokens = self.at_once + 1
            self._successes = 0
