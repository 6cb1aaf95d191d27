"""How far each transcript was taken in, as the index remembers it.

Owns the values and the queries. A transcript is taken in by parts; each ends at a checkpoint, from
which the next one goes on without looking at anything before it.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

import apsw

from backends.transcripts.stretches import HASH_BYTES

_ENROLLED: Final = "sessions"


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

    @property
    def stamps(self) -> tuple[int, int, int, int]:
        return self.size, self.mtime_ns, self.ctime_ns, self.inode


_SELECT: Final = """
    SELECT f.path, f.id, f.size, f.mtime_ns, f.ctime_ns, f.inode, f.pipeline, f.read_at_ns,
        ifnull((SELECT max(p.end_byte) FROM transcript_parts AS p
            WHERE p.file_id = f.id AND p.superseded = 0), 0)
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


def is_enrolled(connection: apsw.Connection) -> bool:
    """Whether transcripts were a source when this index was last brought up to date."""
    found = connection.execute("SELECT 1 FROM meta WHERE key = ?", (_ENROLLED,)).fetchone()
    return found is not None


def enrol(connection: apsw.Connection, paths: list[str]) -> None:
    """Transcripts become a source: all that exist are due, however little they grow from now on."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, '1')", (_ENROLLED,))
    connection.executemany(
        "INSERT OR IGNORE INTO files (source, path, size, mtime_ns, ctime_ns, inode, content_hash,"
        " pipeline, chunk_count, read_at_ns) VALUES ('sessions', ?, 0, 0, 0, 0, x'', '', 0, 0)",
        [(path,) for path in paths],
    )


def disenrol(connection: apsw.Connection) -> None:
    """Transcripts are no source any more; their rows are removed like those of deleted files."""
    connection.execute("DELETE FROM meta WHERE key = ?", (_ENROLLED,))


def file_lines(connection: apsw.Connection, file_id: int, first: int, last: int) -> tuple[int, int]:
    """The lines of the transcript in which these two turns stand. All count from 1."""
    return _line_of(connection, file_id, first), _line_of(connection, file_id, last)


def _line_of(connection: apsw.Connection, file_id: int, turn: int) -> int:
    first_turn, lines = connection.execute(
        "SELECT first_turn, lines FROM transcript_parts"
        " WHERE file_id = ? AND first_turn <= ? AND end_turn >= ? ORDER BY superseded LIMIT 1",
        (file_id, turn, turn),
    ).get
    place = (turn - first_turn) * LINE_BYTES
    return int.from_bytes(lines[place : place + LINE_BYTES], "little")


LINE_BYTES: Final = 4
"""Of one line number in `transcript_parts.lines`."""
