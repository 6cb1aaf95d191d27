"""Erasing what was deleted: afterwards no byte of a deleted text is in any file of the index.

SQLite overwrites deleted rows in its pages (`secure_delete`). That leaves words in FTS5's segments until these are
merged, earlier pages in the write-ahead log, vectors of deleted texts, remains in a page whose rows SQLite moved to
another one, and a damaged index that was set aside.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final, Protocol

import apsw

from backends.builtin.store.sqlite.index_file import delete_set_aside, open_raw
from config.runtime.logs import Log

_log = Log()

_MERGED_PAGES: Final = 128
"""Pages of 4 kB in one write transaction: some milliseconds, so that others get their turns."""
_DELETED_VECTORS: Final = 500
"""Vectors that are deleted in one write transaction."""
_CHECKPOINT_PATIENCE_S: Final = 10.0
"""The time to wait for readers of an earlier state, which end within a second or two."""
_TURN_S: Final = 0.5
_SELECT_MARK: Final = "SELECT max(at_ns) FROM deletions"
_UNKNOWN: Final = 0
_MERGE: Final = "INSERT INTO chunk_terms (chunk_terms, rank) VALUES ('merge', ?)"
_UNUSED: Final = """
    FROM embeddings WHERE NOT EXISTS
        (SELECT 1 FROM excerpts AS x WHERE x.text_hash = embeddings.text_hash)
"""
_DELETE_VECTORS: Final = f"DELETE {_UNUSED} AND id = ?"
DELETE_FAILURES: Final = f"DELETE {_UNUSED}".replace("embeddings", "embedding_failures")


class Erasable(Protocol):
    """The parts of an open index file that erasing needs; see `SqliteStore`."""

    path: Path

    def reading(self) -> AbstractContextManager[apsw.Connection]: ...

    def writing(self) -> AbstractContextManager[apsw.Connection]: ...

    def alone(self, patience_s: float) -> AbstractContextManager[apsw.Connection]: ...

    def rewrite(self, *, gives_way: bool) -> bool: ...


def mark_deletion(connection: apsw.Connection) -> None:
    """Notes, in the transaction that deletes something, that there is something to erase."""
    mark = _mark(connection)
    if mark is None:
        connection.execute("INSERT INTO deletions VALUES (?)", (time.time_ns(),))
    elif mark != _UNKNOWN:
        connection.execute("UPDATE deletions SET at_ns = ?", (time.time_ns(),))


def is_due(store: Erasable) -> bool:
    """Returns whether something was deleted and not erased yet. Raises IndexUnavailableError."""
    with store.reading() as connection:
        return _mark(connection) is not None


def erase(store: Erasable, *, gives_way: bool) -> bool:
    """Erases all that was deleted before; returns False if readers were in the way for too long.

    Searches and small writes continue meanwhile, but for the time in which the file has to be rewritten. With
    `gives_way` a large file is not rewritten while somebody waits to write, and False is returned, too. Blocks.
    Raises IndexUnavailableError.
    """
    with store.reading() as connection:
        mark = _mark(connection)
    if mark is None:
        return True
    started = time.monotonic()
    _delete_vectors(store)
    if not erase_words(store):
        return False
    # An index of an earlier release may have anything in its unused pages.
    is_to_be_rewritten = mark == _UNKNOWN or has_residue(store.path)
    if is_to_be_rewritten and not (
        store.rewrite(gives_way=gives_way) and _empty_log(store, math.inf)
    ):
        return False
    delete_set_aside(store.path)
    with store.writing() as connection:
        connection.execute("DELETE FROM deletions WHERE at_ns = ?", (mark,))
    _log.debug("deleted text erased", seconds=round(time.monotonic() - started, 3))
    return True


def erase_words(store: Erasable, limit_s: float = math.inf) -> bool:
    """Erases words only, in a process that ends; vectors, which a moved note may need, are left to the next process."""
    ends = time.monotonic() + limit_s
    return _merge_words(store, ends) and _empty_log(store, ends)


def _mark(connection: apsw.Connection) -> int | None:
    """Returns the time of the last deletion that is not erased; `_UNKNOWN` in an index of an earlier release."""
    mark: int | None = connection.execute(_SELECT_MARK).get
    return mark


def _delete_vectors(store: Erasable) -> None:
    """Deletes the vectors of deleted texts. Looking for them takes seconds in an index of a million: only deleting
    them keeps others from writing, and what is in use again by then stays.
    """
    with store.reading() as connection:
        unused = connection.execute(f"SELECT id {_UNUSED}").fetchall()
    for first in range(0, len(unused), _DELETED_VECTORS):
        with store.writing() as connection:
            connection.executemany(_DELETE_VECTORS, unused[first : first + _DELETED_VECTORS])
    with store.writing() as connection:
        connection.execute(DELETE_FAILURES)


def _merge_words(store: Erasable, ends: float) -> bool:
    """Merges FTS5's segments into one, which has no words of deleted chunks (sqlite.org/fts5.html, merge)."""
    pages = -_MERGED_PAGES  # below zero: all segments, not only those that are due
    while True:
        with store.writing() as connection:
            before = connection.total_changes()
            connection.execute(_MERGE, (pages,))
            if connection.total_changes() - before < 2:
                return True
        if time.monotonic() > ends:
            return False
        pages = _MERGED_PAGES


def _empty_log(store: Erasable, ends: float) -> bool:
    """Moves the write-ahead log into the file and shortens it to nothing."""
    ends = min(ends, time.monotonic() + _CHECKPOINT_PATIENCE_S)
    while True:
        with store.alone(_TURN_S) as connection, suppress(apsw.BusyError, apsw.LockedError):
            # A reader that begins when all of the log is in the file does not need the log.
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            return True
        if time.monotonic() > ends:
            return False
        time.sleep(_TURN_S)


_READ_PAGES: Final = 128
_TREE_PAGES: Final = {2: 12, 10: 8, 13: 8}
"""The kinds of pages of a B-tree that can hold text (sqlite.org/fileformat.html), and the size of their headers.
Inner pages of tables, 5, have numbers of pages and rows alone, of which every rewriting of a large file leaves some."""
_POINTER_BYTES: Final = 2
_RESIDUE: Final = rb"[\x20-\xff]{3}"
"""Does not match remains of pointers to cells: their first bytes are smaller."""


def has_residue(path: Path) -> bool:
    """Returns whether an unused part of a page in use contains possible text. Blocks; raises apsw.Error.

    It may be wrong about pages that others write meanwhile.
    """
    with open_raw(path) as file:
        return any(re.search(_RESIDUE, unused) for unused in _unused_parts(file))


def _unused_parts(file: apsw.VFSFile) -> Iterator[bytes]:
    size = file.xFileSize()
    header = file.xRead(min(size, 100), 0)
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    # From page 2 on, a page of pointers comes before as many pages as it has entries of five bytes.
    group = (page_bytes - header[20]) // 5 + 1 if any(header[52:56]) else 0
    for start in range(0, size, _READ_PAGES * page_bytes):
        block = file.xRead(min(_READ_PAGES * page_bytes, size - start), start)
        for place in range(0, len(block) - page_bytes + 1, page_bytes):
            number = (start + place) // page_bytes
            if not (group and number % group == 1):
                yield _unused_part(block, place, 100 if number == 0 else 0)


def _unused_part(block: bytes, place: int, before: int) -> bytes:
    """Returns the bytes between the pointers of a page and its cells; freed cells are zero."""
    at = place + before
    header = _TREE_PAGES.get(block[at])
    if header is None:
        return b""
    cells = int.from_bytes(block[at + 3 : at + 5], "big")
    content = int.from_bytes(block[at + 5 : at + 7], "big") or 65536
    return block[at + header + _POINTER_BYTES * cells : place + content]
