"""The keyword lane in SQLite: FTS5 finds and scores the chunks, one statement a tier of words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, cast

import apsw
from msgspec.structs import replace

from backends.builtin.store.port import (
    BODY_WEIGHT,
    CONTEXT_WEIGHT,
    MOST_LONGER,
    Corpus,
    Lookup,
    Word,
    WordPart,
)
from backends.builtin.store.sqlite.connections import int64s
from backends.ranking.evidence import Candidate
from config.settings import Source

if TYPE_CHECKING:
    from backends.ranking.query import Concept

_SELECT_CORPUS: Final = """
    SELECT (SELECT coalesce(sum(chunk_count), 0) FROM files),
        EXISTS (SELECT 1 FROM files WHERE source = 'memory'),
        EXISTS (SELECT 1 FROM files WHERE source = 'sessions')
"""
# From one language to the next: DISTINCT would read a row of each file.
_SELECT_LANGUAGES: Final = """
    WITH RECURSIVE found (language) AS (
        SELECT min(language) FROM file_languages
        UNION ALL
        SELECT (SELECT min(language) FROM file_languages AS f WHERE f.language > found.language)
        FROM found WHERE found.language IS NOT NULL
    )
    SELECT language FROM found WHERE language IS NOT NULL
"""
_COUNT_TERM: Final = "SELECT doc FROM temp.term_statistics WHERE term = ?"
_COUNT_PREFIX: Final = "SELECT max(doc) FROM temp.term_statistics WHERE term >= ? AND term < ?"

_SELECT_BEGUN: Final = (
    "SELECT term, doc FROM temp.term_statistics WHERE term > ? AND term < ? LIMIT ?"
)
_SELECT_ENDED: Final = _SELECT_BEGUN.replace("term_statistics", "word_end_statistics")

# bm25() in a statement of its own: FTS5's column `rank` costs twice as much, and once more for each
# row that is asked for by its id. The newest chunks are kept where there are too many.
_SELECT_SCORES: Final = """
    {permitted}
    SELECT rowid, -bm25(chunk_terms, :body, :context) FROM chunk_terms
    WHERE chunk_terms MATCH :match {only} ORDER BY rowid DESC LIMIT :most
"""
_PERMITTED: Final = """
    WITH permitted AS MATERIALIZED
        (SELECT id FROM chunks WHERE file_id IN (SELECT value FROM carray(:files)))
"""
_ONLY: Final = """
    AND rowid BETWEEN (SELECT min(id) FROM permitted) AND (SELECT max(id) FROM permitted)
    AND +rowid IN permitted
"""
_SELECT_CHUNKS: Final = """
    SELECT c.id, c.file_id, c.start, c.start_line, c.text, c.terms, 0.0, f.path, c.context
    FROM chunks AS c JOIN files AS f ON f.id = c.file_id
    WHERE c.id IN (SELECT value FROM carray(?)) ORDER BY c.id
"""
_SELECT_IN_ORDER: Final = """
    SELECT c.id FROM chunks AS c JOIN files AS f ON f.id = c.file_id
    WHERE c.id IN (SELECT value FROM carray(?)) ORDER BY f.path, c.start
"""


class SqliteKeywords:
    """`KeywordReads` over a reader's connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def corpus(self) -> Corpus:
        documents, has_memory, has_sessions = self._connection.execute(_SELECT_CORPUS).get
        held = (("memory", has_memory), ("sessions", has_sessions))
        return Corpus(
            documents,
            tuple(name for (name,) in self._connection.execute(_SELECT_LANGUAGES)),
            frozenset(cast("Source", source) for source, is_held in held if is_held),
        )

    def count(self, words: Sequence[Word]) -> list[int]:
        return [self._count(word) for word in words]

    def longer(self, parts: Sequence[WordPart]) -> list[dict[str, int]]:
        return [self._longer(part) for part in parts]

    def matches(self, lookup: Lookup, file_ids: Sequence[int] | None) -> SqliteMatches:
        return SqliteMatches(self._connection, lookup, file_ids)

    def _count(self, word: Word) -> int:
        bindings = (word.term, f"{word.term}\U0010ffff") if word.is_prefix else (word.term,)
        statement = _COUNT_PREFIX if word.is_prefix else _COUNT_TERM
        return self._connection.execute(statement, bindings).get or 0

    def _longer(self, part: WordPart) -> dict[str, int]:
        if not part.is_end:
            bindings = (part.text, f"{part.text}\U0010ffff", MOST_LONGER)
            return dict(self._connection.execute(_SELECT_BEGUN, bindings))
        start = part.text[::-1]
        rows = self._connection.execute(_SELECT_ENDED, (start, f"{start}\U0010ffff", MOST_LONGER))
        return {term[::-1]: chunks for term, chunks in rows}


class SqliteMatches:
    """`Matches`, looked up when the first of them is wanted."""

    def __init__(
        self, connection: apsw.Connection, lookup: Lookup, file_ids: Sequence[int] | None
    ) -> None:
        self._connection = connection
        self._lookup = lookup
        self._file_ids = file_ids
        self._ranked: list[int] = []

    def best(
        self, limit: int, offset: int = 0, also: Sequence[int] = ()
    ) -> tuple[list[Candidate], list[Candidate]]:
        missing = offset + limit - len(self._ranked)
        self._ranked += islice(self._order, max(0, missing))
        best = self._ranked[offset : offset + limit]
        others = [chunk_id for chunk_id in also if chunk_id not in best]
        return self._of(best), self._of(others) if others else []

    def _of(self, chunk_ids: Sequence[int]) -> list[Candidate]:
        rows = self._connection.execute(_SELECT_CHUNKS, (int64s(chunk_ids),))
        found = {row[0]: Candidate(*row) for row in rows}
        return [
            replace(found[chunk_id], bm25=self._scores.get(chunk_id, 0.0))
            for chunk_id in chunk_ids
            if chunk_id in found
        ]

    @cached_property
    def _scores(self) -> dict[int, float]:
        """BM25 by chunk id. That of several words is the sum of theirs."""
        scores: dict[int, float] = {}
        if self._file_ids is not None and not self._file_ids:
            return scores
        for concepts in self._lookup.tiers:
            found = self._scored(concepts)
            if not scores:
                scores = dict(found)
            else:
                for chunk_id, score in found:
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + score
            if len(scores) >= self._lookup.enough:
                break
        return scores

    def _scored(self, concepts: Sequence[Concept]) -> apsw.Cursor:
        parameters: dict[str, Any] = {
            "match": _match(concepts),
            "body": BODY_WEIGHT,
            "context": CONTEXT_WEIGHT,
            "most": self._lookup.most,
        }
        if self._file_ids is None:
            statement = _SELECT_SCORES.format(permitted="", only="")
        else:
            statement = _SELECT_SCORES.format(permitted=_PERMITTED, only=_ONLY)
            parameters["files"] = int64s(self._file_ids)
        return self._connection.execute(statement, parameters)

    @cached_property
    def _order(self) -> Iterator[int]:
        return _in_order(self._connection, self._scores)


def _in_order(connection: apsw.Connection, scores: Mapping[int, float]) -> Iterator[int]:
    """The chunks, best first; equal ones by path and place."""
    score_of = scores.__getitem__
    for _, group in groupby(sorted(scores, key=score_of, reverse=True), key=score_of):
        equal = list(group)
        if len(equal) > 1:
            rows = connection.execute(_SELECT_IN_ORDER, (int64s(equal),))
            equal = [chunk_id for (chunk_id,) in rows]
        yield from equal


def _match(concepts: Sequence[Concept]) -> str:
    """Any concept will do. Terms hold no quotes, so nothing a user types is syntax."""
    return " OR ".join(
        f'"{term}"{"*" if concept.is_prefix else ""}'
        for concept in concepts
        for term in concept.alternatives
    )
