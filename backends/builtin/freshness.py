"""Keeping the index level with the disk: whole syncs, and the small one before a search.

Owns which sync runs when two are asked for, how much a search may spend on it, and the record of the
last syncs. Asynchronous; all blocking work happens in threads, in slices that end at a file.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import anyio
from anyio.to_thread import run_sync

from backends.builtin.failures import IndexDamagedError
from backends.builtin.indexing import Indexer
from backends.builtin.outcome import FileOutcome
from backends.builtin.planning import ObsoleteFile
from backends.builtin.tally import Tally, Task
from backends.errors import IndexUnavailableError
from backends.interface import (
    ProgressCallback,
    SkippedFile,
    Stale,
    SyncProgress,
    SyncReport,
    SyncRequest,
)

_SLICE_S: Final = 0.05
"""How long one visit to a worker thread may take before cancellation and progress get a turn."""
_REMEMBERED_SYNCS: Final = 10
_INDEXED_BYTES_PER_S: Final = 2_000_000
"""What a modest machine indexes: a file that would take longer than a search may is left to a sync."""


class Freshness:
    """The syncs of one index."""

    def __init__(self, indexer: Indexer, on_written: Callable[[], None] = lambda: None) -> None:
        """`on_written` is called, on the event loop, whenever chunks were written."""
        self._indexer = indexer
        self._on_written = on_written
        self._sync_lock = anyio.Lock()
        self._sweep_lock = anyio.Lock()
        self._sweeps_started = 0
        self._last_sweep: tuple[int, Stale | None] = (0, None)
        self._level_generation: int | None = None
        self.running: SyncProgress | None = None
        self.recent: deque[SyncReport] = deque(maxlen=_REMEMBERED_SYNCS)
        self.unreadable: tuple[SkippedFile, ...] = ()
        """Files that the last whole sync could not index, with reasons."""
        self.unlisted = 0
        """Directories that the last whole sync could not list."""

    async def sync(self, request: SyncRequest, progress: ProgressCallback | None) -> SyncReport:
        """Indexes everything that differs. One runs at a time; a second waits and then runs.

        Raises IndexUnavailableError; `recent` then says what happened.
        """
        async with self._sync_lock:
            started = time.perf_counter()
            generation = self._indexer.generation
            tally = Tally()
            error: str | None = "ended before every change was indexed"
            try:
                tally.begin(
                    await run_sync(
                        lambda: self._indexer.survey(force=request.force, eager=request.is_by_hand)
                    )
                )
                await self._work_off(tally, force=request.force, progress=progress)
                error = None
            except IndexUnavailableError as failure:
                error = str(failure)
                raise
            finally:
                self.running = None
                report = tally.report(request, time.perf_counter() - started, error)
                self.recent.appendleft(report)
            self.unreadable = tuple(tally.unreadable)
            self.unlisted = tally.unlisted
            self._level_generation = generation
            return report

    async def sweep(self, budget_s: float) -> Stale | None:
        """Before a search: index what changed, as far as the budget allows; the newest first.

        Searches that arrive while one sweep runs share the next one: a sweep that began earlier may
        have looked before their file was written. Raises IndexDamagedError.
        """
        ticket = self._sweeps_started
        async with self._sweep_lock:
            covered_until, stale = self._last_sweep
            if covered_until > ticket:
                return stale
            self._sweeps_started += 1
            number = self._sweeps_started
            stale = await self._sweep(budget_s)
            self._last_sweep = (number, stale)
            return stale

    def unsynced(self) -> Stale | None:
        """For searches that do not sweep: whether the index was ever level with the disk."""
        if self._level_generation == self._indexer.generation:
            return None
        return Stale(files=0, reason="the first sync of this index has not ended")

    async def _sweep(self, budget_s: float) -> Stale | None:
        deadline = time.perf_counter() + budget_s
        tally = Tally()
        try:
            tally.begin(await run_sync(self._indexer.survey))
            queue = iter([task for task in tally.tasks if _fits(task, budget_s)])
            while time.perf_counter() < deadline:
                if not await self._slice(queue, tally, deadline, in_a_hurry=True):
                    break
        except IndexDamagedError:
            raise
        except IndexUnavailableError as error:
            reason = f"recent changes could not be indexed: {error}"
            return Stale(files=len(tally.pending), reason=reason)
        return _staleness(tally, syncing=self.running is not None)

    async def _work_off(
        self, tally: Tally, *, force: bool, progress: ProgressCallback | None
    ) -> None:
        queue = iter(tally.tasks)
        more = True
        while more:
            more = await self._slice(queue, tally, time.perf_counter() + _SLICE_S, force=force)
            self.running = tally.progress()
            if progress is not None:
                progress(self.running)

    async def _slice(
        self,
        queue: Iterator[Task],
        tally: Tally,
        deadline: float,
        *,
        force: bool = False,
        in_a_hurry: bool = False,
    ) -> bool:
        """Works until the deadline, at least one task; False when there was nothing left to do.

        In a hurry it does not wait beyond the deadline for somebody else who writes.
        """
        outcomes: list[tuple[Task, FileOutcome]] = []

        def work() -> bool:
            for task in queue:
                patience_s = max(0.0, deadline - time.perf_counter()) if in_a_hurry else None
                outcomes.append(
                    (task, self._indexer.apply(task, force=force, patience_s=patience_s))
                )
                if time.perf_counter() >= deadline:
                    return True
            return False

        try:
            return await run_sync(work)
        finally:
            for task, outcome in outcomes:
                tally.add(task, outcome)
            if any(outcome.chunks for _, outcome in outcomes):
                self._on_written()


def _fits(task: Task, budget_s: float) -> bool:
    return isinstance(task, ObsoleteFile) or task.size <= budget_s * _INDEXED_BYTES_PER_S


def _staleness(tally: Tally, *, syncing: bool) -> Stale | None:
    if tally.pending:
        reason = "a sync is indexing them" if syncing else "more changed than one search may index"
        return Stale(files=len(tally.pending), reason=reason)
    if tally.later:
        return Stale(files=tally.later, reason="being written at this moment")
    return None
