"""Connections to an index file: their settings, page checksums, row id arrays, and the meaning of SQLite's errors."""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Final

import apsw

from backends.builtin.store.port import IndexDamagedError
from backends.builtin.store.sqlite import schema
from backends.files.scan import shared_type
from backends.interface import (
    ANOTHER_PLACE,
    IndexUnavailableError,
    index_denied,
    index_full,
    write_denial,
)
from config.runtime.logs import Log

_log = Log()

RESERVED_BYTES: Final = 8
"""Bytes at the end of each page for its checksum. In a file with another number of them, nothing is checked."""
_NAME: Final = "cksmvfs"
_LIBRARY: Final = "sqlite_extra_binaries/cksumvfs.*"


def open_checked(path: Path) -> apsw.Connection:
    """Opens a connection that checks each page it reads, in a file that was made for it."""
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=_vfs())


def reserve_checksums(connection: apsw.Connection) -> None:
    """Makes room for checksums, before anything is written to a new file."""
    if _vfs() is not None:
        connection.reserve_bytes(reserve=RESERVED_BYTES)


@cache
def _vfs() -> str | None:
    """Returns the name of the shim, loaded once for the process; None: there is none."""
    # apsw.sqlite_extra would do the same and reads a list of all extensions for 10 ms.
    for library in Path(apsw.__file__).parent.glob(_LIBRARY):
        with closing(apsw.Connection(":memory:")) as connection:
            connection.enable_load_extension(True)
            try:
                connection.load_extension(str(library))
            except apsw.ExtensionLoadingError as error:
                _log.warning("pages of the index have no checksums", error=str(error))
            else:
                return _NAME
    return None


PATIENCE_S: Final = 1.5
"""The time to wait for another process: less than the two seconds in which ours must be able to end."""
_PAGE_CACHE_KIB: Final = 8 * 1024


def connect_writer(path: Path) -> apsw.Connection:
    """Opens a connection that writes. Raises apsw.CorruptError when tables or the end are missing, and every other
    apsw.Error.
    """
    connection = open_checked(path)
    try:
        connection.set_busy_timeout(milliseconds(PATIENCE_S))
        if not schema.is_complete(connection):
            raise apsw.CorruptError("tables are missing")
        set_journal(connection, path.parent)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        schema.know_deletions(connection)
        connection.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
        _look_for_end(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> apsw.Connection:
    """Opens a connection that reads. Its `temp.term_statistics` counts the chunks of each term. Raises apsw.Error."""
    connection = open_checked(path)
    try:
        connection.set_busy_timeout(milliseconds(PATIENCE_S))
        connection.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
        connection.execute(
            "CREATE VIRTUAL TABLE temp.term_statistics USING fts5vocab (main, chunk_terms, row)"
        )
        connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def set_journal(connection: apsw.Connection, directory: Path) -> None:
    """Chooses the kind of log that is safe on the file system of the directory, and as much syncing as it needs.

    A write-ahead log needs memory that all processes share, which two hosts do not have (sqlite.org/wal.html); a
    rollback journal needs locks, which most network mounts have. Raises BusyError while somebody uses a
    write-ahead log where none may be.
    """
    journal, synchronous = ("TRUNCATE", "FULL") if shared_type(directory) else ("WAL", "NORMAL")
    connection.execute(f"PRAGMA journal_mode = {journal}").fetchall()
    connection.execute(f"PRAGMA synchronous = {synchronous}")


def network_note(path: Path) -> str | None:
    """Returns a note for a person about an index on a file system that other hosts may share, or None."""
    file_system = shared_type(path.parent)
    if file_system is None:
        return None
    return (
        f"{path} is on a file system that other hosts may share ({file_system}): it is kept without a write-ahead "
        "log, and as safe as the locks of that file system are. Let store.path name a local disk."
    )


def fold_log(connection: apsw.Connection) -> None:
    """Moves the log into the file, as far as nobody still reads an earlier state."""
    with suppress(apsw.Error):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def _look_for_end(connection: apsw.Connection, path: Path) -> None:
    """Raises apsw.CorruptError when the file ends before its last page: SQLite would read zeros there.

    Pages may be in the log alone, so it is moved into the file first; if that is impossible, or others write
    meanwhile, nothing is known.
    """
    before = connection.pragma("data_version")
    try:
        in_log, folded = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.Error:
        return  # a full disk, another process: no reason not to open it
    connection.execute("BEGIN")  # until it ends nobody changes the size of the file
    try:
        size = connection.pragma("page_count") * connection.pragma("page_size")
        is_whole = path.stat().st_size >= size
        is_known = in_log == folded and connection.pragma("data_version") == before
    finally:
        connection.execute("COMMIT")
    if is_known and not is_whole:
        raise apsw.CorruptError("its end is missing")


def milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))


_DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError)
_DAMAGE_REMEDY: Final = "It is set aside and rebuilt from Markdown."

_LOCKED: Final = (apsw.BusyError, apsw.LockedError)
_REMEDIES: Final[tuple[tuple[type[apsw.Error] | tuple[type[apsw.Error], ...], str], ...]] = (
    (_LOCKED, "Somebody else holds the index; it is tried again."),
    (
        apsw.ReadOnlyError,
        "The index file or its directory cannot be written: see their permissions.",
    ),
    (apsw.CantOpenError, "Check the permissions of its directory, or set store.path."),
    (apsw.ConnectionClosedError, "The gateway is ending."),
)


_DENIALS: Final = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)


def is_damage(error: BaseException) -> bool:
    """Returns whether the file is of no use after this error."""
    is_mismatch = getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_DATA
    return isinstance(error, _DAMAGE) or is_mismatch  # a page differs from what was written


def index_unavailable(path: Path, error: apsw.Error | OSError) -> IndexUnavailableError:
    """Returns the error to raise instead of `error`, which becomes its cause."""
    if isinstance(error, OSError):
        return index_denied(path, error)
    if _is_full(path, error):
        return index_full(path, error)
    if isinstance(error, _DENIALS) and write_denial(path):
        return index_denied(path, PermissionError(errno.EACCES, str(error)))
    message = f"The index {path} cannot be used: {error}."
    if is_damage(error):
        return IndexDamagedError(message, remedy=_DAMAGE_REMEDY)
    default = f"See the permissions and the free space of its directory, or {ANOTHER_PLACE}"
    remedy = next((text for kind, text in _REMEDIES if isinstance(error, kind)), default)
    return IndexUnavailableError(message, remedy=remedy)


_SPARE_BYTES: Final = 64 * 1024
"""More than SQLite writes at once. Its log and shared memory fail with an I/O error if there is no space."""


def _is_full(path: Path, error: apsw.Error) -> bool:
    if isinstance(error, apsw.IOError):
        with suppress(OSError):
            disk = os.statvfs(path.parent)
            return disk.f_bavail * disk.f_frsize < _SPARE_BYTES
    return isinstance(error, apsw.FullError)


def int64s(values: Sequence[int]) -> object:
    """Returns row ids for `carray`, which cannot be empty: no row has the id 0."""
    return apsw.carray(memoryview(array("q", values or (0,))))
