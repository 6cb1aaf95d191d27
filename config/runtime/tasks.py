"""Tasks beside other work, signals and pauses that long-running ones wait for, and blocking work with a time limit, in
threads of its own.

A hung mount may block such a thread for ever. The threads are daemons, so the process can end without them, and
each kind of work may use only so many. A thread is kept for a while, for any work that comes next: starting one
takes as long as listing a small directory.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, TypeVarTuple

import anyio

from config.errors import ungrouped

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from anyio.lowlevel import EventLoopToken, RunVar

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LONGEST_PAUSE_S: Final = 0.25
"""The longest single pause that background work makes for the sake of searches."""


def lacks_threads(error: BaseException) -> bool:
    """Returns whether no further thread can be started. Python says so only in the text of the error."""
    return isinstance(error, RuntimeError) and str(error) == "can't start new thread"


@asynccontextmanager
async def background_tasks() -> AsyncIterator[TaskGroup]:
    """Runs tasks beside the body, and cancels them at its end. An exception of one of them or of the body ends all, and
    is raised as it is if it is the only one.
    """
    with ungrouped():
        async with anyio.create_task_group() as tasks:
            yield tasks
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def cancelled_after(wait: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Ends the body, without an error, as soon as `wait` returns."""
    async with background_tasks() as tasks:

        async def end() -> None:
            await wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(end)
        yield


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
        if self._event.is_set():  # otherwise tasks may be waiting for this very one
            self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()


class Backoff:
    """The pauses after failures in a row: `first_s`, then `second_s` and twice as long each time."""

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


IDLE_S: Final = 10.0
"""The time that a thread waits for more work before it ends."""
_PAUSE_S: Final = 0.05
"""The pause between two attempts to start a thread."""


@cache
def _idle_of_loop() -> RunVar[list[_Worker]]:
    return anyio.lowlevel.RunVar("threads that wait for work")


def _idle() -> list[_Worker]:
    """Returns the waiting threads of this event loop, the one that worked last at the end."""
    try:
        return _idle_of_loop().get()
    except LookupError:
        workers: list[_Worker] = []
        _idle_of_loop().set(workers)
        return workers


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

    async def run(
        self,
        work: Callable[[], T],
        patience_s: float,
        *,
        queue_s: float = 0.0,
        discard: Callable[[T], object] | None = None,
        last_step: Callable[[], float] = lambda: -math.inf,
    ) -> T:
        """Returns or raises what the work returns or raises.

        Waits at most `queue_s` for its turn, then at most `patience_s` for the work to end; a thread that
        cannot be started counts as work that does not end. Raises TimeoutError.
        `discard` receives, in a thread, the result of abandoned work, such as a lock. Work that says when it made
        its `last_step`, on the monotonic clock, may last as long as it makes any within its patience.
        """
        if self._running >= self._at_once:
            with anyio.fail_after(queue_s):
                while self._running >= self._at_once:
                    self._ended = self._ended or anyio.Event()
                    await self._ended.wait()
        piece, done = _Piece(work, discard), anyio.Event()
        self._running += 1
        try:
            started = time.monotonic()
            with anyio.fail_after(patience_s):
                self._give(await self._next_worker(), piece, done)
            while not done.is_set():
                left_s = max(started, last_step()) + patience_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                with anyio.move_on_after(left_s):
                    await done.wait()
        except BaseException:
            if piece.leave():
                self._discard(piece)
            raise
        return piece.outcome()

    async def run_out(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Runs work without a time limit. Only a caller that is cancelled abandons it."""
        return await self.run(lambda: work(*arguments), math.inf, queue_s=math.inf)

    async def _next_worker(self) -> _Worker:
        """Returns a thread for the work; waits while the machine has none left."""
        try:
            while True:
                try:
                    return self._worker()
                except RuntimeError as error:
                    if not lacks_threads(error):
                        raise
                    await anyio.sleep(_PAUSE_S)
        except BaseException:
            self._one_less()
            raise

    def _worker(self) -> _Worker:
        """Returns a waiting thread, or a new one. Raises RuntimeError if none can be started."""
        idle = _idle()
        if idle:
            return idle.pop()
        worker = _Worker(anyio.lowlevel.current_token())
        worker.start()
        return worker

    def _discard(self, piece: _Piece[Any]) -> None:
        """Throws the result away in a thread, if one can be started, since that may block."""
        try:
            worker = self._worker()
        except RuntimeError as error:
            if not lacks_threads(error):
                raise
            piece.throw_away()
            return
        self._running += 1
        self._give(worker, _Piece(piece.throw_away, None), anyio.Event())

    def _give(self, worker: _Worker, piece: _Piece[Any], done: anyio.Event) -> None:
        worker.give(self._name, piece, partial(self._finish, worker, done))

    def _finish(self, worker: _Worker, done: anyio.Event) -> None:
        _idle().append(worker)
        done.set()
        self._one_less()

    def _one_less(self) -> None:
        self._running -= 1
        if self._ended is not None:
            self._ended.set()
            self._ended = None


class _Worker(threading.Thread):
    """One thread, for any kind of work, one piece after the other."""

    def __init__(self, token: EventLoopToken) -> None:
        super().__init__(daemon=True)
        self.busy = False
        """True while it runs a piece, which may never end."""
        self._token = token
        self._pieces: SimpleQueue[tuple[_Piece[object], Callable[[], None]]] = SimpleQueue()

    def give(self, name: str, piece: _Piece[object], finish: Callable[[], None]) -> None:
        """`finish` is called on the event loop afterwards."""
        self.name = name
        self.busy = True
        self._pieces.put((piece, finish))

    def run(self) -> None:
        with suppress(RuntimeError):  # the loop may have ended long ago
            while True:
                try:
                    piece, finish = self._pieces.get(timeout=IDLE_S)
                except Empty:
                    if anyio.from_thread.run_sync(self._let_go, token=self._token):
                        return
                else:
                    piece.work()
                    self.busy = False
                    anyio.from_thread.run_sync(finish, token=self._token)
                    del piece, finish  # and the result with them

    def _let_go(self) -> bool:
        """Returns whether this thread may end, since no piece has been given to it meanwhile."""
        idle = _idle()
        if self not in idle:
            return False
        idle.remove(self)
        return True


def run_within(work: Callable[[], T], patience_s: float) -> T:
    """Runs work with a time limit where there is no event loop; returns or raises what it does. Raises TimeoutError.

    There is no limit if no thread can be started.
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
    """One run of some work, and its result."""

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
            self.throw_away()

    def leave(self) -> bool:
        """Notes that nobody waits any more. Returns whether the work has ended and left a result to discard."""
        return self._is_second() and self._discard is not None

    def _is_second(self) -> bool:
        """Returns whether the other one came first: the later of the two, the end of the work and the caller's leave,
        throws the result away.
        """
        with self._turn:
            is_second, self._has_one = self._has_one, True
        return is_second

    def throw_away(self) -> None:
        if self._discard is not None and self._result:
            with suppress(Exception):  # nobody waits for the error
                self._discard(self._result.pop())

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]


class SearchPriority:
    """Gives searches of one index priority over work beside them: indexing, and adding or loading vectors."""

    def __init__(self) -> None:
        self._searches = 0
        self._none = threading.Event()
        self._none.set()
        self._thread = threading.local()
        """`kind`: of the work that this thread does; work of a search itself has none, and does not give way."""
        self._rested_until: dict[str, float] = {}
        """The end of the last pause, by kind of work; one piece of each kind is done at a time."""

    @contextmanager
    def yielding(self, kind: str) -> Iterator[None]:
        """Marks the body as background work, in its thread."""
        self._thread.kind = kind
        try:
            yield
        finally:
            self._thread.kind = ""

    def polite(self, kind: str, work: Callable[[], T]) -> Callable[[], T]:
        """Returns the same work, which lets a search go first and gives way where it calls `give_way`."""

        def politely() -> T:
            with self.yielding(kind):
                self.give_way()
                return work()

        return politely

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Marks the body, on the event loop, as the work of a search; waiting for a provider is no such work."""
        self._searches += 1
        self._none.clear()
        try:
            yield
        finally:
            self._searches -= 1
            if not self._searches:
                self._none.set()

    def give_way(self) -> None:
        """Waits while a search runs, but no longer than this kind of work has gone on since the last time: it must
        make progress. Blocking; never call it while holding a lock of the database, which the search may need.
        """
        kind: str = getattr(self._thread, "kind", "")
        if self._none.is_set() or not kind:
            return
        worked_s = time.perf_counter() - self._rested_until.get(kind, 0.0)
        self._none.wait(min(worked_s, LONGEST_PAUSE_S))
        self._rested_until[kind] = time.perf_counter()
