"""Blocking work that nobody waits for longer than they can afford.

Owns the threads for work that a hung mount may hold for ever. They are daemons, which the end of the
process does not wait for, and of each kind of work at most one is left behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import anyio
from anyio import from_thread
from anyio.lowlevel import current_token

T = TypeVar("T")


class BoundedWork:
    """Runs one piece of work at a time. A caller that gives up, or is cancelled, leaves it behind."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: anyio.Event | None = None

    async def run(self, work: Callable[[], T], patience_s: float, *, queue_s: float = 0.0) -> T:
        """What the work returns or raises.

        Waits at most `queue_s` for work that an earlier caller left behind and then at most
        `patience_s` for its own. Raises TimeoutError.
        """
        if self._running is not None:
            with anyio.fail_after(queue_s):
                while self._running is not None:
                    await self._running.wait()
        piece = _Piece(work)
        self._running = piece.done
        token = current_token()

        def finish() -> None:
            self._running = None
            piece.done.set()

        def thread() -> None:
            piece.work()
            with suppress(RuntimeError):  # the event loop may have ended long ago
                from_thread.run_sync(finish, token=token)

        threading.Thread(target=thread, name=self._name, daemon=True).start()
        with anyio.fail_after(patience_s):
            await piece.done.wait()
        return piece.outcome()


class _Piece(Generic[T]):
    """One run of some work, and what came of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._do = work
        self._result: list[T] = []
        self._error: BaseException | None = None
        self.done = anyio.Event()

    def work(self) -> None:
        try:
            self._result.append(self._do())
        except BaseException as error:  # noqa: BLE001 - it belongs to the task that waits
            self._error = error

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]
