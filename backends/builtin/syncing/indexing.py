"""Bringing the index level with the disk, one file at a time, with counts; searches come first."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from backends.builtin.store.opening import look_into
from backends.builtin.store.port import (
    ARRIVAL_MS,
    OvertakenError,
    PreparedFile,
    ReadFile,
    Store,
    View,
    Writer,
    now_ms,
)
from backends.builtin.syncing.brake import Brake
from backends.builtin.syncing.helper import MOST_BYTES, Helper
from backends.builtin.syncing.planning import (
    Change,
    FileOutcome,
    Held,
    ObsoleteFile,
    SyncPlan,
    plan_sync,
)
from backends.builtin.syncing.preparing import EndedError, Preparer, TooCostlyError
from backends.builtin.syncing.sessions import (
    SessionIndexer,
    SessionPlan,
    TranscriptPart,
    skipped_transcripts,
)
from backends.errors import IndexUnavailableError
from backends.files.ignoring import IgnoreFiles
from backends.files.reading import (
    FileChanging,
    FileContent,
    FileGone,
    FileUnreadable,
    read_for_index,
)
from backends.files.roots import MemoryRoots
from backends.files.scan import FoundFile, ScanResult, scan, stamp
from backends.interface import SkippedFile, SyncProgress, SyncReport, SyncRequest
from config.runtime.logs import Log
from config.settings import Settings, Source


class _Level(msgspec.Struct, frozen=True):
    """One state of the disk, and which states of the index were level with it."""

    found: ScanResult
    pipeline: str
    versions: dict[int, int] = msgspec.field(default_factory=dict)
    """By reader."""


_MOST_READERS: Final = 64
"""The most readers whose versions are remembered, including those that were closed since."""


class LevelMemory:
    """The last state of the disk that was level with some state of the index. For any thread."""

    def __init__(self) -> None:
        self._level: _Level | None = None

    def holds(self, view: View, found: ScanResult, pipeline: str) -> bool:
        """Whether a comparison in this view would have nothing to do."""
        level, version = self._level, view.version()
        return (
            level is not None
            and level.versions.get(version.reader) == version.number
            and (level.pipeline, level.found) == (pipeline, found)
        )

    def keep(self, view: View, found: ScanResult, pipeline: str) -> None:
        """A comparison in this view had nothing to do."""
        level, version = self._level, view.version()
        is_other = level is None or (level.pipeline, level.found) != (pipeline, found)
        if level is None or is_other or len(level.versions) >= _MOST_READERS:
            self._level = level = _Level(found, pipeline)
        level.versions[version.reader] = version.number


_log = Log()


Task: TypeAlias = FoundFile | ObsoleteFile | TranscriptPart
_REMEMBERED_FAULTS: Final = 1_000
_TOGETHER_BYTES: Final = 64 * 1024
"""Of small files in one transaction: a commit costs as much as some kilobytes of text."""
_GROUPS_AHEAD: Final = 2
"""That the helper has while one is published: it never waits for the next."""
_ATTEMPTS: Final = 3
"""At a file that other gateways publish at the same time."""
_REMEMBERING_PATIENCE_S: Final = 0.05
"""A search must not wait for it."""


class _Fault(msgspec.Struct, frozen=True):
    """What one file brought out, and in which state."""

    task: Task
    cause: str
    outcome: FileOutcome


class _Ready(msgspec.Struct, frozen=True, gc=False):
    """A file that has been read and only has to be published."""

    read: ReadFile
    prepared: PreparedFile | None = None
    """None: the index holds it as it is, but for its stamps."""


class _Text(msgspec.Struct, frozen=True, gc=False):
    """A file that has been read and is not prepared yet."""

    read: ReadFile
    text: str


class Group(msgspec.Struct, frozen=True):
    """Tasks that are worked off together."""

    tasks: Sequence[Task]
    ready: dict[str, _Ready] = {}
    """What is ready of them already, by path."""
    sent: list[ReadFile] = []
    """The notes among them that a helper prepares."""


class Survey(msgspec.Struct, frozen=True, gc=False):
    """One look at disk and index together."""

    scan: ScanResult
    plan: SyncPlan
    sessions: SessionPlan = SessionPlan()


class Indexer:
    """Indexes the memory files of one agent into one store, and has `sessions` do the same."""

    def __init__(
        self,
        store: Store,
        roots: MemoryRoots,
        preparer: Preparer,
        sessions: SessionIndexer | None = None,
        transcripts: Path | None = None,
    ) -> None:
        """`transcripts`: the directory of the transcripts, where `sessions` has one."""
        self._store = store
        self._roots = roots
        self.preparer = preparer
        self.sessions = sessions
        self._level = LevelMemory()
        self._ignoring = IgnoreFiles()
        self._brake = Brake(roots, transcripts)
        self._here_until_ms = 0
        """Until then it need not be said again that this viewpoint is in use."""
        self._faults: dict[str, _Fault] = {}
        """By path, the files that brought out a fault of ours at their last attempt."""

    @property
    def generation(self) -> int:
        """Another one than before: the index was replaced by an empty one."""
        return self._store.generation

    def survey(self, *, force: bool = False, verify: bool = False, eager: bool = False) -> Survey:
        """Lists the disk, compares, reads no file. `force` and `verify`: see `SyncRequest`.

        `eager`: transcripts have no thresholds.
        """
        found = self.scan()
        self._arrive(found)
        sessions = self.sessions.survey(eager=eager, force=force) if self.sessions else None
        with self._store.view() as view:
            plan = self.compare(view, found, force=force, verify=verify)
        if sessions is not None and self.sessions is not None and self.sessions.enabled:
            sessions, plan = self._hold_transcripts(sessions, plan, force=force)
        self._remember_places(plan, None if force else _REMEMBERING_PATIENCE_S)
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

    def _remember_places(self, plan: SyncPlan, patience_s: float | None) -> None:
        rows = self._brake.unremembered(plan.held)
        if not rows:
            return
        with (
            suppress(IndexUnavailableError),  # it is tried again
            self._store.writer(patience_s) as writer,
        ):
            self._brake.remember(writer, rows)

    def _arrive(self, found: ScanResult) -> None:
        """Says, now and then, that this viewpoint is in use. One that is new may know the disk under another name."""
        now = now_ms()
        if now < self._here_until_ms:
            return
        with self._store.view() as view:
            viewpoints = view.viewpoints()
        said = [one.used_at_ms for one in viewpoints if one.is_here]
        self._here_until_ms = max(said, default=0) + ARRIVAL_MS
        if now < self._here_until_ms:
            return
        patience_s = _REMEMBERING_PATIENCE_S if said else None
        with (
            suppress(IndexUnavailableError),  # it is tried again
            self._store.writer(patience_s) as writer,
        ):
            if viewpoints and not said:
                self._adopt(writer, found)
            writer.arrive()
            self._here_until_ms = now + ARRIVAL_MS

    def _adopt(self, writer: Writer, found: ScanResult) -> None:
        """A renamed host, or another one with the same mount, reads nothing again and knows what was deleted."""
        files = writer.files
        for seen, paths in self._brake.by_place(found, files.indexed()):
            if twin := files.twin("memory", seen):
                files.adopt(twin, "memory", paths)
        if self.sessions and (twin := files.twin("sessions", self.sessions.listing().files)):
            files.adopt(twin, "sessions", tuple(writer.transcripts.indexed()))

    def missing(self, view: View) -> tuple[Held, ...]:
        """The places that the index knows and that are away, without a look at their files."""
        return self._brake.missing(view)

    def out_of_reach(self, path: str) -> str | None:
        """Why a note that is not there may exist all the same: its place is away."""
        return self._brake.out_of_reach(self._roots.absolute(path.strip()))

    def gone(self, files: Collection[tuple[Source, str]]) -> frozenset[str]:
        """The paths of those that do not exist; one that cannot be looked at is not among them,
        nor one whose whole place is away, nor one that only other hosts saw.
        """
        gone = [one for one in files if self._is_gone(*one)]
        if not gone:
            return frozenset()
        with self._store.view() as view:
            return frozenset(path for _, path in view.files.seen(gone))

    def _is_gone(self, source: Source, path: str) -> bool:
        if source == "sessions" and self.sessions:
            return self.sessions.is_gone(path)
        absolute = self._roots.absolute(path)
        return _is_absent(absolute) and not self._brake.out_of_reach(absolute)

    def scan(self, *, counting: bool = False) -> ScanResult:
        return scan(self._roots, ignoring=self._ignoring, counting=counting)

    def compare(
        self,
        view: View,
        found: ScanResult,
        *,
        force: bool = False,
        verify: bool = False,
    ) -> SyncPlan:
        """What is to do, as of this transaction."""
        pipeline = self.preparer.notes_pipeline
        every = force or verify
        if not every and self._level.holds(view, found, pipeline):
            self._brake.miss_nothing()
            return SyncPlan.level(len(found.files))
        indexed = view.files.indexed()
        plan = plan_sync(found, indexed, pipeline=pipeline, force=force, verify=verify)
        plan = self._brake.hold(view, found, indexed, plan, force=force)
        if not every and not (plan.to_read or plan.to_remove or plan.held):
            self._level.keep(view, found, pipeline)
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

    def apply_together(
        self, group: Group, *, force: bool, is_wanted: Callable[[], bool]
    ) -> list[FileOutcome]:
        """As `apply` to one after the other, with patience, but published in one transaction if all goes well."""
        tasks = group.tasks
        files = [one for one in tasks if isinstance(one, FoundFile)]
        if (
            len(tasks) == len(files)
            and (len(tasks) > 1 or group.ready)
            and self._faults.keys().isdisjoint(one.path for one in files)
        ):
            try:
                ready = [
                    group.ready.get(one.path)
                    or self._get_ready(one, force=force, patience_s=None, is_wanted=is_wanted)
                    for one in files
                ]
                return self._publish(ready, patience_s=None, is_wanted=is_wanted)
            except IndexUnavailableError:
                raise
            except Exception as fault:  # noqa: BLE001 - which of them it is shows one by one
                _log.debug("files indexed one by one", files=len(files), cause=repr(fault))
        return [self.apply(one, force=force, is_wanted=is_wanted) for one in tasks]

    def grouped(self, tasks: Sequence[Task]) -> Iterator[Group]:
        """The tasks in their order, as many at once as `apply_together` should get.

        On a shared store each for itself: whoever is overtaken at one file does not do others again.
        """
        group: list[Task] = []
        left = _TOGETHER_BYTES
        for task in tasks:
            size = task.size if isinstance(task, FoundFile) else _TOGETHER_BYTES
            if group and (size > left or self._store.is_shared):
                yield Group(group)
                group, left = [], _TOGETHER_BYTES
            group.append(task)
            left -= size
        if group:
            yield Group(group)

    def ahead(self, groups: Iterator[Group], helper: Helper, *, force: bool) -> Iterator[Group]:
        """The groups, with what the helper prepares of them while others are published."""
        waiting: deque[Group] = deque()
        for group in groups:
            self._send(group, helper, force=force)
            waiting.append(group)
            if len(waiting) > _GROUPS_AHEAD:
                yield self._received(waiting.popleft(), helper)
        while waiting:
            yield self._received(waiting.popleft(), helper)

    def _send(self, group: Group, helper: Helper, *, force: bool) -> None:
        """Reads the notes and sends the content that the index does not hold. What is odd waits for the group's turn."""
        files = [one for one in group.tasks if isinstance(one, FoundFile)]
        if not self._faults.keys().isdisjoint(one.path for one in files):
            return
        notes = []
        for found in (one for one in files if one.size <= MOST_BYTES):
            self.preparer.give_way()
            with suppress(Exception):  # it is come upon again, and told
                match self._read(found):
                    case _Text(read) if not force and self._holds(read):
                        group.ready[found.path] = _Ready(read)
                    case _Text(read, text):
                        group.sent.append(read)
                        notes.append((found.path, text))
        if notes:
            helper.send(notes)

    def _received(self, group: Group, helper: Helper) -> Group:
        if group.sent:
            for read, rows in zip(group.sent, helper.receive(len(group.sent)), strict=True):
                if rows is not None:
                    group.ready[read.found.path] = _Ready(read, rows)
            self.preparer.give_way()
        return group

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
            with self._store.writer(patience_s) as writer:
                writer.files.remove(task.source, task.path)
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
        for _ in range(_ATTEMPTS):
            with suppress(OvertakenError):
                ready = self._get_ready(
                    task, force=force, patience_s=patience_s, is_wanted=is_wanted
                )
                return self._publish([ready], patience_s=patience_s, is_wanted=is_wanted)[0]
        return FileOutcome(Change.LATER)

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
        with self._store.writer(patience_s) as writer:
            removed = writer.files.remove(
                obsolete.source, obsolete.path, read_at_ns=obsolete.read_at_ns
            )
        return FileOutcome(Change.GONE if removed else Change.LATER)

    def _get_ready(
        self,
        found: FoundFile,
        *,
        force: bool,
        patience_s: float | None,
        is_wanted: Callable[[], bool],
    ) -> _Ready | FileOutcome:
        match self._read(found):
            case _Text(read, text):
                if not force and self._holds(read):
                    return _Ready(read)
                path = read.found.path
                return _Ready(read, self.preparer.prepare(path, text, is_wanted=is_wanted))
            case FileGone():
                return self._forget(found, patience_s)
            case FileChanging():
                return FileOutcome(Change.LATER)
            case FileUnreadable(reason=reason, may_pass=may_pass):
                return FileOutcome.unreadable(found.path, reason, may_pass=may_pass)
            case SkippedFile() as skipped:
                return self._refused(found, skipped.reason, patience_s)

    def _read(
        self, found: FoundFile
    ) -> _Text | FileGone | FileChanging | FileUnreadable | SkippedFile:
        revision = self._revision(found)
        read_at_ns = time.time_ns()
        content = read_for_index(self._roots, found)
        if not isinstance(content, FileContent):
            return content
        seen, mark = _as_read(found, content), content.content_hash
        return _Text(ReadFile(seen, mark, read_at_ns, content.encoding, revision), content.text)

    def _forget(self, found: FoundFile, patience_s: float | None) -> FileOutcome:
        """Removes a file that vanished after it was listed, unless it is back by now."""
        with self._store.writer(patience_s) as writer:
            if not self._is_gone(found.source, found.path):
                return FileOutcome(Change.LATER)
            writer.files.remove(found.source, found.path)
        return FileOutcome(Change.GONE)

    def _publish(
        self,
        ready: Sequence[_Ready | FileOutcome],
        *,
        patience_s: float | None,
        is_wanted: Callable[[], bool],
    ) -> list[FileOutcome]:
        """In one transaction; what is an outcome already stays what it is."""

        def tick() -> None:
            if not is_wanted():
                raise EndedError

        if all(isinstance(one, FileOutcome) for one in ready):
            return [one for one in ready if isinstance(one, FileOutcome)]
        with self._store.writer(patience_s) as writer:
            return [
                self._publish_one(writer, one, tick) if isinstance(one, _Ready) else one
                for one in ready
            ]

    def _publish_one(self, writer: Writer, ready: _Ready, tick: Callable[[], None]) -> FileOutcome:
        read, size = ready.read, ready.read.found.size
        if ready.prepared is None:
            writer.files.touch(read)
            return FileOutcome(Change.SAME, bytes_read=size)
        if not self._is_current(read.found):
            return FileOutcome(Change.LATER, bytes_read=size)
        pipeline = self.preparer.notes_pipeline
        written = writer.files.publish(read, pipeline, ready.prepared, tick=tick)
        return FileOutcome(Change.WRITTEN, written, size)

    def _revision(self, found: FoundFile) -> int | None:
        """Of what is indexed of the file, where others write to the index, too."""
        if not self._store.is_shared:
            return None
        with self._store.view() as view:
            return view.files.revision(found.source, found.path)

    def _holds(self, read: ReadFile) -> bool:
        found, pipeline = read.found, self.preparer.notes_pipeline
        with self._store.view() as view:
            return view.files.holds(found.source, found.path, read.content_hash, pipeline)

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


def missing_notes(settings: Settings) -> tuple[Held, ...]:
    """What an index of ours holds whose place is away, for those who only look.

    Blocks. Raises IndexUnavailableError and what a scan raises.
    """
    roots = MemoryRoots.of(settings)
    found = scan(roots, ignoring=IgnoreFiles())
    with look_into(settings) as view:
        indexed = view.files.indexed()
        plan = plan_sync(found, indexed, pipeline="")
        return Brake(roots).hold(view, found, indexed, plan).held


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


LONGEST_PAUSE_S: Final = 0.25
"""The longest single pause that indexing makes for the sake of searches."""


class SearchPriority:
    """Lets searches of one index go before its indexing: Python runs one thread at a time, and a search that
    passes from thread to thread would wait for its turn at every step.
    """

    def __init__(self) -> None:
        self._searches = 0
        self._none = threading.Event()
        self._none.set()
        self._worker = 0
        """The thread that indexes for a sync; what a search indexes for itself gives way to nobody."""
        self._rested_until = 0.0

    @contextmanager
    def yielding(self) -> Iterator[None]:
        """Around the work of a sync, in its thread."""
        self._worker = threading.get_ident()
        try:
            yield
        finally:
            self._worker = 0

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Around what a search computes, on the event loop; not around what it waits for."""
        self._searches += 1
        self._none.clear()
        try:
            yield
        finally:
            self._searches -= 1
            if not self._searches:
                self._none.set()

    def give_way(self) -> None:
        """Waits while anybody searches, but no longer than was worked since the last time: the index must
        get level. Blocking; not to be called with a lock of the database, which the search may need.
        """
        if self._none.is_set() or threading.get_ident() != self._worker:
            return
        worked_s = time.perf_counter() - self._rested_until
        self._none.wait(min(worked_s, LONGEST_PAUSE_S))
        self._rested_until = time.perf_counter()


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


class Tally:
    """Counts while a sync runs; it may end at any file, and even before its survey."""

    def __init__(self) -> None:
        self.tasks: tuple[Task, ...] = ()
        """What there is to do, removals first: they are cheap."""
        self.pending: set[str] = set()
        """Files that are known to differ and were not looked at so far."""
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
        self._bytes_total = sum(task.size for task in reading)
        self._scanned = len(survey.scan.files) + len(sessions.listing.files)
        self._skipped = (*skipped_by(survey.scan), *skipped_transcripts(sessions))
        self._unchanged = plan.unchanged + sessions.unchanged
        self._new = plan.added | sessions.added
        self.unlisted = len(survey.scan.failed_dirs)
        self.held = survey.plan.held
        self.unread = [*(one.reason for one in self.held), *unread_by(survey), *self.unread]
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
            error=error or "; ".join(one.reason for one in self.held) or None,
        )


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


REMEMBERED: Final = 10


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
