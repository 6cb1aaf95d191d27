"""One search over the builtin index, from request to hits.

Owns the order of the steps and what a hit says. Blocks; runs in a worker thread on one read
transaction, so that all of its parts see the same state of the index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from typing import Final

import apsw

from backends.builtin.filtering import allowed_files
from backends.builtin.keyword import keyword_candidates, known_languages, query_weights
from backends.interface import Hit, SearchRequest
from backends.ranking.passages import Passage, Weights, find_passages
from backends.ranking.query import Query, QueryAnalyser
from config.settings import MemorySearchSettings

SNIPPET_CHARS: Final = 700
"""UTF-16 units, as documented."""
_MIN_CANDIDATES: Final = 24


class Searcher:
    """Searches one index. Holds no state but the analyser of queries."""

    def __init__(self, settings: MemorySearchSettings) -> None:
        self._settings = settings
        query = settings.query
        self._block = max(_MIN_CANDIDATES, query.max_results * query.hybrid.candidate_multiplier)
        self._analyser = QueryAnalyser()

    def search(self, connection: apsw.Connection, request: SearchRequest) -> tuple[Hit, ...]:
        """Hits, best first; asking for fewer gives a prefix."""
        query = self._analyse(connection, request.query)
        if not query.concepts:
            return ()
        weights = query_weights(connection, query)
        settings = self._settings.query
        wanted = request.max_results or settings.max_results
        min_score = settings.min_score if request.min_score is None else request.min_score
        hits: list[Hit] = []
        ceiling = 1.0
        for passage in self._passages(connection, request, query, weights):
            ceiling = min(ceiling, calibrate(passage.score))
            if ceiling < min_score or len(hits) == wanted:
                break
            hits.append(_hit(connection, passage, ceiling, explain=request.explain))
        return tuple(hits)

    def _analyse(self, connection: apsw.Connection, text: str) -> Query:
        languages = known_languages(connection)
        if languages != self._analyser.languages:
            self._analyser = QueryAnalyser(languages)
        return self._analyser.analyse(text)

    def _passages(
        self,
        connection: apsw.Connection,
        request: SearchRequest,
        query: Query,
        weights: Weights,
    ) -> Iterator[Passage]:
        """Passages block by block of candidates, so that the order never depends on the limit."""
        file_ids = allowed_files(connection, request, self._settings.sources)
        taken: set[tuple[int, int]] = set()
        texts: set[str] = set()
        for number in count():
            candidates = keyword_candidates(
                connection,
                query,
                limit=self._block,
                offset=number * self._block,
                file_ids=file_ids,
            )
            for passage in find_passages(candidates, weights, max_chars=SNIPPET_CHARS, taken=taken):
                text = " ".join(passage.text.split())
                if passage.coverage > 0 and text not in texts:
                    texts.add(text)
                    yield passage
            if len(candidates) < self._block:
                return


def calibrate(score: float) -> float:
    """A passage's share of the query's information as the 0..1 score that `minScore` speaks of.

    The cube root lets a passage with a twentieth of the information, one word of a long
    question, pass the documented 0.35, and keeps a full match near 1.
    """
    return math.cbrt(min(1.0, max(0.0, score)))


def _hit(connection: apsw.Connection, passage: Passage, score: float, *, explain: bool) -> Hit:
    path, source = connection.execute(
        "SELECT path, source FROM files WHERE id = ?", (passage.file_id,)
    ).get
    score = round(score, 4)
    return Hit(
        path=path,
        start_line=passage.start_line,
        end_line=passage.end_line,
        score=score,
        snippet=passage.text,
        source=source,
        text_score=score,
        explain=_explanation(passage) if explain else None,
    )


def _explanation(passage: Passage) -> dict[str, object]:
    return {
        "matchedTerms": [concept.alternatives[0] for concept in passage.matched],
        "coverage": round(passage.coverage, 4),
        "passageScore": round(passage.score, 4),
        "chunkId": passage.chunk_id,
    }
