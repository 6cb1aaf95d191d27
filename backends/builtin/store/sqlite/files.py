"""The rows of files: what a search reads of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import apsw

from backends.builtin.store.port import FileCard, NoteNames
from backends.builtin.store.sqlite.connections import int64s

SEPARATOR: Final = "\x1f"
"""Between the aliases, the tags or the headings of one row."""

_SELECT_CARDS: Final = """
    SELECT f.id, f.source, f.path, f.note_date, f.chunk_count, ifnull(n.title, ''), ifnull(n.tags, '')
    FROM files AS f LEFT JOIN note_facts AS n ON n.file_id = f.id
    WHERE f.id IN (SELECT value FROM carray(?))
"""
_SELECT_DATES: Final = """
    SELECT id, note_date FROM files
    WHERE note_date IS NOT NULL AND id IN (SELECT value FROM carray(?))
"""
_SELECT_NAMES: Final = """
    SELECT f.path, ifnull(n.title, ''), ifnull(n.aliases, '')
    FROM files AS f LEFT JOIN note_facts AS n ON n.file_id = f.id
    WHERE f.source = 'memory' ORDER BY length(f.path), f.path
"""


class SqliteFiles:
    """`FileReads`."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def cards(self, file_ids: Collection[int]) -> Mapping[int, FileCard]:
        rows = self._connection.execute(_SELECT_CARDS, (int64s(list(file_ids)),))
        return {
            file_id: FileCard(file_id, source, path, day, chunks, title, split(tags))
            for file_id, source, path, day, chunks, title, tags in rows
        }

    def all_cards(self, *, with_tags: bool) -> Iterator[FileCard]:
        tags = self._tags() if with_tags else {}
        rows = self._connection.execute(
            "SELECT id, source, path, note_date, chunk_count FROM files"
        )
        for file_id, source, path, day, chunks in rows:
            yield FileCard(file_id, source, path, day, chunks, tags=tags.get(file_id, ()))

    def note_dates(self, file_ids: Collection[int]) -> Mapping[int, str]:
        return dict(self._connection.execute(_SELECT_DATES, (int64s(list(file_ids)),)))

    def names(self) -> Sequence[NoteNames]:
        rows = self._connection.execute(_SELECT_NAMES)
        return [NoteNames(path, title, split(aliases)) for path, title, aliases in rows]

    def _tags(self) -> Mapping[int, tuple[str, ...]]:
        """By file, of those that have any."""
        rows = self._connection.execute("SELECT file_id, tags FROM note_facts WHERE tags != ''")
        return {file_id: split(tags) for file_id, tags in rows}


def split(joined: str) -> tuple[str, ...]:
    return tuple(joined.split(SEPARATOR)) if joined else ()
