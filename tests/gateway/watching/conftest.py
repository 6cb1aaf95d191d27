"""A real workspace that is really watched, and a memory that only counts its syncs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from backends.interface import IndexUnavailableError, SyncReport, SyncRequest
from config.settings import SyncSettings
from fakes.settings import make_settings
from gateway.scheduler import SyncScheduler
from gateway.watching.watcher import Watcher, watched_places

PATIENCE_S = 60
DEBOUNCE_MS = 50
LAST = "memory/last.md"
"""A note whose stamps change after everything else."""


class CountingBackend:
    """A backend whose syncs end at once."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.failing = False

    async def sync(self, request: SyncRequest, *, progress: object = None) -> SyncReport:
        self.reasons.append(request.reason)
        if self.failing:
            raise IndexUnavailableError("The disk hangs.")
        return SyncReport(
            reason=request.reason, scanned=0, added=0, changed=0, removed=0, unchanged=0, skipped=(),
            chunks_written=0, bytes_read=0, duration_ms=0.0, complete=True,
        )  # fmt: skip


class Watched:
    """A watcher at work."""

    def __init__(
        self, watcher: Watcher, scheduler: SyncScheduler, backend: CountingBackend, last: Path
    ) -> None:
        self.watcher = watcher
        self.scheduler = scheduler
        self.backend = backend
        self.reasons = backend.reasons
        self._last = last

    async def until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE_S):
            while not condition():
                await anyio.sleep(0.01)

    async def sees(self, change: Callable[[], object], reason: str = "watch") -> None:
        """Checks that the change, and nothing before it, causes a sync."""
        await self.settled()
        before = len(self.reasons)
        change()
        await self.until(lambda: len(self.reasons) > before)
        assert self.reasons[before] == reason

    async def ignores(self, change: Callable[[], object], then: Callable[[], object]) -> None:
        """Checks that the change causes no sync; `then`, after it, causes exactly one."""
        await self.settled()
        before = len(self.reasons)
        change()
        await anyio.sleep(3 * DEBOUNCE_MS / 1000)
        assert len(self.reasons) == before
        await self.sees(then)

    async def settled(self) -> None:
        """Waits until every change so far was noticed, and no sync was requested for some debounce times.

        Events come in order, so that of the last change is the last.
        """
        if self._last.exists():
            before = len(self.reasons)
            os.utime(self._last)
            await self.until(lambda: len(self.reasons) > before)
        with anyio.fail_after(PATIENCE_S):
            count = -1
            while count != len(self.reasons):
                count = len(self.reasons)
                await anyio.sleep(4 * DEBOUNCE_MS / 1000)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    (path / "memory").mkdir(parents=True)
    (path / LAST).touch()
    return path


@pytest.fixture
def settings_of(tmp_path: Path, workspace: Path) -> Callable[..., Any]:
    def make(**search: Any) -> Any:
        return make_settings(
            tmp_path, search={"sync": SyncSettings(watch_debounce_ms=DEBOUNCE_MS)} | search
        )

    return make


@pytest.fixture
def watching(settings_of, workspace) -> Callable[..., AbstractAsyncContextManager[Watched]]:
    """A watcher that has set its watches, with other search settings than the defaults.

    A sync that fails is not tried again unless requested.
    """

    @asynccontextmanager
    async def watch(mode: str = "watching", **search: Any) -> AsyncIterator[Watched]:
        backend = CountingBackend()
        scheduler = SyncScheduler(backend, interval_minutes=0, pause_s=lambda _failures: 3600)
        watcher = Watcher(watched_places(settings_of(**search)), scheduler, start_after_s=0.0)
        watched = Watched(watcher, scheduler, backend, workspace / LAST)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            tasks.start_soon(watcher.run)
            scheduler.request("boot")
            await watched.until(lambda: watcher.state.mode == mode)
            yield watched
            tasks.cancel_scope.cancel()

    return watch


@pytest.fixture
def watch_count() -> Callable[[], int]:
    """Returns the number of inotify watches of this process, as the kernel counts them."""

    def count() -> int:
        total = 0
        for info in Path("/proc/self/fdinfo").iterdir():
            try:
                text = info.read_text(encoding="ascii")
            except FileNotFoundError:
                continue
            total += text.count("inotify wd:")
        return total

    return count
