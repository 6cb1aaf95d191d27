"""How many chunks hold each word of a query.

Owns the counting and what is remembered of it. FTS5 keeps no such number: to count a word is to walk
through all chunks that hold it, so that the common words of a question would cost more than its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import apsw

from backends.ranking.query import Query

_COMMON: Final = 1_000
"""A word in more chunks than these is not counted again for each query ..."""
_DRIFT: Final = 64
"""... as long as the index has not grown or shrunk by more than one in so many chunks."""
_MAX_REMEMBERED: Final = 20_000

_COUNT_DOCUMENTS: Final = "SELECT coalesce(sum(chunk_count), 0) FROM files"
_COUNT_TERM: Final = "SELECT doc FROM temp.term_statistics WHERE term = ?"
_COUNT_PREFIX: Final = "SELECT max(doc) FROM temp.term_statistics WHERE term >= ? AND term < ?"


class TermCounts(NamedTuple):
    """Of one query, in chunks."""

    documents: int
    """All chunks of the index."""
    by_term: Mapping[str, int]
    """For a prefix the most frequent term that begins with it."""


class Frequencies:
    """The counts of one index. Any thread may call."""

    def __init__(self) -> None:
        self._remembered: dict[str, tuple[int, int]] = {}
        """By common word: its count, and how many chunks there were then."""

    def of(self, connection: apsw.Connection, query: Query) -> TermCounts:
        """Inside a read transaction of the caller, over a reader's connection."""
        documents: int = connection.execute(_COUNT_DOCUMENTS).get
        counts = {
            term: _prefix(connection, term)
            if concept.is_prefix
            else self._term(connection, term, documents)
            for concept in query.concepts
            for term in concept.alternatives
        }
        return TermCounts(documents, counts)

    def _term(self, connection: apsw.Connection, term: str, documents: int) -> int:
        count, before = self._remembered.get(term, (0, 0))
        if count and _DRIFT * abs(documents - before) <= documents:
            return count
        count = connection.execute(_COUNT_TERM, (term,)).get or 0
        if count > _COMMON:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[term] = count, documents
        return count


def _prefix(connection: apsw.Connection, term: str) -> int:
    count: int = connection.execute(_COUNT_PREFIX, (term, f"{term}\U0010ffff")).get or 0
    return count
