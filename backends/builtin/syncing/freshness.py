"""Keeping the index up to date with the disk: whole syncs, and the small one before a search.

`Tally` records what a sync does, in which order, and with which outcome. If two syncs are requested at once, one waits
for the other. A search looks at the disk and indexes what changed there within its budget. Asynchronous; all blocking
work happens in threads, in slices that end at a file.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final

import anyio
import msgspec
from msgspec.structs import replace

from backends.builtin.store.port import IndexDamagedError, View
from backends.builtin.syncing.helper import Helper, helped
from backends.builtin.syncing.indexing import Group, Indexer, Task, TaskOptions
from backends.builtin.syncing.planning import (
    Change,
    FileOutcome,
    ObsoleteFile,
    Retained,
    explanations,
)
from backends.builtin.syncing.sessions import TranscriptPart, skipped_transcripts
from backends.builtin.syncing.surveying import Survey
from backends.files.scan import FoundFile, ScanResult
from backends.interface import (
    IndexUnavailableError,
    ProgressCallback,
    SkippedFile,
    Stale,
    SyncProgress,
    SyncReport,
    SyncRequest,
)
from config.runtime.logs import Log
from config.runtime.remembered import Remembered, size_of
from config.runtime.tasks import BoundedWork, SearchPriority
from config.settings import Source

REMEMBERED: Final = 10
"""The number of last syncs that are reported."""
_log = Log()
_SLICE_S: Final = 0.05
"""The time that one visit to a worker thread may take before cancellation and progress get a turn."""
LISTING_PATIENCE_S: Final = 60.0
"""The time that a sync waits for the list of all files before it reports the disk as broken."""
FILE_PATIENCE_S: Final = 120.0
"""The time that a sync waits for one file, which may be large on a slow disk; then for each step of indexing it, which
a busy machine may take long for.
"""
SURVEY_PATIENCE_S: Final = (1.0, 3.0)
"""The time that a search waits for its look at the disk, at least and at most: a mount may hang. Of searches
during one hang only the first waits so long; the others wait as long as their budget."""
_SURVEY_MARGIN: Final = 3.0
"""Within these bounds a search waits this many times as long as the last look took."""
SLICE_PATIENCE_S: Final = 1.0
"""The time by which one file may exceed the budget of a search."""
_FAULTS_BYTES: Final = 64 * 1024
"""The memory for causes of internal faults, each of which is logged once."""
_INDEXED_BYTES_PER_S: Final = 2_000_000
"""The speed of a modest machine. A file that would take longer than a search may wait is left to a sync."""


class LastLook(msgspec.Struct, frozen=True, gc=False):
    """The findings of the last look at the disk that are not files to index."""

    retained: tuple[Retained, ...] | None = None
    """Files that are gone from the disk and stay in the index for now; None before the first look."""
    unlisted: int = 0
    """Directories that could not be listed."""
    lacks_conversations: bool = False
    """True if some conversations could not be listed."""
    denied: Stale | None = None
    """The files and directories that this user may not read; None: there are none."""

    @property
    def is_denied(self) -> bool:
        """True if there is a place of notes, a directory or a file that this user may not read."""
        return self.denied is not None or any(one.remedy for one in self.retained or ())


class Tally:
    """The counts of a running sync, which may end at any file, and even before its survey."""

    def __init__(self) -> None:
        self.tasks: tuple[Task, ...] = ()
        """The tasks of the sync, removals first: they are cheap."""
        self.pending: set[str] = set()
        """Files that are known to differ and have not been looked at so far."""
        self.outdated: frozenset[str] = frozenset()
        """Those of them that did not change, but were indexed by other settings or an earlier release."""
        self.later = 0
        """Files that changed while they were looked at."""
        self.unreadable: list[SkippedFile] = []
        """Memory files that could not be indexed."""
        self.unread_files = 0
        """Files that could not be read this time: what the index holds of them may be old, or nothing."""
        self.unread: list[str] = []
        """The causes, including those of directories that could not be listed this time."""
        self.denied_files = 0
        self.denied: list[str] = []
        """The causes, for files and directories, for which this user may not read them."""
        self.retained: tuple[Retained, ...] = ()
        """Files that are gone from the disk and stay in the index for now."""
        self.unlisted = 0
        """Directories that could not be listed."""
        self.lacks_conversations = False
        """True if some conversations could not be listed."""
        self._written: set[str] = set()
        self._removed = self._unchanged = 0
        self._done = self._chunks = self._bytes_read = self._bytes_total = self._scanned = 0
        self._skipped: tuple[SkippedFile, ...] = ()
        self._new: frozenset[str] = frozenset()
        self._path: str | None = None

    def begin(self, survey: Survey) -> None:
        plan, sessions = survey.plan, survey.sessions
        removals = (*plan.to_remove, *sessions.to_remove)
        reading = fair_order(plan.to_read, sessions.parts)
        self.tasks = (*removals, *reading)
        self.pending = {task.path for task in self.tasks} - plan.doubtful
        self.outdated = plan.outdated | sessions.outdated
        self._bytes_total = sum(task.size for task in reading)
        self._scanned = len(survey.scan.files) + len(sessions.listing.files)
        self._skipped = (*skipped_by(survey.scan), *skipped_transcripts(sessions))
        self._unchanged = plan.unchanged + sessions.unchanged
        self._new = plan.added | sessions.added
        self.unlisted = len(survey.scan.failed_dirs)
        self.lacks_conversations = bool(sessions.listing.failures)
        self.denied += denied_by(survey)
        self.retained = survey.plan.retained
        self.unread = [
            *explanations(self.retained),
            *unread_by(survey),
            *self.unread,
        ]
        self.unread_files += sum(one.files for one in self.retained)

    def add(self, task: Task, outcome: FileOutcome) -> None:
        self._done += 1
        self._path = task.path
        is_step = isinstance(task, TranscriptPart) and not task.is_last
        if not (is_step or (isinstance(task, TranscriptPart) and outcome.change is Change.LATER)):
            self.pending.discard(task.path)
        self._chunks += outcome.chunks
        self._bytes_read += outcome.bytes_read
        is_new = task.path in self._new
        match outcome.change:
            case Change.WRITTEN:
                self._written.add(task.path)
            case Change.SAME:
                self._unchanged += not is_step and task.path not in self._written
            case Change.GONE:
                self._removed += not is_new
            case Change.LATER:
                self.later += 1
            case Change.SKIPPED | Change.DENIED | Change.UNREAD:
                self._add_skipped(outcome)

    def _add_skipped(self, outcome: FileOutcome) -> None:
        if outcome.skipped is None:
            return
        self.unreadable.append(outcome.skipped)
        cause = outcome.skipped.reason.rstrip(".")
        if outcome.change is Change.UNREAD:
            self.unread_files += 1
            self.unread.append(cause)
        elif outcome.change is Change.DENIED:
            self.denied_files += 1
            self.denied.append(cause)

    @property
    def is_begun(self) -> bool:
        return self._done > 0

    def look(self) -> LastLook:
        denied = _stale(self.denied_files, self.denied)
        return LastLook(self.retained, self.unlisted, self.lacks_conversations, denied)

    def progress(self) -> SyncProgress:
        return SyncProgress(
            done=self._done,
            total=len(self.tasks),
            path=self._path,
            bytes_done=self._bytes_read,
            bytes_total=self._bytes_total,
        )

    def report(self, request: SyncRequest, seconds: float, error: str | None) -> SyncReport:
        return SyncReport(
            reason=request.reason,
            scanned=self._scanned - len({one.path for one in self.unreadable}),
            added=len(self._written & self._new),
            changed=len(self._written - self._new),
            removed=self._removed,
            unchanged=self._unchanged,
            skipped=(*self._skipped, *self.unreadable),
            chunks_written=self._chunks,
            bytes_read=self._bytes_read,
            duration_ms=round(seconds * 1000, 1),
            complete=error is None and not self.later and not self.retained,
            error=error or "; ".join(explanations(self.retained)) or None,
        )


def fair_order(
    files: Sequence[FoundFile], parts: Sequence[TranscriptPart]
) -> tuple[FoundFile | TranscriptPart, ...]:
    """Returns both in their own order; the next one is from the source of which fewer bytes came so far.

    If both sources are equal, notes come first: a person wrote them to be found.
    """
    order: list[FoundFile | TranscriptPart] = []
    files_left, parts_left = list(reversed(files)), list(reversed(parts))
    lead = 0
    while files_left and parts_left:
        task = files_left.pop() if lead <= 0 else parts_left.pop()
        lead += task.size if isinstance(task, FoundFile) else -task.size
        order.append(task)
    return (*order, *reversed(files_left), *reversed(parts_left))


def skipped_by(scan: ScanResult) -> tuple[SkippedFile, ...]:
    """Returns what the listing of the disk had to leave out, with reasons."""
    failed = (SkippedFile(path=one.path, reason=one.reason) for one in scan.failed_dirs)
    return (*scan.skipped, *failed)


def unread_by(survey: Survey) -> list[str]:
    """Returns why conversations, and directories that may be listed the next time, could not be listed this time."""
    failed = [(one.path, one.reason) for one in survey.scan.failed_dirs if one.may_pass]
    failed += [(path, reason.rstrip(".")) for path, reason, _ in survey.sessions.listing.failures]
    return [f"{path!r} cannot be listed: {reason}" for path, reason in failed]


def denied_by(survey: Survey) -> list[str]:
    """Returns why directories could not be listed that this user may not read."""
    failed = (one for one in survey.scan.failed_dirs if not one.may_pass)
    return [f"{one.path!r} cannot be listed: {one.reason.rstrip('.')}" for one in failed]


class RecentSyncs:
    """Reports, newest first. Of uneventful syncs in a row with one reason only the newest is kept."""

    def __init__(self) -> None:
        self._reports: deque[SyncReport] = deque(maxlen=REMEMBERED)

    def __iter__(self) -> Iterator[SyncReport]:
        return iter(self._reports)

    def add(self, report: SyncReport) -> None:
        last = self._reports[0] if self._reports else None
        if (
            last
            and last.reason == report.reason
            and _is_uneventful(last)
            and _is_uneventful(report)
        ):
            self._reports.popleft()
        self._reports.appendleft(report)


def _is_uneventful(report: SyncReport) -> bool:
    return report.complete and not (report.added or report.changed or report.removed)


class _RunningSync(msgspec.Struct, gc=False):
    """The running sync, as searches meet it."""

    tally: Tally
    tasks: frozenset[Task]
    """The tasks that it found at its start."""
    left: Collection[Task] = ()
    """Those of them that the last search left to it."""
    survey: Survey | None = None
    """The survey of a search that left everything to it."""


def _left_to(running: _RunningSync | None) -> Survey | None:
    return None if running is None else running.survey


class Freshness:
    """The syncs of one index."""

    def __init__(
        self,
        indexer: Indexer,
        *,
        priority: SearchPriority | None = None,
        on_written: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_written` is called, on the event loop, whenever chunks were written."""
        self._indexer = indexer
        self._surveyor = indexer.surveyor
        self._priority = priority or SearchPriority()
        self._on_written = on_written
        self._listing = BoundedWork("survey of a sync")
        self._looking = BoundedWork("sweep of a search")
        self._checking = BoundedWork("presence of files")
        self._missing = BoundedWork("places that are away")
        self._indexing = BoundedWork("indexing of a sync")
        self._survey_s = 0.0
        self._sync_lock = anyio.Lock()
        self._sweep_lock = anyio.Lock()
        self._sweeps_started = 0
        self._last_sweep: tuple[int, Stale | None] = (0, None)
        """Its number, and what it left undone."""
        self._level_generation: int | None = None
        """The generation of the index that the last whole sync brought up to date; None before that."""
        self._unread: Stale | None = None
        """The files that the last whole sync could not read."""
        self._at_work: _RunningSync | None = None
        self._logged_faults: Remembered[str, bool] = Remembered(_FAULTS_BYTES, size_of)
        self._has_unreported = False
        """True if chunks were written, in whatever thread, and `on_written` has not been called since."""
        self.running: SyncProgress | None = None
        self.recent = RecentSyncs()
        self.unreadable: tuple[SkippedFile, ...] = ()
        """Files that the last whole sync could not index, with reasons."""
        self.last_look = LastLook()

    async def sync(self, request: SyncRequest, progress: ProgressCallback | None) -> SyncReport:
        """Indexes everything that differs. One runs at a time; a second waits and then runs.

        Raises IndexUnavailableError; `recent` then says what happened.
        """
        async with self._sync_lock:
            started = time.perf_counter()
            generation = self._surveyor.generation
            tally = Tally()
            error: str | None = "ended before every change was indexed"
            try:
                tally.begin(await self._survey(request))
                self._at_work = _RunningSync(tally, frozenset(tally.tasks))
                async with helped(self._indexer.preparer, _sizes(request, tally)) as helper:
                    await self._work_off(tally, helper, force=request.force, progress=progress)
                error = None
            except TimeoutError:
                error = f"For {FILE_PATIENCE_S:g} s nothing was read of a memory file, nor indexed."
                raise IndexUnavailableError(
                    error, remedy="See whether a network mount hangs; it is tried again."
                ) from None
            except IndexUnavailableError as failure:
                error = str(failure)
                raise
            finally:
                self.running = self._at_work = None
                self._report_written()
                report = tally.report(request, time.perf_counter() - started, error)
                self.recent.add(report)
            self.unreadable = tuple(tally.unreadable)
            self.last_look = tally.look()
            self._level_generation = generation
            self._unread = _unread(tally)
            return report

    def is_syncing(self) -> bool:
        return self._sync_lock.locked()

    async def _survey(self, request: SyncRequest) -> Survey:
        def look() -> Survey:
            return self._surveyor.survey(
                force=request.force, verify=request.verify, eager=request.is_manual
            )

        try:
            return await self._listing.run(look, LISTING_PATIENCE_S, queue_s=SLICE_PATIENCE_S)
        except TimeoutError:
            raise IndexUnavailableError(
                f"The memory files could not be listed within {LISTING_PATIENCE_S:g} s.",
                remedy="Check whether a network mount hangs; it is tried again.",
            ) from None

    async def sweep(self, budget_s: float) -> Stale | None:
        """Indexes what changed, before a search and as far as the budget allows, the newest first.

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

    async def before_search(self, budget_s: float | None) -> Stale | None:
        """Sweeps within this budget; does nothing without a budget. Raises IndexDamagedError."""
        if budget_s is None:
            return self.unsynced()
        with self._priority.searching():
            return await self.sweep(budget_s)

    def unsynced(self) -> Stale | None:
        """Returns what the last sync left undone, or that none has ended; for searches that do not sweep."""
        return self._first_sync() or self._unread

    def _first_sync(self) -> Stale | None:
        """Returns that the first sync has not ended; None once one has."""
        if self._level_generation == self._surveyor.generation:
            return None
        return Stale(files=0, reason="the first sync of this index has not ended")

    async def gone(self, files: Collection[tuple[Source, str]]) -> frozenset[str]:
        """Returns the paths of those files that are certainly no longer on the disk."""
        try:
            return await self._checking.run(
                lambda: self._surveyor.gone(files), SLICE_PATIENCE_S, queue_s=SLICE_PATIENCE_S
            )
        except TimeoutError:
            return frozenset()

    async def away(self, *, look: bool) -> str | None:
        """Returns why notes are missing that may come back, as of now or of the last look at the disk.

        Raises IndexUnavailableError.
        """
        if look:
            try:
                patience_s = SURVEY_PATIENCE_S[1]
                survey = await self._missing.run(
                    self._surveyor.survey, patience_s, queue_s=patience_s
                )
            except TimeoutError:
                return "the disk did not answer in time"
            self.last_look = replace(self.last_look, retained=survey.plan.retained)
        return "; ".join(explanations(self.last_look.retained or ())) or None

    def retained(self, view: View) -> tuple[Retained, ...]:
        """Returns the files that the last look found gone from the disk and left in the index.

        Before the first look only whole places that are unavailable, so that nobody has to wait for it. Blocks.
        """
        known = self.last_look.retained
        return self._surveyor.missing(view) if known is None else known

    async def out_of_reach(self, path: str) -> str | None:
        """Returns why a note that was not found may still exist: its place is unavailable."""
        try:
            return await self._checking.run(
                lambda: self._surveyor.out_of_reach(path),
                SLICE_PATIENCE_S,
                queue_s=SLICE_PATIENCE_S,
            )
        except TimeoutError:
            return "the disk did not answer in time"

    async def _sweep(self, budget_s: float) -> Stale | None:
        tally = Tally()
        try:
            survey = await self._look(budget_s)
            tally.begin(survey)
            self.last_look = replace(tally.look(), denied=self.last_look.denied)
            await self._index_within(tally, budget_s)
            self._leave(tally, survey)
            self.last_look = tally.look()
        except TimeoutError:
            return self._overdue(tally)
        except IndexDamagedError:
            raise
        except IndexUnavailableError as error:
            reason = f"recent changes could not be indexed: {error}"
            return Stale(files=len(tally.pending), reason=reason)
        except Exception as fault:  # noqa: BLE001 - an internal fault; what is indexed answers all the same
            return Stale(files=len(tally.pending), reason=self._fault(fault))
        finally:
            self._report_written()
        return _staleness(tally, syncing=self._at_work is not None and bool(self._at_work.tasks))

    def _overdue(self, tally: Tally) -> Stale:
        """Returns what a search misses that ran out of time: what the first sync, if it is at work, has not indexed;
        the files that it found changed; or, if its look did not end, an unknown number of them.
        """
        if self.is_syncing() and (first := self._first_sync()) is not None:
            return first
        files = len(tally.pending)
        cause = "this machine is busy" if files else "it holds very many files"
        reason = f"the disk did not answer within the time of one search: it is slow, or {cause}"
        return Stale(files=files, reason=reason)

    def _leave(self, tally: Tally, survey: Survey) -> None:
        """Leaves the rest to the running sync, if there is one."""
        running = self._at_work
        if running is None:
            return
        left = [task for task in tally.tasks if task.path in tally.pending]
        running.left = running.tasks.intersection(left)
        is_all = not tally.is_begun and len(left) == len(tally.tasks) == len(running.left)
        running.survey = survey if is_all else None
        tally.pending -= {task.path for task in running.left} - running.tally.pending

    def _fault(self, fault: Exception) -> str:
        """Returns the text by which an answer reports an internal fault; each cause is logged once."""
        kind = type(fault).__name__
        cause = f"{kind}: {str(fault)[:200]}"
        if self._logged_faults.get(cause) is None:
            self._logged_faults.put(cause, True)
            _log.error("disk and index not compared", exc_info=fault)
        return f"internal fault while comparing disk and index ({kind}); see the log"

    async def _look(self, budget_s: float) -> Survey:
        """Returns the survey of a search. Raises TimeoutError; until the disk answers, the next ones do so, too."""
        shortest_s, longest_s = SURVEY_PATIENCE_S
        patience_s = min(max(shortest_s, _SURVEY_MARGIN * self._survey_s), longest_s)
        started = time.perf_counter()
        last = _left_to(self._at_work)
        look = partial(self._surveyor.survey, last=last)
        survey = await self._looking.run(look, patience_s, queue_s=budget_s)
        if last is not _left_to(self._at_work):  # the sync to which it was left has ended meanwhile
            survey = await self._looking.run(self._surveyor.survey, patience_s, queue_s=budget_s)
        self._survey_s = time.perf_counter() - started
        return survey

    async def _index_within(self, tally: Tally, budget_s: float) -> None:
        """Indexes at least one file, however late it is by then, unless there is no budget at all.

        It takes only what changed on the disk since the last look: what did not change, or was left to a sync that is
        working on it, would use up the whole budget of every search until that sync ends.
        """
        deadline = time.perf_counter() + budget_s
        left = self._at_work.left if self._at_work else ()
        changed = [
            task for task in tally.tasks if task.path not in tally.outdated and task not in left
        ]
        here_and_now = TaskOptions(patience_s=0.0)
        fitting = [
            task
            for task in changed
            if _fits(task, budget_s) or self._indexer.is_known(task, here_and_now)
        ]
        if not fitting or budget_s <= 0:
            return  # true of most searches: they need no thread

        def apply(group: Group) -> list[FileOutcome]:
            """Does not wait beyond the deadline for another writer."""
            options = TaskOptions(patience_s=max(0.0, deadline - time.perf_counter()))
            return [self._indexer.apply(one, options=options) for one in group.tasks]

        async def run(work: Callable[[], bool]) -> bool:
            left_s = max(0.0, deadline - time.perf_counter())
            return await self._looking.run(work, left_s + SLICE_PATIENCE_S)

        queue = iter([Group((task,)) for task in fitting])
        await self._slice(queue, tally, deadline, run, apply)

    async def _work_off(
        self, tally: Tally, helper: Helper | None, *, force: bool, progress: ProgressCallback | None
    ) -> None:
        queue = self._indexer.grouped(tally.tasks)
        if helper is not None:
            queue = self._indexer.ahead(queue, helper, force=force)

        async def run(work: Callable[[], bool]) -> bool:
            def yielding() -> bool:
                with self._priority.yielding("indexing"):
                    return work()

            # A cancelled sync may have left a file behind.
            return await self._indexing.run(
                yielding,
                FILE_PATIENCE_S,
                queue_s=FILE_PATIENCE_S,
                last_step=lambda: self._indexer.preparer.last_step,
            )

        more = True
        while more:
            deadline, is_ended = time.perf_counter() + _SLICE_S, threading.Event()
            options = TaskOptions(force=force, is_wanted=partial(_is_not_set, is_ended))
            apply = partial(self._indexer.apply_together, options=options)
            try:
                more = await self._slice(queue, tally, deadline, run, apply, options.is_wanted)
            finally:
                is_ended.set()  # a thread that is left behind gives up its file
            self.running = tally.progress()
            if progress is not None:
                progress(self.running)

    async def _slice(
        self,
        queue: Iterator[Group],
        tally: Tally,
        deadline: float,
        run: Callable[[Callable[[], bool]], Awaitable[bool]],
        apply: Callable[[Group], list[FileOutcome]],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Works until the deadline, on one group at least; returns False when there was nothing left to do."""
        outcomes: list[tuple[Task, FileOutcome]] = []

        def work() -> bool:
            for group in queue:
                found = apply(group)
                if any(outcome.chunks for outcome in found):
                    self._has_unreported = True
                outcomes.extend(zip(group.tasks, found, strict=True))
                if time.perf_counter() >= deadline or not is_wanted():
                    return True
            return False

        try:
            return await run(work)
        finally:
            for task, outcome in outcomes:
                tally.add(task, outcome)
            self._report_written()

    def _report_written(self) -> None:
        """Calls `on_written` if chunks were written, also by a slice that its search no longer waited for."""
        if self._has_unreported:
            self._has_unreported = False
            self._on_written()


def _sizes(request: SyncRequest, tally: Tally) -> Sequence[int]:
    """Returns the sizes of the notes that will probably be prepared."""
    if request.verify:
        return ()  # few of the files that are read will differ
    return [task.size for task in tally.tasks if isinstance(task, FoundFile)]


def _is_not_set(event: threading.Event) -> bool:
    return not event.is_set()


def _fits(task: Task, budget_s: float) -> bool:
    return isinstance(task, ObsoleteFile) or task.size <= budget_s * _INDEXED_BYTES_PER_S


def _staleness(tally: Tally, *, syncing: bool) -> Stale | None:
    if tally.pending:
        reason = "more changed than one search may index"
        if syncing:
            reason = "a sync is indexing them"
        elif tally.pending <= tally.outdated:
            reason = "they were indexed by other settings, and the next sync indexes them anew"
        return Stale(files=len(tally.pending), reason=reason)
    if tally.later:
        return Stale(files=tally.later, reason="being written at this moment")
    return _unread(tally)


def _unread(tally: Tally) -> Stale | None:
    return _stale(tally.unread_files, tally.unread)


def _stale(files: int, causes: Sequence[str]) -> Stale | None:
    if not causes:
        return None
    first, *others = causes
    more = f" (and {len(others):,} more)" if others else ""
    return Stale(files=files, reason=first + more)
