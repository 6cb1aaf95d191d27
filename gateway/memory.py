"""One agent's memory as the methods see it: settings, backend and background work together.

Owns switching off, the session key that holds for a request, and turning backend failures into
answers that say so. Knows no wire.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import anyio
import structlog

from backends.builtin.backend import open_builtin
from backends.errors import FileUnreadableError, IndexUnavailableError, PathNotAllowedError
from backends.interface import MemoryBackend, ProgressCallback, SyncReport, SyncRequest
from config.settings import Settings
from gateway.scheduling import SyncScheduler
from gateway.scope import judge_scope
from gateway.tools import get, search
from gateway.tools.health import Health, judge_health
from gateway.tools.status import StatusResult, write_status

_log = structlog.get_logger(__name__)


class Memory:
    """The memory of one agent, open. Make it with `open_memory`."""

    def __init__(
        self, settings: Settings, backend: MemoryBackend | None, scheduler: SyncScheduler | None
    ) -> None:
        self.settings = settings
        self._backend = backend
        self._scheduler = scheduler
        self._policy = settings.qmd.scope if settings.backend == "qmd" else settings.scope

    async def search(
        self, params: search.SearchParams, session_key: str | None, *, operator: bool = False
    ) -> search.SearchResult:
        """Answers also when memory is off or its index unusable: the result then says so.

        The `operator`, who sits at the machine, may always search; others as the scope says.
        """
        request = search.read_request(params)
        if self._backend is None:
            return search.disabled_result(_why_disabled(self.settings))
        key = params.session_key or session_key
        if self._policy is not None and not operator:
            verdict = judge_scope(self._policy, key)
            if not verdict.allowed:
                _log.info("search denied", reason=verdict.reason)
                return search.denied_result(verdict.reason)
        try:
            answer = await self._backend.search(request)
        except IndexUnavailableError as error:
            return search.disabled_result(str(error))
        if answer.stale is not None and self._scheduler is not None:
            self._scheduler.request("search")
        return search.write_result(answer, self.settings.citations, key)

    async def get(self, params: get.GetParams) -> get.GetResult:
        request = get.read_request(params)
        if self._backend is None:
            return get.failed_result(params.path, _why_disabled(self.settings), disabled=True)
        try:
            return get.write_result(await self._backend.read(request))
        except (PathNotAllowedError, FileUnreadableError) as error:
            return get.failed_result(params.path, str(error), kind=error.kind)

    async def sync(
        self, request: SyncRequest, progress: ProgressCallback | None = None
    ) -> SyncReport | None:
        """Brings the index up to date and waits for it; None while memory is off."""
        if self._backend is None:
            return None
        return await self._backend.sync(request, progress=progress)

    def sync_later(self, reason: str) -> None:
        if self._scheduler is not None:
            self._scheduler.request(reason)

    async def status(self) -> StatusResult:
        if self._backend is None:
            return write_status(self.settings, None, disabled=_why_disabled(self.settings))
        return write_status(
            self.settings, await self._backend.status(), sync_error=self._sync_error
        )

    async def health(self) -> Health:
        if self._backend is None:
            return judge_health(disabled=_why_disabled(self.settings))
        try:
            with anyio.fail_after(_HEALTH_PATIENCE_S):
                return judge_health(await self._backend.status(), sync_error=self._sync_error)
        except IndexUnavailableError as error:
            return judge_health(failure=str(error))
        except TimeoutError:
            return judge_health(failure=f"The index did not answer within {_HEALTH_PATIENCE_S} s.")

    @property
    def _sync_error(self) -> str | None:
        return self._scheduler.last_error if self._scheduler else None


_HEALTH_PATIENCE_S = 0.8
"""A probe gives up after a second."""


@asynccontextmanager
async def open_memory(settings: Settings, *, background: bool = True) -> AsyncIterator[Memory]:
    """Opens the memory that the settings describe, or one that is off.

    With `background` the index is brought up to date at once and then as `sync.*` says. Raises
    IndexUnavailableError.
    """
    if is_disabled(settings):
        yield Memory(settings, None, None)
        return
    async with (
        _open_backend(settings, background=background) as backend,
        anyio.create_task_group() as tasks,
    ):
        scheduler = None
        if background:
            interval = settings.search.sync.interval_minutes
            scheduler = SyncScheduler(backend, interval_minutes=interval)
            scheduler.request("boot")
            tasks.start_soon(scheduler.run)
        try:
            yield Memory(settings, backend, scheduler)
        finally:
            tasks.cancel_scope.cancel()


def _open_backend(
    settings: Settings, *, background: bool
) -> AbstractAsyncContextManager[MemoryBackend]:
    open_index = partial(open_builtin, background=background)
    if settings.backend == "builtin":
        return open_index(settings)
    from backends.fallback import open_with_fallback  # noqa: PLC0415 - most start without it

    return open_with_fallback(settings, open_index)


def is_disabled(settings: Settings) -> bool:
    return not settings.search.enabled or settings.memory_slot == "none"


def _why_disabled(settings: Settings) -> str:
    if settings.memory_slot == "none":
        return 'Memory is switched off by plugins.slots.memory = "none"; remove it to switch it on.'
    return "Memory is switched off by memorySearch.enabled = false; set it to true to switch it on."
