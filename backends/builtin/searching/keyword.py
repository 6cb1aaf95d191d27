"""The keyword lane: from a query to the chunks that BM25 ranks first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, groupby, islice
from typing import Any, Final, NamedTuple

import apsw
from msgspec.structs import replace

from backends.builtin.store.sqlite.connections import int64s
from backends.ranking.evidence import Candidate
from backends.ranking.query import Concept, Query

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


BODY_WEIGHT: Final = 1.0
CONTEXT_WEIGHT: Final = 0.5
"""Titles, headings, file name and date count, but less than what the note says."""
MIN_SCORED: Final = 1_000
"""Chunks that a query may have scored in an index of any size; a millisecond."""
MAX_SCORED: Final = 40_000
SCORED_SHARE: Final = 20
"""Between the two: one in so many chunks of the index."""
ENOUGH: Final = 200
"""Scored chunks, for which no further word is looked up."""
MAX_CONCEPTS: Final = 64
"""Of a long query, the rarest: more of them tell nothing new apart."""

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
_COUNT_PERMITTED: Final = (
    "SELECT coalesce(sum(chunk_count), 0) FROM files WHERE id IN (SELECT value FROM carray(?))"
)


def known_languages(connection: apsw.Connection) -> tuple[str, ...]:
    """The Latin-script languages in which stored texts were stemmed, in the order of their names."""
    return tuple(name for (name,) in connection.execute(_SELECT_LANGUAGES))


class KeywordLane:
    """The chunks that hold words of one query, within one read transaction of the caller."""

    def __init__(
        self,
        connection: apsw.Connection,
        query: Query,
        counts: TermCounts,
        file_ids: Sequence[int] | None = None,
    ) -> None:
        """`file_ids` limits the search itself; None permits every file."""
        self._connection = connection
        self._query = query
        self._counts = counts
        self._file_ids = file_ids
        self._ranked: list[int] = []

    def candidates(self, limit: int, offset: int = 0) -> list[Candidate]:
        """The next best chunks by BM25; equal ones by path and place."""
        missing = offset + limit - len(self._ranked)
        self._ranked += islice(self._order, max(0, missing))
        return self.candidates_by_id(self._ranked[offset : offset + limit])

    def candidates_by_id(self, chunk_ids: Sequence[int]) -> list[Candidate]:
        """Chunks, also such as another lane proposes, with their BM25 scores: 0 without a word."""
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
        if not self._query.concepts or (self._file_ids is not None and not self._file_ids):
            return {}
        documents = self._counts.documents
        most = min(MAX_SCORED, max(MIN_SCORED, documents // SCORED_SHARE))
        scores: dict[int, float] = {}
        for concepts in tiers(self._query, self._counts, most * documents // self._permitted()):
            found = self._scored(concepts, most)
            if not scores:
                scores = dict(found)
            else:
                for chunk_id, score in found:
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + score
            if len(scores) >= ENOUGH:
                break
        return scores

    def _scored(self, concepts: Sequence[Concept], most: int) -> apsw.Cursor:
        parameters: dict[str, Any] = {
            "match": _match(concepts),
            "body": BODY_WEIGHT,
            "context": CONTEXT_WEIGHT,
            "most": most,
        }
        if self._file_ids is None:
            statement = _SELECT_SCORES.format(permitted="", only="")
        else:
            statement = _SELECT_SCORES.format(permitted=_PERMITTED, only=_ONLY)
            parameters["files"] = int64s(self._file_ids)
        return self._connection.execute(statement, parameters)

    def _permitted(self) -> int:
        if self._file_ids is None:
            return max(1, self._counts.documents)
        count: int = self._connection.execute(_COUNT_PERMITTED, (int64s(self._file_ids),)).get
        return max(1, count)

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


def tiers(query: Query, counts: TermCounts, most: int) -> Iterator[list[Concept]]:
    """The rarest concepts that together at most `most` chunks hold, then each further one alone."""
    size = {concept: _chunks_with(concept, counts) for concept in query.concepts}
    known = [concept for concept in query.concepts if size[concept]]
    by_rarity = sorted(known, key=size.__getitem__)[:MAX_CONCEPTS]
    running = accumulate(size[concept] for concept in by_rarity)
    together = sum(min(chunks, counts.documents) <= most for chunks in running)
    if together:
        yield by_rarity[:together]
    yield from ([concept] for concept in by_rarity[together:])


def _chunks_with(concept: Concept, counts: TermCounts) -> int:
    return sum(counts.by_term[term] for term in concept.alternatives)


def _match(concepts: Sequence[Concept]) -> str:
    """Any concept will do. Terms hold no quotes, so nothing a user types is syntax."""
    return " OR ".join(
        f'"{term}"{"*" if concept.is_prefix else ""}'
        for concept in concepts
        for term in concept.alternatives
    )
