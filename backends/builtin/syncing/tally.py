"""What a sync does in which order, what has become of it so far, and what the last syncs did."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from backends.builtin.syncing.planning import Change, FileOutcome, Held, ObsoleteFile
from backends.builtin.syncing.sessions import TranscriptPart, skipped_transcripts
from backends.builtin.syncing.surveying import Survey
from backends.files.scan import FoundFile, ScanResult
from backends.interface import SkippedFile, SyncProgress, SyncReport, SyncRequest

Task: TypeAlias = FoundFile | ObsoleteFile | TranscriptPart

REMEMBERED: Final = 10
"""Of the last syncs."""


class Tally:
    """Counts while a sync runs; it may end at any file, and even before its survey."""

    def __init__(self) -> None:
        self.tasks: tuple[Task, ...] = ()
        """What there is to do, removals first: they are cheap."""
        self.pending: set[str] = set()
        """Files that are known to differ and were not looked at so far."""
        self.outdated: frozenset[str] = frozenset()
        """Those of them that are as they were indexed, by other settings or an earlier release."""
        self.later = 0
        """Files that changed while they were looked at."""
        self.unreadable: list[SkippedFile] = []
        """Files that are memory and could not be indexed."""
        self.unread_files = 0
        """Files that could not be read this time: what the index holds of them may be old, or nothing."""
        self.unread: list[str] = []
        """The causes; with those of directories that could not be listed this time."""
        self.held: tuple[Held, ...] = ()
        """What is gone from the disk and stays in the index for now."""
        self.unlisted = 0
        """Directories that could not be listed."""
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
        self.held = survey.plan.held
        self.unread = [*(one.told for one in self.held), *unread_by(survey), *self.unread]
        self.unread_files += sum(one.files for one in self.held)

    def add(self, task: Task, outcome: FileOutcome) -> None:
        self._done += 1
        self._path = task.path
        if not isinstance(task, TranscriptPart) or self._is_complete(task, outcome):
            self.pending.discard(task.path)
        self._chunks += outcome.chunks
        self._bytes_read += outcome.bytes_read
        is_new = task.path in self._new
        match outcome.change:
            case Change.WRITTEN:
                self._written.add(task.path)
            case Change.SAME:
                is_step = isinstance(task, TranscriptPart) and not task.is_last
                self._unchanged += not is_step and task.path not in self._written
            case Change.GONE:
                self._removed += not is_new
            case Change.LATER:
                self.later += 1
            case Change.SKIPPED | Change.UNREAD:
                self._add_skipped(outcome)

    def _add_skipped(self, outcome: FileOutcome) -> None:
        if outcome.skipped is None:
            return
        self.unreadable.append(outcome.skipped)
        if outcome.change is Change.UNREAD:
            self.unread_files += 1
            self.unread.append(outcome.skipped.reason.rstrip("."))

    @staticmethod
    def _is_complete(part: TranscriptPart, outcome: FileOutcome) -> bool:
        return part.is_last and outcome.change is not Change.LATER

    @property
    def is_begun(self) -> bool:
        return self._done > 0

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
            scanned=self._scanned,
            added=len(self._written & self._new),
            changed=len(self._written - self._new),
            removed=self._removed,
            unchanged=self._unchanged,
            skipped=(*self._skipped, *self.unreadable),
            chunks_written=self._chunks,
            bytes_read=self._bytes_read,
            duration_ms=round(seconds * 1000, 1),
            complete=error is None and not self.later and not self.held,
            error=error or "; ".join(one.told for one in self.held) or None,
        )


def fair_order(
    files: Sequence[FoundFile], parts: Sequence[TranscriptPart]
) -> tuple[FoundFile | TranscriptPart, ...]:
    """Both in their own order; next comes the source of which fewer bytes came so far.

    Memory comes first where they are level: a person wrote it to be found.
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
    """What the listing of the disk had to leave out, with reasons."""
    failed = (SkippedFile(path=one.path, reason=one.reason) for one in scan.failed_dirs)
    return (*scan.skipped, *failed)


def unread_by(survey: Survey) -> list[str]:
    """Why what could not be listed this time, and may be the next time, could not."""
    failed = [(one.path, one.reason) for one in survey.scan.failed_dirs if one.may_pass]
    failed += [
        (path, reason) for path, reason, passes in survey.sessions.listing.failures if passes
    ]
    return [f"{path!r} cannot be listed: {reason}" for path, reason in failed]


class RecentSyncs:
    """Newest first. Of uneventful syncs in a row with one reason only the newest is kept."""

    def __init__(self) -> None:
        self._reports: deque[SyncReport] = deque(maxlen=REMEMBERED)

    def __iter__(self) -> Iterator[SyncReport]:
        return iter(self._reports)

    def add(self, report: SyncReport) -> None:
        if self._reports and _is_repetition(self._reports[0], report):
            self._reports.popleft()
        self._reports.appendleft(report)


def _is_repetition(last: SyncReport, report: SyncReport) -> bool:
    return last.reason == report.reason and _is_uneventful(last) and _is_uneventful(report)


def _is_uneventful(report: SyncReport) -> bool:
    return report.complete and not (report.added or report.changed or report.removed)
