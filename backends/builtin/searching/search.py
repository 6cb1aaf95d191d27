"""One search over the builtin index, from request to hits.

Owns the order of the steps and what a hit says. Blocks; runs in a worker thread on one read
transaction, so that all of its parts see the same state of the index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import apsw

from backends.builtin.searching.decay import aged
from backends.builtin.searching.filtering import allowed_files
from backends.builtin.searching.frequencies import Frequencies
from backends.builtin.searching.keyword import KeywordLane, known_languages
from backends.builtin.searching.lanes import Candidates, VectorLane
from backends.builtin.sessions.state import entries_of
from backends.interface import Hit, Mode, SearchRequest
from backends.ranking.explaining import Explanation, explain
from backends.ranking.fusion import PassageRanker, RankedPassage
from backends.ranking.lanes import KEYWORDS_ONLY, Lanes
from backends.ranking.query import Query, QueryAnalyser
from backends.ranking.units import Candidate
from backends.ranking.weights import Weights
from backends.transcripts.listing import is_file
from config.settings import MemorySearchSettings

if TYPE_CHECKING:
    from backends.builtin.vectors.select import VectorSearch
    from providers.embedding.failover import QueryVector

SNIPPET_CHARS: Final = 700
"""UTF-16 units, as documented."""
_MIN_CANDIDATES: Final = 24
_MAX_CANDIDATES: Final = 200


class Found(NamedTuple):
    hits: tuple[Hit, ...]
    mode: Mode
    """Which lanes took part."""


class Searcher:
    """Searches one index. Holds no state but the analyser of queries."""

    def __init__(self, settings: MemorySearchSettings) -> None:
        self._settings = settings
        query = settings.query
        wanted = query.max_results * query.hybrid.candidate_multiplier
        self._block = min(_MAX_CANDIDATES, max(_MIN_CANDIDATES, wanted))
        self._analyser = QueryAnalyser()
        self._frequencies = Frequencies()

    def search(
        self,
        connection: apsw.Connection,
        request: SearchRequest,
        vector: QueryVector | None = None,
        engines: VectorSearch | None = None,
        *,
        without: Collection[str] = (),
    ) -> Found:
        """Hits, best first; asking for fewer gives a prefix. None is of a path in `without`.

        `engines` compare the query's vector.
        """
        query = self._analyse(connection, request.query)
        settings = self._settings.query
        wanted = request.max_results or settings.max_results
        min_score = settings.min_score if request.min_score is None else request.min_score
        file_ids = allowed_files(connection, request, self._settings.sources, without)
        lane = (
            VectorLane.open(connection, engines, vector, file_ids) if vector and engines else None
        )
        counts = self._frequencies.of(connection, query)
        candidates = Candidates(
            KeywordLane(connection, query, counts, file_ids),
            block=self._block,
            vectors=lane,
            keywords=settings.hybrid.enabled,
        )
        lanes = self._lanes(candidates)
        ranker = PassageRanker(
            Weights(query.concepts, counts.by_term, counts.documents),
            max_chars=SNIPPET_CHARS,
            lanes=lanes,
            background=candidates.background,
            strategy=settings.hybrid.fusion,
            min_score=min_score,
        )
        decay = settings.decay
        aging = (
            aged(connection, block, decay, datetime.now().astimezone().date())
            for block in candidates
        )
        ranked = _ranked(ranker, aging if decay.enabled else candidates)
        hits = (
            _hit(connection, one, explain(one, lanes, ranker.files()) if request.explain else None)
            for one in ranked
        )
        return Found(tuple(islice(hits, wanted)), _mode(candidates))

    def _lanes(self, candidates: Candidates) -> Lanes:
        if candidates.background is None:
            return KEYWORDS_ONLY
        if not candidates.keywords:
            return Lanes(text=0.0, vector=1.0)
        hybrid = self._settings.query.hybrid
        return Lanes.of(hybrid.text_weight, hybrid.vector_weight)

    def _analyse(self, connection: apsw.Connection, text: str) -> Query:
        languages = known_languages(connection)
        if languages != self._analyser.languages:
            self._analyser = QueryAnalyser(languages)
        return self._analyser.analyse(text)


def _ranked(ranker: PassageRanker, blocks: Iterable[list[Candidate]]) -> Iterator[RankedPassage]:
    """Until a whole block has nothing more: what follows is weaker in either lane."""
    for block in blocks:
        passage = None
        for passage in ranker.rank(block):
            yield passage
        if passage is None:
            return


def _mode(candidates: Candidates) -> Mode:
    if candidates.background is None:
        return "keyword"
    return "hybrid" if candidates.keywords else "vector"


def _hit(
    connection: apsw.Connection, ranked: RankedPassage, explanation: Explanation | None
) -> Hit:
    passage = ranked.passage
    path, source, day = connection.execute(
        "SELECT path, source, note_date FROM files WHERE id = ?", (passage.file_id,)
    ).get
    start_line, end_line, events = passage.start_line, passage.end_line, None
    if source == "sessions":
        first, last = entries_of(connection, passage.file_id, start_line, end_line)
        if is_file(path):
            start_line, end_line = first, last
        else:
            events = first - 1, last - 1
    return Hit(
        path=path,
        start_line=start_line,
        end_line=end_line,
        score=round(ranked.score, 4),
        snippet=passage.text,
        source=source,
        text_score=round(ranked.text_score, 4),
        vector_score=None if ranked.vector_score is None else round(ranked.vector_score, 4),
        explain=None if explanation is None else {**explanation, "date": day},
        events=events,
    )
