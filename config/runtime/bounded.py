"""Blocking work with a time limit, in threads of its own.

A hung mount may hold such a thread for ever. The threads are daemons, so the process can end without them,
and their number is limited for each kind of work. A thread is kept for a while, since starting one takes as
long as listing a small directory.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakSet

import anyio

from config.runtime.tasks import lacks_threads

if TYPE_CHECKING:
    from anyio.lowlevel import EventLoopToken

T = TypeVar("T")

IDLE_S: Final = 10.0
"""How long a thread waits for more work before it ends."""
_PAUSE_S: Final = 0.05
"""Between two attempts to start a thread."""


_pools: Final[WeakSet[BoundedWork]] = WeakSet()


class BoundedWork:
    """Runs at most `at_once` pieces of work at a time. A caller that gives up or is cancelled abandons its
    piece, which runs on: whatever it still does must be harmless.

    Belongs to one event loop.
    """

    def __init__(self, name: str, at_once: int = 1) -> None:
        self._name = name
        self._at_once = at_once
        self._running = 0
        """Abandoned pieces included."""
        self._ended: anyio.Event | None = None
        """Set with the end of the next piece; None while nobody waits for it."""
        self._idle: list[_Worker] = []
        _pools.add(self)

    async def run(
        self,
        work: Callable[[], T],
        patience_s: float,
        *,
        queue_s: float = 0.0,
        discard: Callable[[T], object] | None = None,
    ) -> T:
        """What the work returns or raises.

        Waits at most `queue_s` for its turn, then at most `patience_s` for the work to end; a thread that
        cannot be started counts as work that does not end. Raises TimeoutError.
        `discard` gets, in the same thread, what comes of work that was left behind, such as a lock.
        """
        if self._running >= self._at_once:
            with anyio.fail_after(queue_s):
                while self._running >= self._at_once:
                    self._ended = self._ended or anyio.Event()
                    await self._ended.wait()
        piece, done = _Piece(work, discard), anyio.Event()
        self._running += 1
        try:
            with anyio.fail_after(patience_s):
                (await self._next_worker()).give(piece, done)
                await done.wait()
        except BaseException:
            piece.leave()
            raise
        return piece.outcome()

    async def run_out(self, work: Callable[[], T]) -> T:
        """The same, however long it takes. Only who is cancelled leaves it behind."""
        return await self.run(work, math.inf, queue_s=math.inf)

    async def _next_worker(self) -> _Worker:
        """Waits while the machine has no thread left."""
        try:
            while not self._idle:
                try:
                    return self._start_worker()
                except RuntimeError as error:
                    if not lacks_threads(error):
                        raise
                    for pool in tuple(_pools):
                        pool.end_idle()
                    await anyio.sleep(_PAUSE_S)
        except BaseException:
            self._one_less()
            raise
        return self._idle.pop()

    def end_idle(self) -> None:
        """Ends the threads that only wait for work, because another pool needs one."""
        while self._idle:
            self._idle.pop().dismiss()

    def _start_worker(self) -> _Worker:
        worker = _Worker(self._name, self._finish, self._let_go, anyio.lowlevel.current_token())
        worker.start()
        return worker

    def _finish(self, worker: _Worker, done: anyio.Event) -> None:
        self._idle.append(worker)
        done.set()
        self._one_less()

    def _one_less(self) -> None:
        self._running -= 1
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    def _let_go(self, worker: _Worker) -> bool:
        """Whether this thread may end, since no piece has been given to it meanwhile."""
        if worker not in self._idle:
            return False
        self._idle.remove(worker)
        return True


class _Worker(threading.Thread):
    """One thread. It calls its pool back on the event loop."""

    def __init__(
        self,
        name: str,
        finish: Callable[[_Worker, anyio.Event], None],
        let_go: Callable[[_Worker], bool],
        token: EventLoopToken,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.busy = False
        """Whether it runs a piece, which may never end."""
        self._finished = finish
        self._let_go = let_go
        self._token = token
        self._pieces: SimpleQueue[tuple[_Piece[Any], anyio.Event] | None] = SimpleQueue()

    def give(self, piece: _Piece[Any], done: anyio.Event) -> None:
        self.busy = True
        self._pieces.put((piece, done))

    def dismiss(self) -> None:
        self._pieces.put(None)

    def run(self) -> None:
        with suppress(RuntimeError):  # the loop may have ended long ago
            while True:
                try:
                    given = self._pieces.get(timeout=IDLE_S)
                except Empty:
                    if anyio.from_thread.run_sync(self._let_go, self, token=self._token):
                        return
                else:
                    if given is None:
                        return
                    piece, done = given
                    piece.work()
                    self.busy = False
                    anyio.from_thread.run_sync(self._finished, self, done, token=self._token)
                    del given, piece  # with what came of it


def run_within(work: Callable[[], T], patience_s: float) -> T:
    """The same where there is no event loop: what the work returns or raises. Raises TimeoutError.

    Where no thread can be started nothing limits it.
    """
    piece = _Piece(work, None)
    thread = _Lone(piece)
    try:
        thread.start()
    except RuntimeError as error:
        if not lacks_threads(error):
            raise
        return work()
    thread.join(patience_s)
    if thread.is_alive():
        raise TimeoutError
    return piece.outcome()


class _Lone(threading.Thread):
    def __init__(self, piece: _Piece[Any]) -> None:
        super().__init__(target=piece.work, name="in time", daemon=True)
        self.busy = True


class _Piece(Generic[T]):
    """One run of some work, and what came of it."""

    def __init__(self, work: Callable[[], T], discard: Callable[[T], object] | None) -> None:
        self._do = work
        self._discard = discard
        self._turn = threading.Lock()
        self._has_one = False
        self._result: list[T] = []
        self._error: BaseException | None = None

    def work(self) -> None:
        try:
            self._result.append(self._do())
        except BaseException as error:  # noqa: BLE001 - it belongs to the task that waits
            self._error = error
        if self._is_second():
            self._throw_away()

    def leave(self) -> None:
        """Nobody waits any more."""
        if self._is_second():
            self._throw_away()

    def _is_second(self) -> bool:
        """Whether the other one came first: whichever is later, the end of the work or the caller's leave, throws away
        what came of it.
        """
        with self._turn:
            is_second, self._has_one = self._has_one, True
        return is_second

    def _throw_away(self) -> None:
        if self._discard is not None and self._result:
            with suppress(Exception):  # nobody is there to be told
                self._discard(self._result.pop())

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]
