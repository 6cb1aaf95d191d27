"""The index file from outside: recognising it, making it, setting a damaged one aside, inspecting it.

A file that is not ours is never changed.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import msgspec

from backends.builtin.store.port import SCRUB_LIMIT_S
from backends.builtin.store.sqlite import schema
from backends.builtin.store.sqlite.connections import (
    PATIENCE_S,
    index_unavailable,
    is_damage,
    milliseconds,
    open_checked,
    reserve_checksums,
    set_journal,
)
from backends.builtin.store.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION, is_complete
from config.paths import INDEX_MARK, is_present
from config.runtime.files import descriptor_of, give_to_owner, lock_within, make_directories
from config.runtime.logs import Log

_log = Log()

_PAGE_BYTES: Final = 8192
"""The row of a chunk has some 2.3 kB: on pages of SQLite's own 4 kB a third of their space stays empty."""
_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100
_USER_VERSION_AT: Final = 60
_APPLICATION_ID_AT: Final = 68


class FileVerdict(StrEnum):
    ABSENT = "absent"
    """No file, or an empty one: free to use."""
    OURS = "ours"
    OURS_OLDER = "older"
    """Made by an earlier release: it keeps its vectors, and everything else is filled again."""
    OURS_NEWER = "newer"
    """Made by a later release: left alone."""
    FOREIGN = "foreign"
    """Not an index of this program, or not even a file: left alone."""


def judge(path: Path) -> FileVerdict:
    """Returns what kind of file is at `path`. Raises OSError when it cannot be read."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for its other end
            return FileVerdict.FOREIGN
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        with open_raw(path) as file:
            header = file.xRead(min(_HEADER_BYTES, status.st_size), 0)
    except FileNotFoundError:
        return FileVerdict.ABSENT
    except apsw.Error as error:
        if not is_present(path):
            return FileVerdict.ABSENT
        raise OSError(errno.EIO, str(error), str(path)) from error
    if not header:
        return FileVerdict.ABSENT
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        return FileVerdict.FOREIGN
    (application_id,) = struct.unpack_from(">I", header, _APPLICATION_ID_AT)
    (version,) = struct.unpack_from(">I", header, _USER_VERSION_AT)
    if application_id != APPLICATION_ID:
        return FileVerdict.FOREIGN
    if version == SCHEMA_VERSION:
        return FileVerdict.OURS
    return FileVerdict.OURS_NEWER if version > SCHEMA_VERSION else FileVerdict.OURS_OLDER


def choose_path(wanted: Path) -> tuple[Path, FileVerdict, tuple[str, ...]]:
    """Returns the first usable path among `wanted` and its siblings, its verdict, and notes for `status`.

    A sibling has `.memory-gateway` before its suffix (`main.memory-gateway.sqlite`), the next ones also
    a number; if `wanted` has the mark already, all siblings have numbers. Raises OSError.
    """
    notes: list[str] = []
    path = wanted
    stem = wanted.stem.removesuffix(INDEX_MARK)
    number = 1 if stem == wanted.stem else 2
    while (verdict := judge(path)) in {FileVerdict.FOREIGN, FileVerdict.OURS_NEWER}:
        owner = "a later release" if verdict is FileVerdict.OURS_NEWER else "another program"
        mark = INDEX_MARK if number == 1 else f"{INDEX_MARK}-{number}"
        following = wanted.with_name(f"{stem}{mark}{wanted.suffix}")
        notes.append(
            f"{path} belongs to {owner} and is left alone; using {following.name} beside it."
        )
        path, number = following, number + 1
    return path, verdict, tuple(notes)


MAX_SET_ASIDE_BYTES: Final = 256_000_000
"""The largest damaged index that is kept for a diagnosis; a larger one is not worth its space."""
_MAKING_PATIENCE_S: Final = 20.0
"""The time to wait for another process, perhaps another agent's, that makes or replaces its index in the same
directory: a few writes, which a disk may delay."""
_SET_ASIDE: Final = ".damaged-"
_MAIN: Final = ""
_LOG: Final = "-wal"
_JOURNAL: Final = "-journal"
_MARK: Final = "-open"
"""The suffix of an empty file beside an index with a write-ahead log, from opening to the orderly end."""
_SIDE_FILES: Final = (_LOG, "-shm", _JOURNAL, _MARK)
_BLOCK_BYTES: Final = 1024 * 1024


def ensure_index(wanted: Path) -> tuple[Path, tuple[str, ...]]:
    """Finds or makes the index at `wanted`, or at a sibling name when that place is taken.

    Returns its path, and notes for a person about the choice. Must not be called while this process has the file
    open: closing any descriptor of a file drops all locks that the process holds on it (POSIX). Raises
    OSError and apsw.Error.
    """
    make_directories(wanted.parent)
    path, verdict, notes = choose_path(wanted)
    if verdict is FileVerdict.OURS:
        return path, notes  # most starts: nobody is waited for
    with alone_in(wanted.parent):
        path, verdict, notes = choose_path(wanted)
        if verdict is FileVerdict.OURS_OLDER:
            notes = (
                *notes,
                f"{path.name} had the format of an earlier release and is filled again.",
            )
        if verdict is not FileVerdict.OURS and not (
            verdict is FileVerdict.OURS_OLDER and _empty(path)
        ):
            _create(path)
    return path, notes


def mark_open(path: Path) -> None:
    """Marks the index as open. If the mark cannot be written, only `restore_checksums` is lost."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with suppress(OSError), descriptor_of(f"{path}{_MARK}", flags) as made:
        give_to_owner(made, path.parent)


def mark_closed(path: Path) -> None:
    """Removes the mark after closing, unless the index is still open elsewhere: then its log exists."""
    with suppress(OSError):
        if not Path(f"{path}{_LOG}").exists():
            _delete(path, _MARK)


def restore_checksums(path: Path, limit_s: float = SCRUB_LIMIT_S) -> None:
    """Rewrites an index whose log another program moved into the file after an unclean end.

    Pages in the log have no checksums: only the shim adds them on the way into the file. A file whose structure is
    damaged, or which cannot be read and written within the limit, stays as it is. Blocks.
    """
    with suppress(OSError):
        if not Path(f"{path}{_MARK}").exists() or Path(f"{path}{_LOG}").exists():
            return
        ends = time.monotonic() + limit_s
        with suppress(apsw.Error), closing(open_checked(path)) as connection:
            connection.set_busy_timeout(milliseconds(PATIENCE_S))
            connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS_BETWEEN_LOOKS)
            connection.execute("PRAGMA checksum_verification = OFF").fetchall()
            if connection.execute("PRAGMA integrity_check(1)").get == "ok":
                connection.execute("VACUUM")
                _log.info("checksums written again", path=str(path))


def set_aside(path: Path, cause: str) -> str:
    """Renames a damaged index, keeps only the newest such file, and returns a sentence about it.

    One of more than MAX_SET_ASIDE_BYTES is deleted instead. The side files are deleted first: SQLite would take them
    for those of the next index.
    """
    delete_set_aside(path)
    kept = path.with_name(f"{path.name}{_SET_ASIDE}{int(time.time())}")
    delete_side_files(path)
    if path.stat().st_size > MAX_SET_ASIDE_BYTES:
        path.unlink()
        return f"{path.name} was damaged ({cause}); it was deleted and is rebuilt from Markdown."
    path.rename(kept)
    return (
        f"{path.name} was damaged ({cause}); it is kept as {kept.name} and rebuilt from Markdown."
    )


def set_aside_of(path: Path) -> list[Path]:
    """Returns the damaged indexes that were set aside beside this one. Raises OSError."""
    prefix = f"{path.name}{_SET_ASIDE}"
    return [entry for entry in path.parent.iterdir() if entry.name.startswith(prefix)]


def search_files(path: Path, texts: Sequence[bytes]) -> dict[Path, bool]:
    """Returns whether each file contains one of these texts: the index, SQLite's files beside it, and damaged indexes.

    The index of the log is left out: it contains only numbers. Raises OSError and apsw.Error.
    """
    beside = [Path(f"{path}{suffix}") for suffix in (_LOG, _JOURNAL, _MARK)]
    others = [one for one in beside if one.exists()] + set_aside_of(path)
    with open_raw(path) as file:
        size = file.xFileSize()
        places = range(0, size, _BLOCK_BYTES)
        blocks = (file.xRead(min(_BLOCK_BYTES, size - place), place) for place in places)
        found = {path: _holds(blocks, texts)}
    for one in others:
        with suppress(FileNotFoundError), one.open("rb") as opened:
            found[one] = _holds(iter(partial(opened.read, _BLOCK_BYTES), b""), texts)
    return found


def _holds(blocks: Iterable[bytes], texts: Sequence[bytes]) -> bool:
    overlap = max(map(len, texts), default=1) - 1
    tail = b""
    for block in blocks:
        data = tail + block
        if any(text in data for text in texts):
            return True
        tail = data[-overlap:] if overlap else b""
    return False


@contextmanager
def open_raw(path: Path) -> Iterator[apsw.VFSFile]:
    """Opens the bytes of an index as they are, below the shim that checks checksums. Raises apsw.Error.

    SQLite opens the file: closing a descriptor of our own would drop all locks that this process holds on it (POSIX),
    and another process that seems to be alone would delete the log.
    """
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    file = apsw.VFSFile("unix", os.path.realpath(path), flags)  # it follows no link itself
    try:
        yield file
    finally:
        file.xClose()


def delete_set_aside(path: Path) -> None:
    """Deletes damaged indexes, which contain texts that were deleted since. Raises OSError."""
    for old in set_aside_of(path):
        old.unlink(missing_ok=True)


def size_on_disk(path: Path) -> int:
    """Returns the bytes of the index, with the write-ahead log."""
    total = 0
    for suffix in (_MAIN, *_SIDE_FILES):
        with suppress(FileNotFoundError):
            total += Path(f"{path}{suffix}").stat().st_size
    return total


def _empty(path: Path) -> bool:
    """Empties an index of an earlier release except for its vectors, which are costly; False if nothing can be kept."""
    with closing(open_checked(path)) as connection:
        connection.set_busy_timeout(milliseconds(PATIENCE_S))
        try:
            return schema.empty(connection)
        except apsw.Error as error:
            if is_damage(error):
                return False
            raise


def _create(path: Path) -> None:
    """Puts a complete file in place in one step: other processes see either none or an index."""
    draft = delete_draft(path)
    with descriptor_of(draft, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC) as made:
        give_to_owner(made, draft.parent)
    with closing(open_checked(draft)) as connection:
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        reserve_checksums(connection)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        schema.create(connection)
        set_journal(connection, path.parent)  # changing it later would disturb others
    delete_side_files(path)
    draft.replace(path)


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Lets one process at a time choose and make an index; without locks, as on some mounts, all may."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with descriptor_of(directory, flags) as descriptor:
        lock_within(descriptor, _MAKING_PATIENCE_S, lenient=True)
        yield


def delete_draft(path: Path) -> Path:
    """Deletes the draft of a process that was killed while it made the index; returns the draft's path."""
    draft = path.with_name(f".{path.name}.new")
    _delete(draft, *_SIDE_FILES, _MAIN)
    return draft


def delete_side_files(path: Path) -> None:
    _delete(path, *_SIDE_FILES)


def _delete(path: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


_STEPS_BETWEEN_LOOKS: Final = 10_000
"""Virtual machine instructions of SQLite: a fraction of a millisecond."""


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """`problem` is empty when nothing was found; `is_locked`: another process kept writing to it."""

    kind: FileVerdict
    problem: str = ""
    remedy: str | None = None
    is_locked: bool = False
    was_checked: bool = True
    """False when there was no time to read all of it."""


def inspect_index(path: Path, *, timeout_s: float) -> IndexState:
    """Looks for faults. Blocks for at most about `timeout_s` and the patience with other writers (1.5 s)."""
    try:
        kind = judge(path)
        if kind is not FileVerdict.OURS:
            return IndexState(kind=kind)
        connection = open_checked(path)
        with closing(connection):
            return _look(connection, time.monotonic() + timeout_s)
    except apsw.BusyError:
        problem = f"Another process has been writing to it for {PATIENCE_S:g} s."
        return IndexState(kind=FileVerdict.OURS, problem=problem, is_locked=True)
    except (apsw.Error, OSError) as error:
        failure = index_unavailable(path, error)
        return IndexState(kind=FileVerdict.OURS, problem=failure.message, remedy=failure.remedy)


def _look(connection: apsw.Connection, ends: float) -> IndexState:
    connection.set_busy_timeout(milliseconds(PATIENCE_S))
    if not is_complete(connection):
        return IndexState(kind=FileVerdict.OURS, problem="Tables are missing.")
    connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS_BETWEEN_LOOKS)
    try:
        verdict: str = connection.execute("PRAGMA quick_check(1)").get
    except apsw.InterruptError:
        return IndexState(kind=FileVerdict.OURS, was_checked=False)
    return IndexState(kind=FileVerdict.OURS, problem="" if verdict == "ok" else f"{verdict}.")
