"""The keyword lane: from a query to the chunks that BM25 ranks first.

Owns the FTS5 statements and the collection statistics behind the ranking. Reads only.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

import apsw

from backends.ranking.passages import Candidate
from backends.ranking.query import Query
from backends.ranking.weights import Weights

BODY_WEIGHT: Final = 1.0
CONTEXT_WEIGHT: Final = 0.5
"""Titles, headings, file name and date count, but less than what the note says."""


_RANK: Final = f"bm25({BODY_WEIGHT}, {CONTEXT_WEIGHT})"
_SELECT_CANDIDATES: Final = """
    SELECT c.id, c.file_id, c.start, c.start_line, c.text, c.terms, -t.rank, NULL, f.path
    FROM chunk_terms AS t JOIN chunks AS c ON c.id = t.rowid JOIN files AS f ON f.id = c.file_id
    WHERE t.chunk_terms MATCH :match AND t.rank MATCH :rank {only}
    ORDER BY t.rank, f.path, c.start LIMIT :limit OFFSET :offset
"""

_COUNT_TERM: Final = "SELECT doc FROM temp.term_statistics WHERE term = :term"
_COUNT_PREFIX: Final = (
    "SELECT max(doc) FROM temp.term_statistics WHERE term >= :term AND term < :end"
)
_SELECT_CHUNKS: Final = """
    SELECT c.id, c.file_id, c.start, c.start_line, c.text, c.terms, 0.0, NULL, f.path
    FROM chunks AS c JOIN files AS f ON f.id = c.file_id WHERE c.id IN (SELECT value FROM carray(?)) ORDER BY c.id
"""
_SELECT_SCORES: Final = """
    SELECT rowid, -rank FROM chunk_terms
    WHERE chunk_terms MATCH ? AND rank MATCH ? AND rowid IN (SELECT value FROM carray(?))
"""


def query_weights(connection: apsw.Connection, query: Query) -> Weights:
    """How much each concept of the query tells apart in this index."""
    documents = connection.execute("SELECT coalesce(sum(chunk_count), 0) FROM files").get
    frequencies = {
        term: connection.execute(
            _COUNT_PREFIX if concept.is_prefix else _COUNT_TERM,
            {"term": term, "end": f"{term}\U0010ffff"},
        ).get
        or 0
        for concept in query.concepts
        for term in concept.alternatives
    }
    return Weights(query.concepts, frequencies, documents)


def known_languages(connection: apsw.Connection) -> tuple[str, ...]:
    """The Latin-script languages in which stored texts were stemmed."""
    return tuple(name for (name,) in connection.execute("SELECT language FROM languages"))


def keyword_candidates(
    connection: apsw.Connection,
    query: Query,
    *,
    limit: int,
    offset: int = 0,
    file_ids: Sequence[int] | None = None,
) -> list[Candidate]:
    """Chunks that hold any term of the query, best BM25 first; `file_ids` limits the search."""
    terms = query.terms()
    if not terms or (file_ids is not None and not file_ids):
        return []
    rows = connection.execute(
        _SELECT_CANDIDATES.format(
            only="" if file_ids is None else "AND c.file_id IN (SELECT value FROM carray(:files))"
        ),
        {
            "match": _match(query),
            "rank": _RANK,
            "limit": limit,
            "offset": offset,
            "files": None if file_ids is None else _carray(file_ids),
        },
    )
    return [Candidate(*row) for row in rows]


def candidates_by_id(
    connection: apsw.Connection, query: Query, chunk_ids: Sequence[int]
) -> list[Candidate]:
    """Chunks that another lane proposes, with their BM25 scores; 0 without a term of the query."""
    chunks = _carray(chunk_ids)
    scores = dict(
        connection.execute(_SELECT_SCORES, (_match(query), _RANK, chunks)) if query.concepts else ()
    )
    rows = connection.execute(_SELECT_CHUNKS, (chunks,))
    found = [Candidate(*row) for row in rows]
    return [one._replace(bm25=scores.get(one.chunk_id, 0.0)) for one in found]


def _match(query: Query) -> str:
    """Any concept will do. Terms hold no quotes, so nothing a user types is syntax."""
    return " OR ".join(
        f'"{term}"{"*" if concept.is_prefix else ""}'
        for concept in query.concepts
        for term in concept.alternatives
    )


def _carray(values: Sequence[int]) -> Any:
    return apsw.carray(memoryview(array("q", values)))
