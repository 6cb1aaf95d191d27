"""From the disk into the index, file by file: read, prepared, and published in one transaction if still unchanged."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from backends.builtin.store.port import (
    IndexedFile,
    OvertakenError,
    PreparedFile,
    ReadFile,
    Store,
    TooLargeError,
    Writer,
)
from backends.builtin.syncing.helper import MOST_BYTES, Helper
from backends.builtin.syncing.planning import Change, FileOutcome, ObsoleteFile
from backends.builtin.syncing.preparing import EndedError, Preparer, TooCostlyError
from backends.builtin.syncing.sessions import TranscriptPart
from backends.builtin.syncing.surveying import Surveyor
from backends.files.reading import (
    FileChanging,
    FileContent,
    FileGone,
    FileUnreadable,
    has_more,
    read_for_index,
)
from backends.files.scan import FoundFile, stamp
from backends.interface import IndexUnavailableError, SkippedFile
from config.runtime.logs import Log

Task: TypeAlias = FoundFile | ObsoleteFile | TranscriptPart

_log = Log()

_REMEMBERED_FAULTS: Final = 1_000
_TOGETHER_BYTES: Final = 64 * 1024
"""The bytes of small files in one transaction: a commit costs as much as some kilobytes of text."""
_GROUPS_AHEAD: Final = 2
"""The groups that the helper has while one is published, so that it never waits for the next."""
_ATTEMPTS: Final = 3
"""The attempts at a file that others publish at the same time."""


class TaskOptions(msgspec.Struct, frozen=True, gc=False):
    """Options of a task."""

    force: bool = False
    """Files that seem unchanged are indexed again, too."""
    patience_s: float | None = None
    """The longest wait for the turn to write; None: as long as that takes in this process."""
    is_wanted: Callable[[], bool] = lambda: True
    """Work ends early once this returns False."""


_PATIENT: Final = TaskOptions()


class _Fault(msgspec.Struct, frozen=True):
    """The fault that one file caused, and the state that the file was in."""

    task: Task
    cause: str
    outcome: FileOutcome


class _Ready(msgspec.Struct, frozen=True, gc=False):
    """A file that has been read and only has to be published."""

    read: ReadFile
    prepared: PreparedFile | None = None
    """None: the index already holds this content; only the stamps differ."""


class _Text(msgspec.Struct, frozen=True, gc=False):
    """A file that has been read and is not prepared yet."""

    read: ReadFile
    text: str


class Group(msgspec.Struct, frozen=True):
    """Tasks that are done together, with those results that are ready already, by path."""

    tasks: Sequence[Task]
    ready: Mapping[str, _Ready] = {}


class _Sent(msgspec.Struct, frozen=True):
    """A group whose notes a helper prepares."""

    group: Group
    notes: Sequence[ReadFile]


class Indexer:
    """Brings one store up to date with the memory files of one agent on the disk."""

    def __init__(self, store: Store, surveyor: Surveyor, preparer: Preparer) -> None:
        self._store = store
        self.surveyor = surveyor
        self.preparer = preparer
        self._faults: dict[str, _Fault] = {}
        """The files that caused an internal fault at their last attempt, by path."""

    def apply(self, task: Task, *, options: TaskOptions = _PATIENT) -> FileOutcome:
        """Indexes one file as it is now, or removes it from the index. Raises IndexUnavailableError.

        A file that causes an internal fault stays as the index has it, with a reason: one such note must not keep all
        others from being found. A patient caller tries it again; others only once it has changed. A note that is too
        costly is removed, and tried again only once it has changed or by force.
        """
        known = self._faults.get(task.path)
        if known is not None and self.is_known(task, options):
            return known.outcome
        try:
            outcome = self._apply(task, options)
        except IndexUnavailableError:
            raise
        except EndedError:
            return FileOutcome(Change.LATER)
        except (TooCostlyError, TooLargeError) as error:
            return self._refused(task, str(error), options)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the other files matter
            return self._faulted(task, fault)
        if known is not None:
            self._faults.pop(task.path, None)
        return outcome

    def apply_together(self, group: Group, *, options: TaskOptions) -> list[FileOutcome]:
        """Does what a patient `apply` does to each of them, but in one transaction if all goes well."""
        tasks = group.tasks
        files = [one for one in tasks if isinstance(one, FoundFile)]
        are_files = len(tasks) == len(files) and (len(tasks) > 1 or group.ready)
        if are_files and self._faults.keys().isdisjoint(one.path for one in files):
            try:
                known = group.ready
                ready = [known.get(one.path) or self._get_ready(one, options) for one in files]
                return self._publish(ready, options)
            except IndexUnavailableError:
                raise
            except Exception as fault:  # noqa: BLE001 - the attempts one by one show which of them it is
                _log.debug("files indexed one by one", files=len(files), cause=repr(fault))
        return [self.apply(one, options=options) for one in tasks]

    def grouped(self, tasks: Sequence[Task]) -> Iterator[Group]:
        """Yields the tasks in their order, in groups of the size that `apply_together` should get.

        On a shared store each is a group of its own: if another host is faster with one file, no others are repeated.
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
        """Yields the groups with the notes that the helper prepares while other groups are published."""
        waiting: deque[_Sent] = deque()
        for group in groups:
            waiting.append(self._send(group, helper, force=force))
            if len(waiting) > _GROUPS_AHEAD:
                yield self._receive(waiting.popleft(), helper)
        while waiting:
            yield self._receive(waiting.popleft(), helper)

    def _send(self, group: Group, helper: Helper, *, force: bool) -> _Sent:
        """Reads the notes and sends the helper what the index lacks. Errors are left to the group's turn."""
        files = [one for one in group.tasks if isinstance(one, FoundFile)]
        if not self._faults.keys().isdisjoint(one.path for one in files):
            return _Sent(group, ())
        ready: dict[str, _Ready] = {}
        sent: list[ReadFile] = []
        texts: list[tuple[str, str]] = []
        for found in (one for one in files if one.size <= MOST_BYTES):
            self.preparer.give_way()
            with suppress(Exception):  # it is raised again at the group's turn
                match self._read(found):
                    case _Text(read) if not force and self._holds(read):
                        ready[found.path] = _Ready(read)
                    case _Text(read, text):
                        sent.append(read)
                        texts.append((found.path, text))
        if texts:
            helper.send(texts)
        return _Sent(Group(group.tasks, ready), sent)

    def _receive(self, sent: _Sent, helper: Helper) -> Group:
        if not sent.notes:
            return sent.group
        prepared = zip(sent.notes, helper.receive(len(sent.notes)), strict=True)
        ready = {read.found.path: _Ready(read, rows) for read, rows in prepared if rows is not None}
        self.preparer.give_way()
        return Group(sent.group.tasks, {**sent.group.ready, **ready})

    def is_known(self, task: Task, options: TaskOptions) -> bool:
        """Returns whether `apply` skips the task: it failed for the file as it is now, and is not tried again."""
        known = self._faults.get(task.path)
        if known is None or known.task != task or options.force:
            return False
        return options.patience_s is not None or known.outcome.change is Change.SKIPPED

    def _refused(self, task: Task, reason: str, options: TaskOptions) -> FileOutcome:
        """Removes the rows of a file that is skipped, and remembers why."""
        if isinstance(task, FoundFile):
            with self._store.writer(options.patience_s) as writer:
                # A search may have indexed its present content.
                if not self._is_on_disk(task.path, task):
                    return FileOutcome(Change.LATER)
                writer.files.remove(task.source, task.path)
        outcome = FileOutcome(Change.SKIPPED, skipped=SkippedFile(path=task.path, reason=reason))
        self._remember(_Fault(task, reason, outcome))
        return outcome

    def _remember(self, fault: _Fault) -> None:
        if fault.task.path in self._faults or len(self._faults) < _REMEMBERED_FAULTS:
            self._faults[fault.task.path] = fault

    def _apply(self, task: Task, options: TaskOptions) -> FileOutcome:
        if isinstance(task, ObsoleteFile):
            return self._remove(task, options)
        for _ in range(_ATTEMPTS):
            with suppress(OvertakenError):
                if isinstance(task, TranscriptPart):
                    assert self.surveyor.sessions is not None
                    return self.surveyor.sessions.apply(task, options.patience_s)
                return self._publish([self._get_ready(task, options)], options)[0]
        return FileOutcome(Change.LATER)

    def _faulted(self, task: Task, fault: Exception) -> FileOutcome:
        """Logs it once for each file and cause: searches meet it again and again."""
        cause, known = f"{type(fault).__name__}: {str(fault)[:200]}", self._faults.get(task.path)
        if known is None or known.cause != cause:
            _log.error("file not indexed", path=task.path, exc_info=fault)
        kind = type(fault).__name__
        reason = (
            f"{task.path!r} brought out an internal fault while indexing ({kind}); please report it"
        )
        outcome = FileOutcome.unreadable(task.path, reason, may_pass=True)
        self._remember(_Fault(task, cause, outcome))
        return outcome

    def _remove(self, obsolete: ObsoleteFile, options: TaskOptions) -> FileOutcome:
        is_note = obsolete.source == "memory"
        if is_note and not options.force and self.surveyor.out_of_reach(obsolete.path):
            return FileOutcome(Change.LATER)  # its place vanished since it was listed
        file = (obsolete.source, obsolete.path)
        with self._store.writer(options.patience_s) as writer:
            is_gone = writer.files.remove(*file, read_at_ns=obsolete.read_at_ns)
            is_gone = is_gone or not writer.files.seen([file])  # a search has removed it already
        return FileOutcome(Change.GONE if is_gone else Change.LATER)

    def _get_ready(self, found: FoundFile, options: TaskOptions) -> _Ready | FileOutcome:
        """Reads and prepares a note. One that vanished or is skipped is removed from the index at once; its outcome is
        returned, as is that of one that could not be read.
        """
        match self._read(found):
            case _Text(read, text):
                if not options.force and self._holds(read):
                    return _Ready(read)
                path, is_wanted = read.found.path, options.is_wanted
                return _Ready(read, self.preparer.prepare(path, text, is_wanted=is_wanted))
            case FileGone():
                return self._forget(found, options)
            case FileChanging():
                return FileOutcome(Change.LATER)
            case FileUnreadable(reason=reason, may_pass=may_pass):
                return FileOutcome.unreadable(found.path, reason, may_pass=may_pass)
            case SkippedFile() as skipped:
                return self._refused(found, skipped.reason, options)

    def _read(
        self, found: FoundFile
    ) -> _Text | FileGone | FileChanging | FileUnreadable | SkippedFile:
        revision = self._revision(found)
        read_at_ns = time.time_ns()
        content = read_for_index(self.surveyor.roots, found)
        if not isinstance(content, FileContent):
            return content
        mark, encoding = content.content_hash, content.encoding
        return _Text(ReadFile(content.found, mark, read_at_ns, encoding, revision), content.text)

    def _forget(self, found: FoundFile, options: TaskOptions) -> FileOutcome:
        """Removes a file that vanished after it was listed, unless it is back by now."""
        with self._store.writer(options.patience_s) as writer:
            if not self.surveyor.is_gone(found.source, found.path):
                return FileOutcome(Change.LATER)
            writer.files.remove(found.source, found.path)
        return FileOutcome(Change.GONE)

    def _publish(
        self, ready: Sequence[_Ready | FileOutcome], options: TaskOptions
    ) -> list[FileOutcome]:
        """Publishes in one transaction; outcomes among `ready` are returned as they are."""

        def tick() -> None:
            if not options.is_wanted():
                raise EndedError
            self.preparer.last_step = time.monotonic()

        if all(isinstance(one, FileOutcome) for one in ready):
            return [one for one in ready if isinstance(one, FileOutcome)]
        forced = [one.read for one in ready if options.force and isinstance(one, _Ready)]
        same = {read.found.path for read in forced if self._holds(read)}
        with self._store.writer(options.patience_s) as writer:
            return [
                self._publish_one(writer, one, tick, same) if isinstance(one, _Ready) else one
                for one in ready
            ]

    def _publish_one(
        self, writer: Writer, ready: _Ready, tick: Callable[[], None], same: Collection[str]
    ) -> FileOutcome:
        """Publishes one file. `same`: the paths whose content the index has already, which are written by force."""
        read, pipeline = ready.read, self.preparer.notes_pipeline
        path, size = read.found.path, read.found.size
        if ready.prepared is None:
            writer.files.touch(read)
            return FileOutcome(Change.SAME, bytes_read=size)
        # Only what is there may be published, or the beginning of a log that never rests.
        if has_grown := not self._is_on_disk(path, read.found):
            known = writer.files.indexed().get(path)
            if known and known.pipeline == pipeline and self._is_on_disk(path, known):
                return FileOutcome(Change.SAME, bytes_read=size)  # a search was faster
            is_less = known and known.size > size  # an editor saves in place
            if is_less or not has_more(self.surveyor.roots, read.found, read.content_hash):
                return FileOutcome(Change.LATER, bytes_read=size)
        written = writer.files.publish(read, pipeline, ready.prepared, tick=tick)
        change = Change.SAME if path in same else Change.WRITTEN
        return FileOutcome(Change.LATER if has_grown else change, written, size)

    def _revision(self, found: FoundFile) -> int | None:
        """Returns the revision of the indexed file; None if no other host writes to the index."""
        if not self._store.is_shared:
            return None
        with self._store.view() as view:
            return view.files.revision(found.source, found.path)

    def _holds(self, read: ReadFile) -> bool:
        found, pipeline = read.found, self.preparer.notes_pipeline
        with self._store.view() as view:
            return view.files.holds(found.source, found.path, read.content_hash, pipeline)

    def _is_on_disk(self, path: str, known: FoundFile | IndexedFile) -> bool:
        try:
            status = os.lstat(self.surveyor.roots.absolute(path))
        except OSError:
            return False
        now = map(stamp, (status.st_ino, status.st_mtime_ns, status.st_ctime_ns))
        return [status.st_size, *now] == [known.size, known.inode, known.mtime_ns, known.ctime_ns]
