"""Connections to an index file, with the settings that all of them need.

Owns the pragmas. Who uses a connection, and when, is the business of `database`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from backends.builtin.storage import schema
from backends.builtin.storage.checksums import open_checked
from backends.files.mounts import shared_type

PATIENCE_S: Final = 1.5
"""How long to wait for another process: less than the two seconds in which ours must be able to end."""
_PAGE_CACHE_KIB: Final = 8 * 1024


def connect_writer(path: Path) -> apsw.Connection:
    """Raises apsw.CorruptError when tables or the end are missing, and every other apsw.Error."""
    connection = open_checked(path)
    try:
        connection.set_busy_timeout(milliseconds(PATIENCE_S))
        if not schema.is_complete(connection):
            raise apsw.CorruptError("tables are missing")
        set_journal(connection, path.parent)
        connection.execute("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
        _look_for_end(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> apsw.Connection:
    """It knows `temp.term_statistics`: how many chunks hold each term. Raises apsw.Error."""
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
    """The kind of log that is safe on the file system of the directory."""
    mode = "TRUNCATE" if shared_type(directory) else "WAL"
    connection.execute(f"PRAGMA journal_mode = {mode}")


def fold_log(connection: apsw.Connection) -> bool:
    """Moves what the log holds into the file; whether that is whole without its log now.

    Those who still read an earlier state prevent it.
    """
    try:
        in_log, folded = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.Error:
        return False
    return in_log == folded


def _look_for_end(connection: apsw.Connection, path: Path) -> None:
    """Raises apsw.CorruptError when the file ends before its last page: SQLite would read zeros there.

    Pages may stand in the log alone, so it is folded in first; where that cannot be done, or others
    write meanwhile, nothing is known.
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
