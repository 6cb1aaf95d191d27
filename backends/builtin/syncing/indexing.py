"""Bringing the index up to date with the disk, one file at a time.

Owns the way of a file from the disk into the index. Everything here blocks and runs in worker
threads; any number of threads may index at the same time, since each file is one transaction that
is dropped when the file has changed meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import apsw
import msgspec
import structlog

from backends.builtin.notes.outcome import Change, FileOutcome
from backends.builtin.notes.planning import IndexedFile, ObsoleteFile, SyncPlan, plan_sync
from backends.builtin.notes.preparing import EndedError, Preparer, TooCostlyError
from backends.builtin.notes.publishing import ReadFile, publish_file, remove_file, touch_file
from backends.builtin.sessions.indexing import SessionIndexer
from backends.builtin.sessions.planning import SessionPlan, TranscriptPart
from backends.builtin.storage.database import Database
from backends.builtin.syncing.brake import Brake
from backends.builtin.syncing.level import LevelMemory
from backends.errors import IndexUnavailableError
from backends.files.reading import (
    FileChanging,
    FileContent,
    FileGone,
    FileUnreadable,
    read_for_index,
)
from backends.files.roots import MemoryRoots
from backends.files.scan import FoundFile, ScanResult, scan, stamp
from backends.interface import SkippedFile
from config.settings import Source

_log = structlog.get_logger(__name__)


Task: TypeAlias = FoundFile | ObsoleteFile | TranscriptPart
_REMEMBERED_FAULTS: Final = 1_000
_REMEMBERING_PATIENCE_S: Final = 0.05
"""A search must not wait for it."""


class _Fault(NamedTuple):
    """What one file brought out, and in which state."""

    task: Task
    cause: str
    outcome: FileOutcome


class Survey(NamedTuple):
    """One look at disk and index together."""

    scan: ScanResult
    plan: SyncPlan
    sessions: SessionPlan = SessionPlan()


class Indexer:
    """Indexes the memory files of one agent into one database, and has `sessions` do the same."""

    def __init__(
        self,
        database: Database,
        roots: MemoryRoots,
        preparer: Preparer,
        sessions: SessionIndexer | None = None,
        transcripts: Path | None = None,
    ) -> None:
        """`transcripts`: the directory of the transcripts, where `sessions` has one."""
        self._database = database
        self._roots = roots
        self._preparer = preparer
        self.sessions = sessions
        self._level = LevelMemory()
        self._brake = Brake(roots, transcripts)
        self._faults: dict[str, _Fault] = {}
        """Of the files that brought out a fault of ours at their last attempt."""

    @property
    def generation(self) -> int:
        """Another one than before: the index was replaced by an empty one."""
        return self._database.generation

    def survey(self, *, force: bool = False, verify: bool = False, eager: bool = False) -> Survey:
        """Lists the disk, compares, reads no file. `force` and `verify`: see `SyncRequest`.

        `eager`: transcripts have no thresholds.
        """
        found = self.scan()
        sessions = self.sessions.survey(eager=eager, force=force) if self.sessions else None
        with self._database.reading() as connection:
            plan = self.compare(connection, found, force=force, verify=verify)
        if sessions is not None and self.sessions is not None and self.sessions.enabled:
            sessions, plan = self._hold_transcripts(sessions, plan, force=force)
        self._remember_devices(plan)
        return Survey(found, plan, sessions or SessionPlan())

    def _hold_transcripts(
        self, sessions: SessionPlan, plan: SyncPlan, *, force: bool
    ) -> tuple[SessionPlan, SyncPlan]:
        left = len(sessions.listing.files) - len(sessions.added)
        held = None if force else self._brake.hold_transcripts(sessions.to_remove, left)
        if held is None:
            return sessions, plan
        return (
            msgspec.structs.replace(sessions, to_remove=()),
            msgspec.structs.replace(plan, held=(*plan.held, held)),
        )

    def _remember_devices(self, plan: SyncPlan) -> None:
        devices = self._brake.unremembered(plan.held)
        if devices is None:
            return
        with (
            suppress(IndexUnavailableError),  # it is tried again
            self._database.writing(_REMEMBERING_PATIENCE_S) as connection,
        ):
            self._brake.remember(connection, devices)

    def out_of_reach(self, path: str) -> str | None:
        """Why a note that is not there may exist all the same: its place is away."""
        return self._brake.out_of_reach(self._roots.absolute(path.strip()))

    def gone(self, files: Collection[tuple[Source, str]]) -> frozenset[str]:
        """The paths of those that do not exist; one that cannot be looked at is not among them,
        nor one whose whole place is away.
        """
        return frozenset(path for source, path in files if self._is_gone(source, path))

    def _is_gone(self, source: Source, path: str) -> bool:
        if source == "sessions" and self.sessions:
            return self.sessions.is_gone(path)
        absolute = self._roots.absolute(path)
        return _is_absent(absolute) and not self._brake.out_of_reach(absolute)

    def scan(self) -> ScanResult:
        return scan(self._roots)

    def compare(
        self,
        connection: apsw.Connection,
        found: ScanResult,
        *,
        force: bool = False,
        verify: bool = False,
    ) -> SyncPlan:
        """What is to do, as of this transaction."""
        pipeline = self._preparer.pipeline
        every = force or verify
        if not every and self._level.holds(connection, found, pipeline):
            return SyncPlan.level(len(found.files))
        indexed = {
            row[0]: IndexedFile(*row[1:])
            for row in connection.execute(
                "SELECT path, size, mtime_ns, ctime_ns, inode, pipeline, read_at_ns"
                " FROM files WHERE source = 'memory'"
            )
        }
        plan = plan_sync(found, indexed, pipeline=pipeline, force=force, verify=verify)
        if not force:
            plan = self._brake.hold(connection, found, indexed, plan)
        if not every and not (plan.to_read or plan.to_remove or plan.held):
            self._level.keep(connection, found, pipeline)
        return plan

    def apply(
        self,
        task: Task,
        *,
        force: bool = False,
        patience_s: float | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> FileOutcome:
        """Makes the index hold one file as it is, or no longer hold it.

        Waits at most `patience_s` for the turn to write (None: for as long as that takes in this
        process). Raises IndexUnavailableError. A file that brings out a fault of ours stays as the index
        has it, with a reason: one such note must not keep all others from being found. Whoever is
        patient tries it again, others not before it changed. Nor is a note that is too costly.

        Ends early when it `is_wanted` no more.
        """
        known = self._faults.get(task.path)
        if known is not None and self.is_known(task, again=patience_s is None, force=force):
            return known.outcome
        try:
            outcome = self._apply(task, force=force, patience_s=patience_s, is_wanted=is_wanted)
        except IndexUnavailableError:
            raise
        except EndedError:
            return FileOutcome(Change.LATER)
        except TooCostlyError as error:
            return self._refused(task, str(error), patience_s)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the other files matter
            return self._faulted(task, fault)
        if known is not None:
            self._faults.pop(task.path, None)
        return outcome

    def is_known(self, task: Task, *, again: bool = False, force: bool = False) -> bool:
        """Whether `apply` will not try the task: it failed as the file is now.

        `again`: unless it may go better this time.
        """
        known = self._faults.get(task.path)
        if known is None or known.task != task or force:
            return False
        return not again or known.outcome.change is Change.SKIPPED

    def _refused(self, task: Task, reason: str, patience_s: float | None) -> FileOutcome:
        """Like a file that is too large: its rows go."""
        if isinstance(task, FoundFile):
            with self._database.writing(patience_s) as connection:
                remove_file(connection, task.source, task.path)
        outcome = FileOutcome(Change.SKIPPED, skipped=SkippedFile(path=task.path, reason=reason))
        self._remember(_Fault(task, reason, outcome))
        return outcome

    def _remember(self, fault: _Fault) -> None:
        if fault.task.path in self._faults or len(self._faults) < _REMEMBERED_FAULTS:
            self._faults[fault.task.path] = fault

    def _apply(
        self,
        task: Task,
        *,
        force: bool,
        patience_s: float | None,
        is_wanted: Callable[[], bool],
    ) -> FileOutcome:
        if isinstance(task, ObsoleteFile):
            return self._remove(task, force=force, patience_s=patience_s)
        if isinstance(task, TranscriptPart):
            assert self.sessions is not None
            return self.sessions.apply(task, patience_s)
        return self._index(task, force=force, patience_s=patience_s, is_wanted=is_wanted)

    def _faulted(self, task: Task, fault: Exception) -> FileOutcome:
        """Logs it once a file and cause: searches meet it again and again."""
        cause, known = f"{type(fault).__name__}: {str(fault)[:200]}", self._faults.get(task.path)
        if known is None or known.cause != cause:
            _log.error("file not indexed", path=task.path, exc_info=fault)
        kind = type(fault).__name__
        outcome = FileOutcome.unreadable(
            task.path,
            f"{task.path!r} brought out an internal fault while indexing ({kind}); please report it",
            may_pass=True,
        )
        self._remember(_Fault(task, cause, outcome))
        return outcome

    def _remove(
        self, obsolete: ObsoleteFile, *, force: bool, patience_s: float | None
    ) -> FileOutcome:
        if not force and obsolete.source == "memory" and self.out_of_reach(obsolete.path):
            return FileOutcome(Change.LATER)  # its place vanished since it was listed
        with self._database.writing(patience_s) as connection:
            removed = remove_file(
                connection, obsolete.source, obsolete.path, read_at_ns=obsolete.read_at_ns
            )
        return FileOutcome(Change.GONE if removed else Change.LATER)

    def _index(
        self,
        found: FoundFile,
        *,
        force: bool,
        patience_s: float | None,
        is_wanted: Callable[[], bool],
    ) -> FileOutcome:
        read_at_ns = time.time_ns()
        match read_for_index(self._roots, found):
            case FileContent() as content:
                read = ReadFile(_as_read(found, content), content.content_hash, read_at_ns)
                return self._index_content(
                    read, content.text, force=force, patience_s=patience_s, is_wanted=is_wanted
                )
            case FileGone():
                return self._forget(found, patience_s)
            case FileChanging():
                return FileOutcome(Change.LATER)
            case FileUnreadable(reason=reason, may_pass=may_pass):
                return FileOutcome.unreadable(found.path, reason, may_pass=may_pass)
            case SkippedFile() as skipped:
                return self._refused(found, skipped.reason, patience_s)

    def _forget(self, found: FoundFile, patience_s: float | None) -> FileOutcome:
        """Removes a file that vanished after it was listed, unless it is back by now."""
        with self._database.writing(patience_s) as connection:
            if not self._is_gone(found.source, found.path):
                return FileOutcome(Change.LATER)
            remove_file(connection, found.source, found.path)
        return FileOutcome(Change.GONE)

    def _index_content(
        self,
        read: ReadFile,
        text: str,
        *,
        force: bool,
        patience_s: float | None,
        is_wanted: Callable[[], bool],
    ) -> FileOutcome:
        size = read.found.size
        if not force and self._holds(read):
            with self._database.writing(patience_s) as connection:
                touch_file(connection, read)
            return FileOutcome(Change.SAME, bytes_read=size)
        prepared = self._preparer.prepare(read.found.path, text, is_wanted=is_wanted)
        with self._database.writing(patience_s) as connection:
            if not self._is_current(read.found):
                return FileOutcome(Change.LATER, bytes_read=size)
            written = publish_file(
                connection, read, self._preparer.pipeline, prepared, is_wanted=is_wanted
            )
        return FileOutcome(Change.WRITTEN, written, size)

    def _holds(self, read: ReadFile) -> bool:
        found = read.found
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT 1 FROM files WHERE source = ? AND path = ? AND content_hash = ?"
                " AND pipeline = ?",
                (found.source, found.path, read.content_hash, self._preparer.pipeline),
            ).fetchone()
        return row is not None

    def _is_current(self, found: FoundFile) -> bool:
        """Whether the disk still holds what was read: nothing outdated may be published."""
        try:
            status = os.lstat(self._roots.absolute(found.path))
        except OSError:
            return False
        stamps = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        return status.st_size == found.size and tuple(map(stamp, stamps)) == (
            found.inode,
            found.mtime_ns,
            found.ctime_ns,
        )


def _is_absent(absolute: str) -> bool:
    try:
        os.lstat(absolute)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def _as_read(found: FoundFile, content: FileContent) -> FoundFile:
    """The file with the stamps that belong to the content, not those of its listing."""
    return msgspec.structs.replace(
        found,
        size=content.size,
        mtime_ns=content.mtime_ns,
        ctime_ns=content.ctime_ns,
        inode=content.inode,
        device=content.device,
    )
