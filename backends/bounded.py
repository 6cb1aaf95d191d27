"""Blocking work that nobody waits for longer than they can afford.

Owns the threads for work that a hung mount may hold for ever. They are daemons, which the end of the
process does not wait for, and of each kind of work at most one is left behind. A thread waits a while for
the next piece of its kind: to start one takes as long as a look at a small directory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeAlias, TypeVar

import anyio
from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

T = TypeVar("T")

IDLE_S: Final = 10.0
"""How long a thread waits."""


_PAUSE_S: Final = 0.05


class BoundedWork:
    """Runs one piece of work at a time. A caller that gives up, or is cancelled, leaves it behind.

    Belongs to one event loop.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: anyio.Event | None = None
        self._idle: _Pieces | None = None
        """Where the thread that waits will find its next piece."""

    async def run(self, work: Callable[[], T], patience_s: float, *, queue_s: float = 0.0) -> T:
        """What the work returns or raises.

        Waits at most `queue_s` for work that an earlier caller left behind and then at most
        `patience_s` for its own, also where no thread can be started for it. Raises TimeoutError.
        """
        if self._running is not None:
            with anyio.fail_after(queue_s):
                while self._running is not None:
                    await self._running.wait()
        piece = _Piece(work)
        self._running = piece.done
        with anyio.fail_after(patience_s):
            pieces = self._idle or await self._next_thread(piece.done)
            self._idle = None
            pieces.put(piece)
            await piece.done.wait()
        return piece.outcome()

    async def _next_thread(self, done: anyio.Event) -> _Pieces:
        """Waits while the machine has no thread left."""
        try:
            while True:
                try:
                    return self._start_thread()
                except RuntimeError:
                    await anyio.sleep(_PAUSE_S)
        except BaseException:
            self._running = None
            done.set()
            raise

    def _start_thread(self) -> _Pieces:
        pieces: _Pieces = SimpleQueue()
        threading.Thread(
            target=self._work_off, args=(pieces, current_token()), name=self._name, daemon=True
        ).start()
        return pieces

    def _work_off(self, pieces: _Pieces, token: EventLoopToken) -> None:
        """In the thread. What happens to this object happens on the event loop."""
        with suppress(RuntimeError):  # which may have ended long ago
            while True:
                try:
                    piece = pieces.get(timeout=IDLE_S)
                except Empty:
                    if from_thread.run_sync(self._let_go, pieces, token=token):
                        return
                else:
                    piece.work()
                    from_thread.run_sync(self._finish, pieces, piece.done, token=token)
                    del piece  # with what came of it

    def _finish(self, pieces: _Pieces, done: anyio.Event) -> None:
        self._running, self._idle = None, pieces
        done.set()

    def _let_go(self, pieces: _Pieces) -> bool:
        """Whether this thread may end: no piece was put on its way to it by now."""
        if self._idle is not pieces:
            return False
        self._idle = None
        return True


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


_Pieces: TypeAlias = "SimpleQueue[_Piece[Any]]"
"""For one thread."""
