"""When QMD's index is brought up to date: at the start, at intervals, and after changes.

Owns debouncing, the pauses after failures (one second, then a minute, doubling to an hour), the repair
of a damaged index, and the record of what ran. One round runs at a time.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import structlog

from backends.qmd.errors import QmdUnavailableError
from backends.qmd.upkeep import UpdateCounts, Upkeep
from config.runtime.tasks import Backoff
from config.settings import QmdUpdateSettings

_log = structlog.get_logger(__name__)

FIRST_PAUSE_S: Final = 1.0
SECOND_PAUSE_S: Final = 60.0
LONGEST_PAUSE_S: Final = 3600.0
CLEANUP_EVERY_S: Final = 300.0


class Schedule:
    """The upkeep of one index over time."""

    def __init__(
        self,
        upkeep: Upkeep,
        settings: QmdUpdateSettings,
        *,
        may_embed: Callable[[], bool],
        repair: Callable[[], Awaitable[None]],
    ) -> None:
        self._upkeep = upkeep
        self._settings = settings
        self._may_embed = may_embed
        self._repair = repair
        self._wake = anyio.Event()
        self._round = anyio.Lock()
        self._embedding = anyio.Lock()
        self._running: list[str] = []
        self._update_pause = Backoff(FIRST_PAUSE_S, SECOND_PAUSE_S, LONGEST_PAUSE_S)
        self._embed_pause = Backoff(SECOND_PAUSE_S, 2 * SECOND_PAUSE_S, LONGEST_PAUSE_S)
        self._unclean_since: float | None = None
        self._cleaned_at = -CLEANUP_EVERY_S
        self.updated_at: float | None = None
        """Of the monotonic clock, like the other times here: the start of the last good update."""
        self.embedded_at: float | None = None
        self.last_error: str | None = None
        self.embed_error: str | None = None
        self.updated = anyio.Event()
        """Set once the first update of this process has ended well."""

    def request(self) -> None:
        """Something changed: update soon, but not sooner than `debounceMs` after the last time."""
        self._wake.set()

    async def run(self, *, at_once: bool) -> None:
        """Works until cancelled."""
        if at_once:
            self._wake.set()
        async with anyio.create_task_group() as tasks:
            while True:
                await self._next()
                self._wake = anyio.Event()
                try:
                    await self._refresh("scheduled")
                except QmdUnavailableError as error:
                    _log.warning("qmd upkeep failed", error=str(error), cause=error.cause)
                    continue
                if not self._embedding.locked():
                    tasks.start_soon(self._embed)

    async def round(self, reason: str, *, force: bool = False) -> UpdateCounts:
        """One update, with cleaning up and embedding when they are due.

        Raises QmdUnavailableError when the update fails; a failed embedding only delays the next.
        """
        counts = await self._refresh(reason, force=force)
        await self._embed(force=force)
        return counts

    @property
    def running(self) -> str | None:
        """Which commands run now, or wait for their turn."""
        return ", ".join(self._running) or None

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        self._running.append(what)
        try:
            yield
        finally:
            self._running.remove(what)

    async def _refresh(self, reason: str, *, force: bool = False) -> UpdateCounts:
        async with self._round:
            started = time.monotonic()
            try:
                counts = await self._update()
            except QmdUnavailableError as error:
                self.last_error = str(error)
                self._update_pause.failed()
                self._wake.set()
                raise
            self.last_error = None
            self._update_pause.succeeded()
            self.updated_at = started
            self.updated.set()
            _log.debug("qmd updated", reason=reason, changed=counts.changed, added=counts.added)
            if counts.changed or counts.removed:
                self._unclean_since = started
            await self._clean(force=force)
            return counts

    async def _update(self) -> UpdateCounts:
        with self._noted("update"):
            try:
                return await self._upkeep.update()
            except QmdUnavailableError as error:
                if error.cause != "corrupt_index":
                    raise
                _log.warning("qmd index set aside", error=str(error))
            await self._repair()
            self.embedded_at = None
            return await self._upkeep.update()

    async def _clean(self, *, force: bool) -> None:
        due = time.monotonic() >= self._cleaned_at + CLEANUP_EVERY_S
        if self._unclean_since is None or not (due or force):
            return
        self._cleaned_at = time.monotonic()
        try:
            with self._noted("cleanup"):
                await self._upkeep.cleanup()
            self._unclean_since = None
        except QmdUnavailableError as error:
            self.last_error = str(error)

    async def _embed(self, *, force: bool = False) -> None:
        """Outside of the rounds: it may wait long for other agents, and updates go on meanwhile."""
        async with self._embedding:
            due = self._may_embed() and (force or self._embed_due())
            if not due or self._embed_pause.left_s:
                return
            started = time.monotonic()
            try:
                with self._noted("embed"):
                    await self._upkeep.embed()
            except QmdUnavailableError as error:
                self.embed_error = str(error)
                self._embed_pause.failed()
                _log.warning("qmd embed failed", error=str(error), cause=error.cause)
            else:
                self.embed_error = None
                self._embed_pause.succeeded()
                self.embedded_at = started

    def _embed_due(self) -> bool:
        if self.embedded_at is None:
            return True
        interval_s = self._settings.embed_interval_ms / 1000
        return bool(interval_s) and time.monotonic() >= self.embedded_at + interval_s

    @property
    def pause_left_s(self) -> float:
        """How long nothing is tried after failures."""
        return max(self._update_pause.left_s, self._embed_pause.left_s)

    async def _next(self) -> None:
        """Waits for a request or the interval, then for the end of every pause."""
        interval_ms = self._settings.interval_ms
        with anyio.move_on_after(interval_ms / 1000 if interval_ms else None):
            await self._wake.wait()
        await anyio.sleep(max(self._update_pause.left_s, self._debounce_left_s()))

    def _debounce_left_s(self) -> float:
        if self.updated_at is None:
            return 0.0
        return max(0.0, self.updated_at + self._settings.debounce_ms / 1000 - time.monotonic())
