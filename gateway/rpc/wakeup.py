"""A repeatable event: wakes those who wait now, and none who come later.

Owns nothing else. Meant for `while not condition: await wakeup.wait()`: on one event loop nothing can
come between the check and the wait, so no wake-up is lost.
"""

from __future__ import annotations

import anyio


class Wakeup:
    def __init__(self) -> None:
        self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def fire(self) -> None:
        self._event.set()
        self._event = anyio.Event()
