"""The rows of transcripts: how far each was read, and the entry of each of its turns."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from backends.builtin.store.port import (
    START,
    Checkpoint,
    IndexedTranscript,
    TranscriptPiece,
    TurnRange,
    entry_at,
)
from backends.builtin.store.postgres.file_rows import (
    ENTER_VIEWPOINT,
    FORGET_LANGUAGES,
    FROM_FILES,
    LOCK,
    SEEN,
    languages_of,
    replace_chunks,
    stamp_row,
    stamping,
)

if TYPE_CHECKING:
    from backends.builtin.store.postgres.transactions import AgentStatement, AgentTransaction

_SELECT: Final = f"""
    SELECT f.path, f.file_id, coalesce(s.size, 0), coalesce(s.mtime_ns, 0), coalesce(s.ctime_ns, 0),
        coalesce(s.inode, 0), f.pipeline, coalesce(s.read_at_ns, 0),
        coalesce(p.end_byte, 0), coalesce(p.end_line, 0), {SEEN}
    {FROM_FILES}
    LEFT JOIN LATERAL (
        SELECT end_byte, end_line FROM transcript_parts AS p
        WHERE p.agent_id = f.agent_id AND p.file_id = f.file_id AND NOT p.superseded
        ORDER BY end_byte DESC LIMIT 1
    ) AS p ON true
    WHERE f.agent_id = %(agent)s AND f.source = 'sessions'
"""
_SELECT_ENTRIES: Final = """
    SELECT w.file_id, w.turn, p.first_turn, p.lines
    FROM unnest(%(files)s::bigint[], %(turns)s::bigint[]) AS w (file_id, turn)
    CROSS JOIN LATERAL (
        SELECT first_turn, lines FROM transcript_parts AS p
        WHERE p.agent_id = %(agent)s AND p.file_id = w.file_id
            AND p.first_turn <= w.turn AND p.end_turn >= w.turn
        ORDER BY superseded LIMIT 1
    ) AS p
"""
_UPSERT: Final = """
    INSERT INTO files (agent_id, source, path, size, mtime_ns, content_hash, pipeline, note_date, chunk_count)
    VALUES (%(agent)s, 'sessions', %(path)s, %(size)s, %(mtime_ns)s, %(tail)s, %(pipeline)s, %(note_date)s, 0)
    ON CONFLICT (agent_id, source, path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns,
        content_hash = excluded.content_hash, pipeline = excluded.pipeline,
        note_date = excluded.note_date
    RETURNING file_id
"""
_ENROL: Final = """
    INSERT INTO files (agent_id, source, path, size, mtime_ns, content_hash, pipeline, chunk_count)
    SELECT %(agent)s, 'sessions', path, 0, 0, '', '', 0 FROM unnest(%(paths)s::text[]) AS path
    ON CONFLICT DO NOTHING
"""
_STAMP_NEW: Final = """
    INSERT INTO stamps (agent_id, viewpoint, file_id, size, mtime_ns, ctime_ns, inode, read_at_ns, content_hash)
    SELECT f.agent_id, %(viewpoint)s, f.file_id, 0, 0, 0, 0, 0, '' FROM files AS f
    WHERE f.agent_id = %(agent)s AND f.source = 'sessions' AND f.path = ANY(%(paths)s::text[])
        AND NOT EXISTS (SELECT 1 FROM stamps AS o WHERE o.agent_id = f.agent_id AND o.file_id = f.file_id)
"""
_INSERT_PART: Final = """
    INSERT INTO transcript_parts (agent_id, file_id, end_byte, end_line, end_turn, end_char, first_turn,
        lines, digest, tail, superseded)
    VALUES (%(agent)s, %(file)s, %(end_byte)s, %(end_line)s, %(end_turn)s, %(end_char)s, %(first_turn)s,
        %(lines)s, %(digest)s, %(tail)s, false)
    ON CONFLICT (agent_id, file_id, end_byte) DO UPDATE SET end_line = excluded.end_line,
        end_turn = excluded.end_turn, end_char = excluded.end_char, first_turn = excluded.first_turn,
        lines = excluded.lines, digest = excluded.digest, tail = excluded.tail, superseded = false
"""


class PostgresTranscripts:
    """`TranscriptWrites` in one transaction; a view uses only the reading half."""

    def __init__(self, transaction: AgentTransaction, *, locks: bool = False) -> None:
        """`locks`: `one` reads the present state and keeps others from publishing until the transaction ends."""
        self._transaction = transaction
        self._locks = locks

    def indexed(self) -> dict[str, IndexedTranscript]:
        return {path: IndexedTranscript(*row) for path, *row in self._transaction.run(_SELECT)}

    def one(self, path: str) -> IndexedTranscript | None:
        if self._locks:
            self._transaction.run(LOCK, {"source": "sessions", "path": path})
        statement = f"{_SELECT} AND f.path = %(path)s"
        row = self._transaction.run(statement, {"path": path}).fetchone()
        return IndexedTranscript(*row[1:]) if row else None

    def checkpoints(self, file_id: int) -> list[Checkpoint]:
        rows = self._transaction.run(
            "SELECT end_byte, end_line, end_turn, end_char, tail, digest FROM transcript_parts"
            " WHERE agent_id = %(agent)s AND file_id = %(file)s AND NOT superseded ORDER BY end_byte",
            {"file": file_id},
        )
        return [START, *(Checkpoint(*row) for row in rows)]

    def enrolled(self, among: Collection[str]) -> frozenset[str]:
        rows = self._transaction.run(
            "SELECT key FROM meta WHERE agent_id = %(agent)s AND viewpoint = %(viewpoint)s AND key = ANY(%(keys)s::text[])",
            {"keys": list(among)},
        )
        return frozenset(key for (key,) in rows)

    def entries(self, turns: Collection[TurnRange]) -> dict[TurnRange, tuple[int, int]]:
        wanted = {(one.file_id, turn) for one in turns for turn in (one.first, one.last)}
        columns = {"files": [at for at, _ in wanted], "turns": [turn for _, turn in wanted]}
        entry: dict[tuple[int, int], int] = {}
        for file_id, turn, first_turn, lines in self._transaction.run(_SELECT_ENTRIES, columns):
            entry[file_id, turn] = entry_at(lines, turn - first_turn)
        return {one: (entry[one.file_id, one.first], entry[one.file_id, one.last]) for one in turns}

    def enrol(self, source: str, paths: Collection[str]) -> None:
        self._transaction.remember(source, "1", here=True)
        row = {"paths": sorted(paths)}
        self._transaction.write_all((ENTER_VIEWPOINT, {}), (_ENROL, row), (_STAMP_NEW, row))

    def disenrol(self, sources: Iterable[str]) -> None:
        self._transaction.write(
            "DELETE FROM meta WHERE agent_id = %(agent)s AND viewpoint = %(viewpoint)s AND key = ANY(%(keys)s::text[])",
            {"keys": list(sources)},
        )

    def publish(self, piece: TranscriptPiece) -> int:
        row = _row(piece)
        _, found, *_ = self._transaction.write_all((LOCK, row), (_UPSERT, row), *stamping(row))
        ((file_id,),) = found
        work: list[AgentStatement] = list(_making_room(file_id, piece))
        if piece.end.end_byte > piece.begin.end_byte:
            part = {
                **msgspec.structs.asdict(piece.end),
                "file": file_id,
                "first_turn": piece.begin.end_turn + 1,
                "lines": piece.packed_numbers(),
            }
            work.append((_INSERT_PART, part))
        if piece.begin == START and piece.is_last:
            work.append((FORGET_LANGUAGES, {"file": file_id}))
        work.append(languages_of(file_id, piece.prepared))
        replaced = replace_chunks(
            self._transaction,
            file_id,
            piece.chunks(),
            first=piece.begin.end_char,
            before=piece.end_char,
            also=work,
        )
        self._transaction.write(
            "UPDATE files SET chunk_count = chunk_count + %(more)s"
            " WHERE agent_id = %(agent)s AND file_id = %(file)s",
            {"more": replaced.written - replaced.removed, "file": file_id},
        )
        return replaced.written

    def touch(self, path: str, stamps: tuple[int, int, int, int], read_at_ns: int) -> None:
        row = stamp_row("sessions", path, (*stamps, read_at_ns), b"")
        self._transaction.write_all(*stamping(row))


def _row(piece: TranscriptPiece) -> dict[str, object]:
    return {
        **stamp_row("sessions", piece.path, (*piece.stamps, piece.read_at_ns), b""),
        "pipeline": piece.pipeline,
        "note_date": piece.prepared.note_date,
        "tail": piece.end.tail,
    }


def _making_room(file_id: int, piece: TranscriptPiece) -> Iterable[AgentStatement]:
    """Removes parts beyond the beginning: at once, or when the new pass has come as far."""
    row = {
        "file": file_id,
        "begin": piece.begin.end_byte,
        "turn": piece.end.end_turn,
        "all": piece.is_last,
    }
    own = "agent_id = %(agent)s AND file_id = %(file)s"
    delete = f"DELETE FROM transcript_parts WHERE {own}"
    if piece.is_rewritten:
        yield f"{delete} AND (superseded OR end_byte > %(begin)s)", row
    elif piece.begin == START:
        yield f"UPDATE transcript_parts SET superseded = true WHERE {own}", row
    yield f"{delete} AND superseded AND (end_turn <= %(turn)s OR %(all)s)", row
