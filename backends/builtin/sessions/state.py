"""How far each transcript was taken in, as the index remembers it, and writing one part of it."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

import apsw

from backends.builtin.notes.preparing import PreparedChunk, PreparedFile
from backends.builtin.notes.publishing import Replaced, remember_languages, replace_chunks
from backends.transcripts.source import FoundTranscript, Place, Taken
from backends.transcripts.stretches import HASH_BYTES

FILES: Final = "sessions"
"""Enrolled: the JSONL files are a source."""
DATABASE: Final = "sessions of the host"
"""Enrolled: the host's database is a source."""
CLAUDE: Final = "sessions of Claude Code"
"""Enrolled: the conversations of Claude Code are a source."""
_ALL: Final = (FILES, DATABASE, CLAUDE)


class Checkpoint(NamedTuple):
    """A place between two lines of a transcript, and what was counted up to there."""

    end_byte: int
    end_line: int
    end_turn: int
    end_char: int
    tail: bytes
    """Hash of the last bytes before it."""
    digest: bytes = b""
    """Hash of the part that ends there."""

    @property
    def place(self) -> Place:
        return Place(self.end_byte, self.end_line)


START: Final = Checkpoint(0, 0, 0, 0, hashlib.blake2b(digest_size=HASH_BYTES).digest())


class IndexedTranscript(NamedTuple):
    """One transcript with the stamps it had when it was last looked at.

    While a part is missing `size` is only that of what was taken in, so that it never seems complete.
    """

    file_id: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    pipeline: str
    read_at_ns: int
    end_byte: int
    end_line: int = 0

    @property
    def stamps(self) -> tuple[int, int, int, int]:
        return self.size, self.mtime_ns, self.ctime_ns, self.inode

    def taken(self, path: str) -> Taken:
        """What its source is asked about it with."""
        return FoundTranscript(path, *self.stamps), Place(self.end_byte, self.end_line)


_SELECT: Final = """
    SELECT f.path, f.id, f.size, f.mtime_ns, f.ctime_ns, f.inode, f.pipeline, f.read_at_ns,
        ifnull((SELECT max(p.end_byte) FROM transcript_parts AS p
            WHERE p.file_id = f.id AND p.superseded = 0), 0),
        ifnull((SELECT p.end_line FROM transcript_parts AS p
            WHERE p.file_id = f.id AND p.superseded = 0 ORDER BY p.end_byte DESC LIMIT 1), 0)
    FROM files AS f WHERE f.source = 'sessions'
"""


def indexed_transcripts(connection: apsw.Connection) -> dict[str, IndexedTranscript]:
    """By index path."""
    return {path: IndexedTranscript(*row) for path, *row in connection.execute(_SELECT)}


def indexed_transcript(connection: apsw.Connection, path: str) -> IndexedTranscript | None:
    row = connection.execute(f"{_SELECT} AND f.path = ?", (path,)).fetchone()
    return IndexedTranscript(*row[1:]) if row else None


def checkpoints(connection: apsw.Connection, file_id: int) -> list[Checkpoint]:
    """Of all parts that were taken in, in order, the start first."""
    rows = connection.execute(
        "SELECT end_byte, end_line, end_turn, end_char, tail, digest FROM transcript_parts"
        " WHERE file_id = ? AND superseded = 0 ORDER BY end_byte",
        (file_id,),
    )
    return [START, *(Checkpoint(*row) for row in rows)]


def enrolled(connection: apsw.Connection) -> frozenset[str]:
    """Which transcripts were a source when this index was last brought up to date."""
    rows = connection.execute("SELECT key FROM meta WHERE key IN (?, ?, ?)", _ALL)
    return frozenset(key for (key,) in rows)


def enrol(connection: apsw.Connection, source: str, paths: Collection[str]) -> None:
    """Transcripts become a source: all that exist are due, however little they grow from now on."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, '1')", (source,))
    connection.executemany(
        "INSERT OR IGNORE INTO files (source, path, size, mtime_ns, ctime_ns, inode, content_hash,"
        " pipeline, chunk_count, read_at_ns) VALUES ('sessions', ?, 0, 0, 0, 0, x'', '', 0, 0)",
        [(path,) for path in paths],
    )


def disenrol(connection: apsw.Connection, sources: Iterable[str] = _ALL) -> None:
    """Transcripts are no source any more; their rows are removed like those of deleted files."""
    connection.executemany("DELETE FROM meta WHERE key = ?", [(source,) for source in sources])


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
