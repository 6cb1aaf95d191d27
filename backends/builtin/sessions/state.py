"""How far each transcript was taken in, as the index remembers it.

Owns the values and the queries. A transcript is taken in by parts; each ends at a checkpoint, from
which the next one goes on without looking at anything before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import apsw

from backends.transcripts.listing import FoundTranscript
from backends.transcripts.source import Place, Taken
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


def entries_of(connection: apsw.Connection, file_id: int, first: int, last: int) -> tuple[int, int]:
    """The numbers of the entries that these two turns are. All count from 1."""
    return _entry_of(connection, file_id, first), _entry_of(connection, file_id, last)


def _entry_of(connection: apsw.Connection, file_id: int, turn: int) -> int:
    first_turn, lines = connection.execute(
        "SELECT first_turn, lines FROM transcript_parts"
        " WHERE file_id = ? AND first_turn <= ? AND end_turn >= ? ORDER BY superseded LIMIT 1",
        (file_id, turn, turn),
    ).get
    place = (turn - first_turn) * LINE_BYTES
    return int.from_bytes(lines[place : place + LINE_BYTES], "little")


LINE_BYTES: Final = 4
"""Of one line number in `transcript_parts.lines`."""
