"""The rows of transcripts: how far each was read, and the entry of each of its turns."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import apsw

from backends.builtin.store.port import (
    START,
    Checkpoint,
    IndexedTranscript,
    TranscriptPiece,
    TurnRange,
    entry_at,
)
from backends.builtin.store.sqlite.file_rows import (
    FROM_FILES,
    SEEN,
    key_of,
    remember_languages,
    replace_chunks,
    stamp,
)
from backends.builtin.store.sqlite.keywords import ComingWords

_SELECT: Final = f"""
    SELECT f.path, f.id, ifnull(s.size, 0), ifnull(s.mtime_ns, 0), ifnull(s.ctime_ns, 0),
        ifnull(s.inode, 0), f.pipeline, ifnull(s.read_at_ns, 0),
        ifnull((SELECT max(p.end_byte) FROM transcript_parts AS p
            WHERE p.file_id = f.id AND p.superseded = 0), 0),
        ifnull((SELECT p.end_line FROM transcript_parts AS p
            WHERE p.file_id = f.id AND p.superseded = 0 ORDER BY p.end_byte DESC LIMIT 1), 0),
        {SEEN}
    {FROM_FILES} WHERE f.source = 'sessions'
"""  # noqa: S608 - our own words


class SqliteTranscripts:
    """`TranscriptWrites`; a view uses only the reading half."""

    def __init__(self, connection: apsw.Connection, viewpoint: str = "") -> None:
        self._connection = connection
        self._viewpoint = viewpoint

    def indexed(self) -> dict[str, IndexedTranscript]:
        rows = self._connection.execute(_SELECT, (self._viewpoint,))
        return {path: IndexedTranscript(*row) for path, *row in rows}

    def one(self, path: str) -> IndexedTranscript | None:
        row = self._connection.execute(
            f"{_SELECT} AND f.path = ?", (self._viewpoint, path)
        ).fetchone()
        return IndexedTranscript(*row[1:]) if row else None

    def checkpoints(self, file_id: int) -> list[Checkpoint]:
        rows = self._connection.execute(
            "SELECT end_byte, end_line, end_turn, end_char, tail, digest FROM transcript_parts"
            " WHERE file_id = ? AND superseded = 0 ORDER BY end_byte",
            (file_id,),
        )
        return [START, *(Checkpoint(*row) for row in rows)]

    def enrolled(self, among: Collection[str]) -> frozenset[str]:
        keys = {key for (key,) in self._connection.execute("SELECT key FROM meta")}
        return frozenset(one for one in among if key_of(one, self._viewpoint) in keys)

    def entries(self, turns: Collection[TurnRange]) -> dict[TurnRange, tuple[int, int]]:
        return {
            one: (self._entry(one.file_id, one.first), self._entry(one.file_id, one.last))
            for one in turns
        }

    def _entry(self, file_id: int, turn: int) -> int:
        first_turn, lines = self._connection.execute(
            "SELECT first_turn, lines FROM transcript_parts"
            " WHERE file_id = ? AND first_turn <= ? AND end_turn >= ? ORDER BY superseded LIMIT 1",
            (file_id, turn, turn),
        ).get
        return entry_at(lines, turn - first_turn)

    def enrol(self, source: str, paths: Collection[str]) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO meta VALUES (?, '1')", (key_of(source, self._viewpoint),)
        )
        self._connection.executemany(
            "INSERT OR IGNORE INTO files (source, path, size, mtime_ns, ctime_ns, inode,"
            " content_hash, pipeline, chunk_count, read_at_ns)"
            " VALUES ('sessions', ?, 0, 0, 0, 0, x'', '', 0, 0)",
            [(path,) for path in paths],
        )
        for path in paths:
            known = self.one(path)
            if known is not None and known.seen == "nowhere":
                self.touch(path, (0, 0, 0, 0), 0)

    def disenrol(self, sources: Iterable[str]) -> None:
        self._connection.executemany(
            "DELETE FROM meta WHERE key = ?",
            [(key_of(source, self._viewpoint),) for source in sources],
        )

    def touch(self, path: str, stamps: tuple[int, int, int, int], read_at_ns: int) -> None:
        stamp(self._connection, self._viewpoint, "sessions", path, (*stamps, read_at_ns, b""))

    def publish(self, piece: TranscriptPiece) -> int:
        connection = self._connection
        file_id = _upsert_file(connection, piece)
        self.touch(piece.path, piece.stamps, piece.read_at_ns)
        _make_room(connection, file_id, piece)
        if piece.end.end_byte > piece.begin.end_byte:
            _insert_part(connection, file_id, piece)
        begin, end = piece.begin.end_char, piece.end_char
        words = ComingWords(connection)
        replaced = replace_chunks(
            connection, file_id, piece.chunks(), words, first=begin, before=end
        )
        words.write()
        connection.execute(
            "UPDATE files SET chunk_count = chunk_count + ? WHERE id = ?",
            (replaced.written - replaced.removed, file_id),
        )
        if piece.begin == START and piece.is_last:
            connection.execute("DELETE FROM file_languages WHERE file_id = ?", (file_id,))
        remember_languages(connection, file_id, piece.prepared)
        return replaced.written


def _upsert_file(connection: apsw.Connection, piece: TranscriptPiece) -> int:
    file_id: int = connection.execute(
        "INSERT INTO files (source, path, size, mtime_ns, ctime_ns, inode, content_hash, pipeline,"
        " note_date, chunk_count, read_at_ns) VALUES ('sessions', ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)"
        " ON CONFLICT (source, path) DO UPDATE SET size = excluded.size,"
        " mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,"
        " content_hash = excluded.content_hash, pipeline = excluded.pipeline,"
        " note_date = excluded.note_date, read_at_ns = excluded.read_at_ns RETURNING id",
        (
            piece.path,
            *piece.stamps,
            piece.end.tail,
            piece.pipeline,
            piece.prepared.note_date,
            piece.read_at_ns,
        ),
    ).get
    return file_id


def _make_room(connection: apsw.Connection, file_id: int, piece: TranscriptPiece) -> None:
    """Removes parts beyond the beginning: at once, or when the new pass has come as far."""
    if piece.is_rewritten:
        connection.execute(
            "DELETE FROM transcript_parts WHERE file_id = ? AND (superseded = 1 OR end_byte > ?)",
            (file_id, piece.begin.end_byte),
        )
    elif piece.begin == START:
        connection.execute(
            "UPDATE transcript_parts SET superseded = 1 WHERE file_id = ?", (file_id,)
        )
    connection.execute(
        "DELETE FROM transcript_parts"
        " WHERE file_id = ? AND superseded = 1 AND (end_turn <= ? OR ?)",
        (file_id, piece.end.end_turn, piece.is_last),
    )


def _insert_part(connection: apsw.Connection, file_id: int, piece: TranscriptPiece) -> None:
    end = piece.end
    place = end.end_byte, end.end_line, end.end_turn, end.end_char
    turns = piece.begin.end_turn + 1, piece.packed_numbers()
    connection.execute(
        "INSERT OR REPLACE INTO transcript_parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (file_id, *place, *turns, end.digest, end.tail),
    )
