"""One search over the builtin index, from request to hits.

Owns the order of the steps and what a hit says. Blocks; runs in a worker thread on one read
transaction, so that all of its parts see the same state of the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

import apsw

from backends.builtin.filtering import allowed_files
from backends.builtin.keyword import keyword_candidates, known_languages, query_weights
from backends.interface import Hit, SearchRequest
from backends.ranking.fusion import PassageRanker, RankedPassage
from backends.ranking.query import Query, QueryAnalyser
from config.settings import MemorySearchSettings

SNIPPET_CHARS: Final = 700
"""UTF-16 units, as documented."""
_MIN_CANDIDATES: Final = 24
_MAX_CANDIDATES: Final = 200


class Searcher:
    """Searches one index. Holds no state but the analyser of queries."""

    def __init__(self, settings: MemorySearchSettings) -> None:
        self._settings = settings
        query = settings.query
        wanted = query.max_results * query.hybrid.candidate_multiplier
        self._block = min(_MAX_CANDIDATES, max(_MIN_CANDIDATES, wanted))
        self._analyser = QueryAnalyser()

    def search(self, connection: apsw.Connection, request: SearchRequest) -> tuple[Hit, ...]:
        """Hits, best first; asking for fewer gives a prefix."""
        query = self._analyse(connection, request.query)
        if not query.concepts:
            return ()
        settings = self._settings.query
        wanted = request.max_results or settings.max_results
        min_score = settings.min_score if request.min_score is None else request.min_score
        hits: list[Hit] = []
        for ranked in self._ranked(connection, request, query):
            if ranked.score < min_score or len(hits) == wanted:
                break
            hits.append(_hit(connection, ranked, explain=request.explain))
        return tuple(hits)

    def _analyse(self, connection: apsw.Connection, text: str) -> Query:
        languages = known_languages(connection)
        if languages != self._analyser.languages:
            self._analyser = QueryAnalyser(languages)
        return self._analyser.analyse(text)

    def _ranked(
        self, connection: apsw.Connection, request: SearchRequest, query: Query
    ) -> Iterator[RankedPassage]:
        """Passages block by block of candidates, so that the order never depends on the limit."""
        file_ids = allowed_files(connection, request, self._settings.sources)
        weights = query_weights(connection, query)
        ranker = PassageRanker(weights, max_chars=SNIPPET_CHARS)
        for number in count():
            candidates = keyword_candidates(
                connection,
                query,
                limit=self._block,
                offset=number * self._block,
                file_ids=file_ids,
            )
            yield from ranker.rank(candidates)
            if len(candidates) < self._block:
                return


def _hit(connection: apsw.Connection, ranked: RankedPassage, *, explain: bool) -> Hit:
    passage = ranked.passage
    path, source = connection.execute(
        "SELECT path, source FROM files WHERE id = ?", (passage.file_id,)
    ).get
    return Hit(
        path=path,
        start_line=passage.start_line,
        end_line=passage.end_line,
        score=round(ranked.score, 4),
        snippet=passage.text,
        source=source,
        text_score=round(ranked.text_score, 4),
        vector_score=None if ranked.vector_score is None else round(ranked.vector_score, 4),
        explain=_explanation(ranked) if explain else None,
    )


def _explanation(ranked: RankedPassage) -> dict[str, object]:
    return {
        "matchedTerms": [concept.alternatives[0] for concept in ranked.passage.matched],
        "coverage": round(ranked.coverage, 4),
        "fused": round(ranked.fused, 4),
        "chunkId": ranked.passage.chunk_id,
    }
