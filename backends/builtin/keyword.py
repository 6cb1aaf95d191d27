"""The keyword lane: from a query to the chunks that BM25 ranks first.

Owns the FTS5 statements and the collection statistics behind the ranking. Reads only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from backends.ranking.passages import Candidate
from backends.ranking.query import Query
from backends.ranking.weights import Weights

BODY_WEIGHT: Final = 1.0
CONTEXT_WEIGHT: Final = 0.5
"""Titles, headings, file name and date count, but less than what the note says."""


_SELECT_CANDIDATES: Final = """
    SELECT c.id, c.file_id, c.start, c.start_line, c.text, c.terms, -t.rank
    FROM chunk_terms AS t JOIN chunks AS c ON c.id = t.rowid
    WHERE t.chunk_terms MATCH :match AND t.rank MATCH :rank {only}
    ORDER BY t.rank, c.id LIMIT :limit OFFSET :offset
"""


def query_weights(connection: apsw.Connection, query: Query) -> Weights:
    """How much each concept of the query tells apart in this index."""
    documents = connection.execute("SELECT coalesce(sum(chunk_count), 0) FROM files").get
    terms = query.terms()
    placeholders = ", ".join("?" * len(terms))
    frequencies = dict(
        connection.execute(
            f"SELECT term, doc FROM temp.term_statistics WHERE term IN ({placeholders})",  # noqa: S608
            terms,
        )
    )
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
            "match": " OR ".join(f'"{term}"' for term in terms),
            "rank": f"bm25({BODY_WEIGHT}, {CONTEXT_WEIGHT})",
            "limit": limit,
            "offset": offset,
            "files": None if file_ids is None else apsw.carray(_int64s(file_ids)),
        },
    )
    return [Candidate(*row) for row in rows]


def _int64s(values: Sequence[int]) -> memoryview:
    from array import array  # noqa: PLC0415 - only filtered searches need it

    return memoryview(array("q", values))
