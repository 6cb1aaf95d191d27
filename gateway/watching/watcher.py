"""The task that notices changes: by inotify where possible, otherwise by polling."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import anyio
from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork, Wakeup, lacks_threads
from gateway.scheduler import SyncScheduler
from gateway.watching import STARTING, WatchState
from gateway.watching.directories import (
    WATCH,
    WatchedPlace,
    WatchingFailedError,
    WatchPlan,
    plan_watches,
)
from gateway.watching.inotify import Bursts, DirectoryWatches

_log = Log()

POLL: Final = "poll"
SHORTEST_POLL_S: Final = 2.0
LONGEST_POLL_S: Final = 60.0
POLL_SHARE: Final = 0.004
"""The share of one core that polling may cost: a look of 70 ms is followed by a pause of 17 s."""
RETRY_S: Final = 600.0
"""How often watching is tried again where it failed, and all directories are listed anew."""
START_AFTER_S: Final = 1.0
"""The pause after the first sync: until then the process only answers."""
_DISK_PATIENCE_S: Final = 60.0
_CLOSING_S: Final = 1.0

T = TypeVar("T")


def poll_pause_s(cost_s: float) -> float:
    """The pause after a look at the disk that took `cost_s`."""
    return min(max(SHORTEST_POLL_S, cost_s / POLL_SHARE), LONGEST_POLL_S)


class Watcher:
    """Asks a scheduler for syncs when watched files change."""

    def __init__(
        self,
        places: Sequence[WatchedPlace],
        scheduler: SyncScheduler,
        *,
        start_after_s: float = START_AFTER_S,
    ) -> None:
        self._start_after_s = start_after_s
        self._places = places
        self._scheduler = scheduler
        self._setting = BoundedWork("watches on directories")
        self._closing = BoundedWork("end of watches")
        self._wakeup = Wakeup()
        self.state = STARTING

    async def run(self) -> None:
        """Works until cancelled. Begins some time after the first sync, so as not to delay the first answers."""
        await self._scheduler.attempted.wait()
        await anyio.sleep(self._start_after_s)
        while True:
            try:
                await self._watch()
            except WatchingFailedError as error:
                self._tell(WatchState(mode="polling", reason=str(error)))
            except RuntimeError as error:
                if not lacks_threads(error):
                    raise
                reason = "no further thread may be started (`ulimit -u`, TasksMax=)"
                self._tell(WatchState(mode="polling", reason=reason))
            until = time.monotonic() + RETRY_S
            while time.monotonic() < until:
                await self._poll()

    async def _watch(self) -> None:
        """Watches for as long as that works. Raises WatchingFailedError."""
        wake = partial(_wake, self._wakeup, current_token(), threading.get_ident())
        bursts = Bursts(self._places, wake)
        watches = await self._on_disk(
            partial(DirectoryWatches, bursts), discard=DirectoryWatches.close
        )
        try:
            await self._follow(watches)
            self._scheduler.request(WATCH)  # for changes before the watches were set
            while True:
                await self._act_on(bursts, watches)
        finally:
            with anyio.CancelScope(shield=True), suppress(TimeoutError):
                await self._closing.run(watches.close, _CLOSING_S, queue_s=_CLOSING_S)

    async def _act_on(self, bursts: Bursts, watches: DirectoryWatches) -> None:
        """Waits for a burst to end and asks for its sync; from time to time sets all watches anew."""
        due_s = bursts.next_due_s()
        with anyio.move_on_after(RETRY_S if due_s is None else due_s) as waiting:
            await self._wakeup.wait()
        ended = bursts.take()
        if ended.structural or (waiting.cancelled_caught and due_s is None):
            await self._follow(watches)
        for reason in ended.reasons:
            self._scheduler.request(reason)

    async def _follow(self, watches: DirectoryWatches) -> None:
        """Sets watches until a look at the disk finds no directory that has none."""
        while await self._on_disk(partial(watches.follow, await self._plan())):
            pass
        self._tell(WatchState(mode="watching", directories=len(watches)))

    async def _plan(self) -> WatchPlan:
        return await self._on_disk(partial(plan_watches, self._places))

    async def _on_disk(
        self, work: Callable[[], T], *, discard: Callable[[T], object] | None = None
    ) -> T:
        try:
            return await self._setting.run(work, _DISK_PATIENCE_S, discard=discard)
        except TimeoutError:
            raise WatchingFailedError("the disk does not answer; a mount may hang") from None

    async def _poll(self) -> None:
        await anyio.sleep(poll_pause_s(self._scheduler.look_s))
        if (
            self._scheduler.last_error is None
        ):  # otherwise the scheduler retries, with ever longer pauses
            self._scheduler.request(POLL)

    def _tell(self, state: WatchState) -> None:
        before, self.state = self.state, state
        if (before.mode, before.reason) == (state.mode, state.reason):
            return
        if state.mode == "polling":
            _log.warning("polling for changes", reason=state.reason)
        else:
            _log.info("watching for changes", directories=state.directories)


def _wake(wakeup: Wakeup, token: EventLoopToken, loop_thread: int) -> None:
    """Called from watchdog's thread, which may outlive the event loop, or by whoever closes the watches."""
    if threading.get_ident() == loop_thread:
        wakeup.fire()
        return
    with suppress(RuntimeError):
        from_thread.run_sync(wakeup.fire, token=token)
