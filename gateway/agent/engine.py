"""A backend at work under one set of settings, from its opening to the end of its last request.

Owns its background work and its retirement: when a reload puts another engine in its place, the
background work ends at once and the backend closes after the requests that still use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

import anyio
from anyio.abc import TaskStatus

from backends.interface import MemoryBackend
from config.runtime.tasks import Wakeup
from config.settings import Settings
from gateway.scheduling.scheduler import SyncScheduler
from gateway.watching.places import watched_places
from gateway.watching.state import OFF, ON_DEMAND, WatchState
from gateway.watching.watcher import Watcher

OpenBackend = Callable[[Settings], AbstractAsyncContextManager[MemoryBackend]]


class Engine:
    """Made and kept alive by `run_engine`."""

    def __init__(
        self,
        backend: MemoryBackend,
        scheduler: SyncScheduler | None,
        watcher: Watcher | None = None,
    ) -> None:
        self.scheduler = scheduler
        """None: nothing happens by itself."""
        self._watcher = watcher
        self._backend = backend
        self._uses = 0
        self._changed = Wakeup()
        self._replaced = anyio.Event()

    @contextmanager
    def used(self) -> Iterator[MemoryBackend]:
        """The backend, which stays open at least until the body is left."""
        self._uses += 1
        try:
            yield self._backend
        finally:
            self._uses -= 1
            self._changed.fire()

    @property
    def watch_state(self) -> WatchState:
        if self._watcher is not None:
            return self._watcher.state
        return OFF if self.scheduler else ON_DEMAND

    def sync_later(self, reason: str, *, force: bool = False) -> None:
        if self.scheduler is not None:
            self.scheduler.request(reason, force=force)

    def retire(self) -> None:
        """Another engine answers from now on."""
        self._replaced.set()

    async def replaced(self) -> None:
        await self._replaced.wait()

    async def unused(self) -> None:
        while self._uses:
            await self._changed.wait()


async def run_engine(
    settings: Settings,
    open_backend: OpenBackend,
    *,
    boot_reason: str | None,
    task_status: TaskStatus[Engine] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Opens a backend, tells its engine as task status, and closes it after its retirement.

    With a `boot_reason` the index is brought up to date at once and then as `sync.*` says; without,
    only when somebody asks. Raises what `open_backend` raises.
    """
    async with open_backend(settings) as backend:
        async with anyio.create_task_group() as background:
            scheduler = watcher = None
            if boot_reason is not None:
                interval = settings.search.sync.interval_minutes
                scheduler = SyncScheduler(backend, interval_minutes=interval)
                scheduler.request(boot_reason)
                background.start_soon(scheduler.run)
                if places := watched_places(settings):
                    watcher = Watcher(places, scheduler)
                    background.start_soon(watcher.run)
            engine = Engine(backend, scheduler, watcher)
            task_status.started(engine)
            await engine.replaced()
            background.cancel_scope.cancel()
        await engine.unused()
