"""Writing what one file gives into the index, and taking a file out of it.

Owns the statements that change rows. Each function runs inside one transaction of the caller, so a
reader sees all of a file or nothing. Chunks that did not change keep their rows: an edit costs what
it touches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import apsw

from backends.builtin.notes.preparing import EndedError, PreparedChunk, PreparedFile
from backends.files.scan import FoundFile


class ReadFile(NamedTuple):
    """One file as it was read: the stamps are those of the content."""

    found: FoundFile
    content_hash: bytes
    read_at_ns: int
    """The clock just before it was read."""

    @property
    def stamps(self) -> tuple[int, int, int, int, int]:
        found = self.found
        return found.size, found.mtime_ns, found.ctime_ns, found.inode, self.read_at_ns


class Replaced(NamedTuple):
    """How many chunks were new, and how many are gone."""

    written: int
    removed: int


def publish_file(
    connection: apsw.Connection,
    read: ReadFile,
    pipeline: str,
    prepared: PreparedFile,
    *,
    is_wanted: Callable[[], bool] = lambda: True,
) -> int:
    """Makes the index hold exactly this content for the file; returns the chunks written.

    Raises EndedError soon after this `is_wanted` no more.
    """
    file_id: int = connection.execute(
        "INSERT INTO files (source, path, size, mtime_ns, ctime_ns, inode, read_at_ns,"
        " content_hash, pipeline, note_date, chunk_count) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (source, path) DO UPDATE SET size = excluded.size,"
        " mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,"
        " read_at_ns = excluded.read_at_ns, content_hash = excluded.content_hash,"
        " pipeline = excluded.pipeline, note_date = excluded.note_date,"
        " chunk_count = excluded.chunk_count RETURNING id",
        (
            read.found.source,
            read.found.path,
            *read.stamps,
            read.content_hash,
            pipeline,
            prepared.note_date,
            len(prepared.chunks),
        ),
    ).get
    connection.execute("DELETE FROM file_languages WHERE file_id = ?", (file_id,))
    remember_languages(connection, file_id, prepared)
    chunks = _while_wanted(prepared.chunks, is_wanted)
    return replace_chunks(connection, file_id, chunks).written


def _while_wanted(
    chunks: Iterable[PreparedChunk], is_wanted: Callable[[], bool]
) -> Iterator[PreparedChunk]:
    for chunk in chunks:
        if not is_wanted():
            raise EndedError
        yield chunk


def touch_file(connection: apsw.Connection, read: ReadFile) -> None:
    """Records new stamps for a file whose content is still the indexed one."""
    connection.execute(
        "UPDATE files SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, read_at_ns = ?"
        " WHERE source = ? AND path = ?",
        (*read.stamps, read.found.source, read.found.path),
    )


def remove_file(
    connection: apsw.Connection, source: str, path: str, *, read_at_ns: int | None = None
) -> bool:
    """Takes a file and all of its chunks out of the index, and says whether it was there.

    With `read_at_ns` only when its rows still stem from that reading.
    """
    file_id = connection.execute(
        "SELECT id FROM files WHERE source = ? AND path = ? AND read_at_ns = ifnull(?, read_at_ns)",
        (source, path, read_at_ns),
    ).get
    if file_id is None:
        return False
    _delete_chunks(
        connection, connection.execute("SELECT id FROM chunks WHERE file_id = ?", (file_id,))
    )
    connection.execute("DELETE FROM files WHERE id = ?", (file_id,))
    return True


def remember_languages(connection: apsw.Connection, file_id: int, prepared: PreparedFile) -> None:
    """Queries are stemmed in every language that any stored text was stemmed in."""
    connection.executemany(
        "INSERT OR IGNORE INTO file_languages VALUES (?, ?)",
        [(name, file_id) for name in prepared.languages],
    )


def replace_chunks(
    connection: apsw.Connection,
    file_id: int,
    chunks: Iterable[PreparedChunk],
    *,
    first: int = 0,
    before: int | None = None,
) -> Replaced:
    """Puts chunks in the place of all that begin in this range of the file's text (None: its end)."""
    kept: dict[bytes, list[int]] = defaultdict(list)
    for chunk_id, identity in connection.execute(
        "SELECT id, identity FROM chunks WHERE file_id = ? AND start >= ?"
        " AND start < ifnull(?, 9e18) ORDER BY start DESC",
        (file_id, first, before),
    ):
        kept[identity].append(chunk_id)
    moved, written = [], 0
    for chunk in chunks:
        if kept[chunk.identity]:
            place = (chunk.start, chunk.start_line, chunk.end_line)
            moved.append((*place, kept[chunk.identity].pop(), *place))
        else:
            _insert_chunk(connection, file_id, chunk)
            written += 1
    obsolete = [(chunk_id,) for ids in kept.values() for chunk_id in ids]
    _delete_chunks(connection, obsolete)
    connection.executemany(
        "UPDATE chunks SET start = ?, start_line = ?, end_line = ?"
        " WHERE id = ? AND (start, start_line, end_line) IS NOT (?, ?, ?)",
        moved,
    )
    return Replaced(written, len(obsolete))


def _insert_chunk(connection: apsw.Connection, file_id: int, chunk: PreparedChunk) -> None:
    connection.execute(
        "INSERT INTO chunks (file_id, start, start_line, end_line, identity, headings, text,"
        " terms, context) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            file_id,
            chunk.start,
            chunk.start_line,
            chunk.end_line,
            chunk.identity,
            chunk.headings,
            chunk.text,
            chunk.terms,
            chunk.context,
        ),
    )
    chunk_id = connection.last_insert_rowid()
    connection.execute(
        "INSERT INTO chunk_terms (rowid, body, context) VALUES (?, ?, ?)",
        (chunk_id, chunk.terms, chunk.context),
    )
    connection.executemany(
        'INSERT INTO excerpts (chunk_id, file_id, start, "end", line, text_hash)'
        " VALUES (?, ?, ?, ?, ?, ?)",
        [(chunk_id, file_id, *excerpt) for excerpt in chunk.excerpts],
    )


def _delete_chunks(connection: apsw.Connection, ids: Iterable[tuple[int]]) -> None:
    doomed = list(ids)
    connection.executemany("DELETE FROM chunk_terms WHERE rowid = ?", doomed)
    connection.executemany("DELETE FROM chunks WHERE id = ?", doomed)
