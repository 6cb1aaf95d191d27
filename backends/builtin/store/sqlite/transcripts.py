"""How far each transcript was taken in, and which entry each of its turns is."""

from __future__ import annotations

from typing import Final

import apsw

LINE_BYTES: Final = 4
"""Of one entry's number in `transcript_parts.lines`."""


class SqliteTranscripts:
    """`TranscriptReads`."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def entries(self, file_id: int, first: int, last: int) -> tuple[int, int]:
        return self._entry(file_id, first), self._entry(file_id, last)

    def _entry(self, file_id: int, turn: int) -> int:
        first_turn, lines = self._connection.execute(
            "SELECT first_turn, lines FROM transcript_parts"
            " WHERE file_id = ? AND first_turn <= ? AND end_turn >= ? ORDER BY superseded LIMIT 1",
            (file_id, turn, turn),
        ).get
        place = (turn - first_turn) * LINE_BYTES
        return int.from_bytes(lines[place : place + LINE_BYTES], "little")
