"""Writing one part of a transcript into the index, in one transaction of the caller.

Owns the statements. What an earlier pass over the same text left behind goes on answering until the new
pass has come to the same place; what the transcript no longer holds goes at once.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from backends.builtin.notes.preparing import PreparedChunk, PreparedFile
from backends.builtin.notes.publishing import Replaced, remember_languages, replace_chunks
from backends.builtin.sessions.state import START, Checkpoint


class Part(NamedTuple):
    """What is known of one part once it was read and prepared."""

    path: str
    stamps: tuple[int, int, int, int]
    """Size, mtime, ctime and inode to remember."""
    pipeline: str
    read_at_ns: int
    begin: Checkpoint
    end: Checkpoint
    numbers: Sequence[int]
    """Of the entry that each turn is."""
    prepared: PreparedFile
    is_last: bool
    """The text ends with it: nothing older lies beyond."""
    is_rewritten: bool
    """The transcript no longer holds what was taken in beyond `begin`."""


def publish_part(connection: apsw.Connection, part: Part) -> int:
    """Makes the index hold the transcript up to the end of this part; returns the chunks written."""
    file_id = _upsert_file(connection, part)
    _make_room(connection, file_id, part)
    if part.end.end_byte > part.begin.end_byte:
        _insert_part(connection, file_id, part)
    begin, end = part.begin.end_char, part.end.end_char
    beyond = part.is_last or part.is_rewritten
    replaced = replace_chunks(
        connection, file_id, _moved(part), first=begin, before=None if beyond else end
    )
    _count(connection, file_id, replaced)
    if part.begin == START and part.is_last:
        connection.execute("DELETE FROM file_languages WHERE file_id = ?", (file_id,))
    remember_languages(connection, file_id, part.prepared)
    return replaced.written


def _upsert_file(connection: apsw.Connection, part: Part) -> int:
    file_id: int = connection.execute(
        "INSERT INTO files (source, path, size, mtime_ns, ctime_ns, inode, content_hash, pipeline,"
        " note_date, chunk_count, read_at_ns) VALUES ('sessions', ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)"
        " ON CONFLICT (source, path) DO UPDATE SET size = excluded.size,"
        " mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,"
        " content_hash = excluded.content_hash, pipeline = excluded.pipeline,"
        " note_date = excluded.note_date, read_at_ns = excluded.read_at_ns RETURNING id",
        (
            part.path,
            *part.stamps,
            part.end.tail,
            part.pipeline,
            part.prepared.note_date,
            part.read_at_ns,
        ),
    ).get
    return file_id


def _make_room(connection: apsw.Connection, file_id: int, part: Part) -> None:
    """Parts beyond the beginning give way: at once, or when the new pass has come as far."""
    if part.is_rewritten:
        connection.execute(
            "DELETE FROM transcript_parts WHERE file_id = ? AND (superseded = 1 OR end_byte > ?)",
            (file_id, part.begin.end_byte),
        )
    elif part.begin == START:
        connection.execute(
            "UPDATE transcript_parts SET superseded = 1 WHERE file_id = ?", (file_id,)
        )
    connection.execute(
        "DELETE FROM transcript_parts"
        " WHERE file_id = ? AND superseded = 1 AND (end_turn <= ? OR ?)",
        (file_id, part.end.end_turn, part.is_last),
    )


def _insert_part(connection: apsw.Connection, file_id: int, part: Part) -> None:
    lines = array("I", part.numbers)
    if sys.byteorder == "big":
        lines.byteswap()
    end = part.end
    connection.execute(
        "INSERT OR REPLACE INTO transcript_parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (
            file_id,
            end.end_byte,
            end.end_line,
            end.end_turn,
            end.end_char,
            part.begin.end_turn + 1,
            lines.tobytes(),
            end.digest,
            end.tail,
        ),
    )


def _moved(part: Part) -> list[PreparedChunk]:
    """The chunks at their places in the whole transcript."""
    chars, turns = part.begin.end_char, part.begin.end_turn
    return [
        chunk._replace(
            start=chunk.start + chars,
            start_line=chunk.start_line + turns,
            end_line=chunk.end_line + turns,
        )
        for chunk in part.prepared.chunks
    ]


def _count(connection: apsw.Connection, file_id: int, replaced: Replaced) -> None:
    connection.execute(
        "UPDATE files SET chunk_count = chunk_count + ? WHERE id = ?",
        (replaced.written - replaced.removed, file_id),
    )
