"""One search over the builtin index, from the request to the hits: lanes, filters, decay, ranking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import apsw
from msgspec.structs import replace

from backends.builtin.notes.facts import all_tags, facts_of, links_in, resolve_links
from backends.builtin.searching.keyword import Frequencies, KeywordLane, known_languages
from backends.builtin.sessions.state import entries_of
from backends.builtin.store.sqlite.connections import int64s
from backends.files.roots import Filter
from backends.interface import Hit, Mode, SearchRequest
from backends.ranking.evidence import KEYWORDS_ONLY, Background, Candidate, Excerpt, Lanes
from backends.ranking.fusion import Explanation, PassageRanker, RankedPassage, explain
from backends.ranking.query import Query, QueryAnalyser, Weights
from backends.transcripts.source import is_file
from config.settings import DecaySettings, MemorySearchSettings, Source

if TYPE_CHECKING:
    from backends.builtin.store.sqlite.vectors.select import VectorSearch
    from providers.interface import QueryVector


def aged(
    connection: apsw.Connection,
    candidates: Sequence[Candidate],
    settings: DecaySettings,
    today: date,
) -> list[Candidate]:
    """The candidates with what is left of their weight: half after each half-life."""
    files = int64s(list({one.file_id for one in candidates}))
    share = {
        file_id: 0.5 ** (max(0, (today - date.fromisoformat(day)).days) / settings.half_life_days)
        for file_id, day in connection.execute(
            "SELECT id, note_date FROM files WHERE note_date IS NOT NULL"
            " AND id IN (SELECT value FROM carray(?))",
            (files,),
        )
    }
    return [replace(one, freshness=share.get(one.file_id, 1.0)) for one in candidates]


class ExcerptPlace(NamedTuple):
    """Characters `start` to `end` of its chunk's text."""

    id: int
    start: int
    end: int


def chunks_of(connection: apsw.Connection, excerpt_ids: Sequence[int]) -> list[int]:
    """The chunks that hold these excerpts, in the order of their first one."""
    chunk_of = dict(
        connection.execute(
            "SELECT id, chunk_id FROM excerpts WHERE id IN (SELECT value FROM carray(?))",
            (int64s(excerpt_ids),),
        )
    )
    return list(dict.fromkeys(chunk_of[number] for number in excerpt_ids))


def excerpts_of(
    connection: apsw.Connection, chunk_ids: Sequence[int]
) -> Mapping[int, list[ExcerptPlace]]:
    """By chunk, in order."""
    found: dict[int, list[ExcerptPlace]] = defaultdict(list)
    for chunk_id, *place in connection.execute(
        'SELECT chunk_id, id, start, "end" FROM excerpts'
        " WHERE chunk_id IN (SELECT value FROM carray(?)) ORDER BY chunk_id, start",
        (int64s(chunk_ids),),
    ):
        found[chunk_id].append(ExcerptPlace(*place))
    return found


MAX_BLOCKS: Final = 40
"""What follows after some thousand candidates is nothing anybody asked for."""


class VectorLane(NamedTuple):
    """The query's vector against the stored ones of the same fingerprint."""

    connection: apsw.Connection
    engines: VectorSearch
    fingerprint_id: int
    query: QueryVector
    file_ids: Sequence[int] | None

    @classmethod
    def open(
        cls,
        connection: apsw.Connection,
        engines: VectorSearch,
        query: QueryVector,
        file_ids: Sequence[int] | None,
    ) -> VectorLane | None:
        """None while no vector of this fingerprint is stored."""
        from backends.builtin.store.sqlite.vectors.store import fingerprint_id  # noqa: PLC0415 - needs numpy

        number = fingerprint_id(connection, query.fingerprint)
        return None if number is None else cls(connection, engines, number, query, file_ids)

    def nearest(self, limit: int) -> dict[int, float]:
        """Cosines by excerpt id, best first; nothing when no engine can search."""
        from backends.builtin.store.sqlite.vectors.engines import VectorAnswer  # noqa: PLC0415 - as above

        answer = self.engines.search(
            self.connection,
            self.fingerprint_id,
            self.query.vector,
            limit=limit,
            file_ids=self.file_ids,
        )
        return dict(answer.hits) if isinstance(answer, VectorAnswer) else {}

    def background(self) -> Background | None:
        """How high the query's cosines are at large."""
        return self.engines.background(self.connection, self.fingerprint_id, self.query.vector)

    def is_complete(self) -> bool:
        """Whether every text has a vector that the query's can be compared with."""
        dimensions = len(self.query.vector)
        return self.engines.covers_all(self.connection, self.fingerprint_id, dimensions)

    def chunks(self, excerpt_ids: Sequence[int]) -> list[int]:
        """The chunks that hold these excerpts, in the order of their first one."""
        return chunks_of(self.connection, excerpt_ids)

    def excerpts(
        self, chunk_ids: Sequence[int], known: Mapping[int, float]
    ) -> dict[int, tuple[Excerpt, ...]]:
        """By chunk, with their cosines; those without a usable vector are left out.

        `known`: the cosines that `nearest` found.
        """
        from backends.builtin.store.sqlite.vectors.scans import cosines_of  # noqa: PLC0415 - needs numpy

        places = excerpts_of(self.connection, chunk_ids)
        ids = {place.id for of_chunk in places.values() for place in of_chunk}
        others = sorted(ids.difference(known))
        cosines = {
            **known,
            **cosines_of(self.connection, self.fingerprint_id, self.query.vector, others),
        }
        return {
            chunk_id: tuple(
                Excerpt(place.start, place.end, cosines[place.id])
                for place in of_chunk
                if place.id in cosines
            )
            for chunk_id, of_chunk in places.items()
        }


class Candidates:
    """The candidates of one query, in blocks of up to `block` of each lane."""

    def __init__(
        self,
        words: KeywordLane,
        *,
        block: int,
        vectors: VectorLane | None,
        keywords: bool = True,
    ) -> None:
        self._words = words
        self._block = block
        self._vectors = vectors
        self._nearest = vectors.nearest(block) if vectors else {}
        self.background = vectors.background() if vectors and self._nearest else None
        """None without vectors."""
        self.keywords = keywords or vectors is None or not vectors.is_complete()
        """Whether the keyword lane takes part: unasked, too, while any text lacks its vector."""

    def __iter__(self) -> Iterator[list[Candidate]]:
        seen: set[int] = set()
        for number in count():
            by_words = self._by_words(number)
            by_meaning = self._by_meaning(number)
            words = [one for one in by_words if one.chunk_id not in seen]
            seen.update(one.chunk_id for one in words)
            chunks = self._vectors.chunks(by_meaning) if self._vectors and by_meaning else []
            others = [chunk_id for chunk_id in chunks if chunk_id not in seen]
            seen.update(others)
            yield self._scored(words, others)
            if max(len(by_words), len(by_meaning)) < self._block or number >= MAX_BLOCKS:
                return

    def _by_words(self, number: int) -> list[Candidate]:
        if not self.keywords:
            return []
        return self._words.candidates(self._block, number * self._block)

    def _by_meaning(self, number: int) -> list[int]:
        if self._vectors is None:
            return []
        end = (number + 1) * self._block
        if len(self._nearest) == self._block and number:
            self._nearest = self._vectors.nearest((MAX_BLOCKS + 1) * self._block)
        return list(self._nearest)[end - self._block : end]

    def _scored(self, words: list[Candidate], others: list[int]) -> list[Candidate]:
        if others:
            words = words + self._words.candidates_by_id(others)
        if self._vectors is None or not words:
            return words
        excerpts = self._vectors.excerpts([one.chunk_id for one in words], self._nearest)
        return [replace(one, excerpts=excerpts.get(one.chunk_id, ())) for one in words]


class Allowed(NamedTuple):
    file_ids: list[int] | None
    """Row ids of the permitted files, or None when every indexed file is permitted."""
    undated: int = 0
    """Files that only the lack of a date keeps out."""


def allowed_files(
    connection: apsw.Connection,
    request: SearchRequest,
    configured: Sequence[Source],
    without: Collection[str] = (),
) -> Allowed:
    """No path in `without` is permitted."""
    sources = set(configured).intersection(request.sources or configured)
    filtering = Filter(request)
    if not (filtering.active or without) and not _holds_others(connection, sources):
        return Allowed(None)
    tags = all_tags(connection) if request.tags else {}
    permitted, undated = [], 0
    for file_id, source, path, day in connection.execute(
        "SELECT id, source, path, note_date FROM files"
    ):
        if source not in sources or path in without:
            continue
        if filtering.dated and day is None:
            undated += filtering.permits_but_for_date(path, tags.get(file_id, ()))
        elif filtering.permits(path, day, tags.get(file_id, ())):
            permitted.append(file_id)
    return Allowed(permitted, undated)


def _holds_others(connection: apsw.Connection, sources: set[Source]) -> bool:
    """Whether the index has files of a source that may not answer. One seek a source."""
    return any(
        connection.execute("SELECT 1 FROM files WHERE source = ? LIMIT 1", (source,)).fetchone()
        for source in set(get_args(Source)) - sources
    )


SNIPPET_CHARS: Final = 700
"""UTF-16 units, as documented."""
_MIN_CANDIDATES: Final = 24
_MAX_CANDIDATES: Final = 200


class Found(NamedTuple):
    hits: tuple[Hit, ...]
    mode: Mode
    """Which lanes took part."""
    undated: int = 0
    """Files that were left out for having no date."""


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
        file_ids, undated = allowed_files(connection, request, self._settings.sources, without)
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
        return Found(tuple(islice(hits, wanted)), _mode(candidates), undated)

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


def _explained(
    connection: apsw.Connection, explanation: Explanation, day: str | None, text: str
) -> Mapping[str, Any]:
    links = resolve_links(connection, links_in(text))
    explained = {**explanation, "date": day}
    return {**explained, "links": links} if links else explained


def _hit(
    connection: apsw.Connection, ranked: RankedPassage, explanation: Explanation | None
) -> Hit:
    passage = ranked.passage
    path, source, day = connection.execute(
        "SELECT path, source, note_date FROM files WHERE id = ?", (passage.file_id,)
    ).get
    start_line, end_line, events = passage.start_line, passage.end_line, None
    facts = facts_of(connection, passage.file_id)
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
        explain=None
        if explanation is None
        else _explained(connection, explanation, day, passage.text),
        events=events,
        title=facts.title or None,
        tags=facts.tags,
    )
