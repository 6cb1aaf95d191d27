"""Time as this floor sees it, so that tests need not wait.

Owns the `Clock` protocol and the real one. Timeouts of requests on a socket are real time always.
"""

from __future__ import annotations

import time
from typing import Protocol

import anyio


class Clock(Protocol):
    def now(self) -> float:
        """Seconds, monotonic, from an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
