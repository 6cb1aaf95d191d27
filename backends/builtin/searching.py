"""One search over the builtin index, from the request to the hits.

Below the `Searcher` its parts stand in the order in which it needs them: files, words, lanes, ageing, hits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import accumulate, count, islice
from typing import TYPE_CHECKING, Final, cast

import msgspec
from msgspec.structs import replace

from backends.builtin.links import links_in, resolve_links
from backends.builtin.store.port import (
    Corpus,
    FileCard,
    FileReads,
    KeywordReads,
    Lookup,
    Matches,
    TurnRange,
    Unavailable,
    VectorAnswer,
    VectorSpace,
    View,
    Word,
    WordPart,
)
from backends.files.roots import Filter
from backends.interface import Hit, Mode, SameLine, SearchRequest, Stretch
from backends.ranking import learnt
from backends.ranking.evidence import KEYWORDS_ONLY, LaneWeights
from backends.ranking.fusion import Explanation, PassageRanker, RankedPassage, explain
from backends.ranking.learnt import confidence_of
from backends.ranking.lines import Candidate
from backends.ranking.query import Concept, Query, QueryAnalyser, Weights, speaks_of_oneself
from backends.ranking.spelling import Misspelt
from backends.text.times import Days, asks_last, asks_when
from backends.transcripts.source import is_jsonl
from config.runtime.remembered import Remembered, size_of
from config.settings import DecaySettings, MemorySearchSettings, Source

if TYPE_CHECKING:
    from providers.provider_interface import QueryVector, Vector

SNIPPET_CHARS: Final = 700
"""The most characters of a snippet, in UTF-16 units, as documented."""


class Found(msgspec.Struct, frozen=True, gc=False):
    hits: tuple[Hit, ...]
    mode: Mode
    """The lanes that took part."""
    undated: int = 0
    """Files that were left out for having no date."""
    has_vectors: bool = False
    """True if there are vectors of the query's model, of permitted files or of others."""
    obstacle: str | None = None
    """The reason why they could not be compared with the query's."""
    is_filtered_out: bool = False
    """True if there are notes and the request's filters permit none of them."""


class Searcher:
    """Searches one index. Keeps only the analyser of queries and the counts of common words."""

    def __init__(self, settings: MemorySearchSettings) -> None:
        self._settings = settings
        query = settings.query
        self._candidates = query.max_results * query.hybrid.candidate_multiplier
        self._analyser = QueryAnalyser()
        self._frequencies = Frequencies()

    def search(
        self,
        view: View,
        request: SearchRequest,
        vector: QueryVector | None = None,
        *,
        without: Collection[str] = (),
    ) -> Found:
        """Returns hits, best first; a request for fewer gives a prefix. None has a path in `without`."""
        corpus = view.keywords.corpus()
        today = request.today or datetime.now().astimezone().date()
        settings = self._settings.query
        wanted = request.max_results or settings.max_results
        min_score = settings.min_score if request.min_score is None else request.min_score
        allowed = allowed_files(view, corpus, request, self._settings.sources, without)
        analyser = self._analyser_of(corpus)
        query, counts = self._analyse(analyser, view.keywords, corpus, request.query, today)
        lane = VectorLane.open(view, vector, allowed.file_ids)
        candidates = Candidates(
            view.keywords.matches(lookup(query, counts, allowed.chunks), allowed.file_ids),
            wanted=self._candidates,
            vectors=lane,
            keywords=settings.hybrid.enabled,
        )
        lanes = self._lanes(candidates)
        weights = Weights(
            query.concepts,
            counts.by_term,
            counts.documents,
            of_oneself=speaks_of_oneself(request.query),
            analyse=analyser.analyser(query.language).terms,
        )
        is_last = asks_last(request.query)
        ranker = PassageRanker(
            weights,
            max_chars=SNIPPET_CHARS,
            lanes=lanes,
            background=candidates.background,
            strategy=settings.hybrid.fusion,
            min_score=min_score,
            asks_when=asks_when(request.query),
            asks_last=is_last,
        )
        information = math.inf if is_last else weights.total
        ageing = Ageing(view.files, settings.decay, today, information)
        ranked = [
            (one, explain(one, lanes, ranker.files) if request.explain else None)
            for one in islice(_ranked(ranker, candidates, ageing), wanted)
        ]
        hits = tuple(_hits(view, ranker, ranked, query, counts))
        return Found(
            hits,
            _mode(candidates),
            allowed.undated,
            has_vectors=lane is not None,
            obstacle=candidates.obstacle,
            is_filtered_out=not allowed.chunks and corpus.documents > 0 and Filter(request).active,
        )

    def _lanes(self, candidates: Candidates) -> LaneWeights:
        if candidates.background is None:
            return KEYWORDS_ONLY
        if not candidates.keywords:
            return LaneWeights(text=0.0, vector=1.0)
        hybrid = self._settings.query.hybrid
        return LaneWeights.of(hybrid.text_weight, hybrid.vector_weight)

    def _with_compounds(
        self, analyser: QueryAnalyser, keywords: KeywordReads, asked: Query, counts: TermCounts
    ) -> tuple[Query, TermCounts]:
        compounds = analyser.compounds(asked, counts.by_term, counts.documents)
        if not compounds.parts:
            return asked, counts
        longer = keywords.longer([WordPart(*part) for part in compounds.parts])
        unknown = sorted(compounds.found(longer))
        more = self._frequencies.count(
            keywords, [Word(term, is_prefix=False) for term in unknown], counts.documents
        )
        query, by_term = compounds.extended(more)
        return query, TermCounts(counts.documents, by_term)

    def _with_misspelt(
        self, keywords: KeywordReads, asked: Query, counts: TermCounts
    ) -> tuple[Query, TermCounts]:
        misspelt = Misspelt(asked, counts.by_term)
        if not misspelt.parts:
            return asked, counts
        meant = misspelt.found(keywords.longer([WordPart(*part) for part in misspelt.parts]))
        terms = [Word(term, is_prefix=False) for one in meant for term in one.alternatives]
        more = self._frequencies.count(keywords, terms, counts.documents)
        query = replace(asked, related=(*asked.related, *meant))
        return query, TermCounts(counts.documents, {**counts.by_term, **more})

    def _analyser_of(self, corpus: Corpus) -> QueryAnalyser:
        """Returns the analyser for the languages of this state of the index: another search may see another state."""
        analyser = self._analyser
        if corpus.languages != analyser.languages:
            analyser = self._analyser = QueryAnalyser(corpus.languages)
        return analyser

    def _analyse(
        self,
        analyser: QueryAnalyser,
        keywords: KeywordReads,
        corpus: Corpus,
        text: str,
        today: date,
    ) -> tuple[Query, TermCounts]:
        """Returns what is asked, in words that are in the index, and the counts of those words."""
        asked = analyser.analyse(text, today)
        counts = self._frequencies.of(keywords, asked, corpus.documents)
        if asked.words:
            asked, counts = self._with_compounds(analyser, keywords, asked, counts)
        asked, counts = self._with_misspelt(keywords, asked, counts)
        return asked.among(counts.by_term), counts


def _mode(candidates: Candidates) -> Mode:
    if candidates.background is None:
        return "keyword"
    return "hybrid" if candidates.keywords else "vector"


# --- Which files may answer -----------------------------------------------------------------------


class Allowed(msgspec.Struct, frozen=True, gc=False):
    file_ids: list[int] | None
    """Ids of the permitted files, or None when every indexed file is permitted."""
    chunks: int
    """The number of chunks of the permitted files."""
    undated: int = 0
    """Files that only the lack of a date keeps out."""


def allowed_files(
    view: View,
    corpus: Corpus,
    request: SearchRequest,
    configured: Sequence[Source],
    without: Collection[str] = (),
) -> Allowed:
    """Returns the files that may answer; no path in `without` is permitted."""
    sources = set(configured).intersection(request.sources or configured)
    filtering = Filter(request)
    if not (filtering.active or without) and corpus.sources <= sources:
        return Allowed(None, corpus.documents)
    permitted: list[int] = []
    chunks = undated = 0
    for card in view.files.all_cards(with_tags=bool(request.tags)):
        if card.source not in sources or card.path in without:
            continue
        if filtering.dated and card.note_date is None:
            undated += filtering.permits_but_for_date(card.path, card.tags)
        elif filtering.permits(card.path, card.note_date, card.tags):
            permitted.append(card.id)
            chunks += card.chunks
    return Allowed(permitted, chunks, undated)


# --- Which words are looked up: the rarest first --------------------------------------------------

COMMON: Final = 1_000
"""A word in more chunks than these is common: its count is kept, and used again as long as `DRIFT` allows."""
DRIFT: Final = 64
"""A kept count is used until the index has grown or shrunk by more than one in so many chunks."""
COUNTS_BYTES: Final = 4 * 1024 * 1024


class TermCounts(msgspec.Struct, frozen=True, gc=False):
    """The number of chunks, and how many of them contain each term of one query."""

    documents: int
    """All chunks of the index."""
    by_term: Mapping[str, int]
    """The chunks with each term; for a prefix, with the most frequent term that begins with it."""


class Frequencies:
    """The counts of one index. Any thread may call."""

    def __init__(self) -> None:
        self._remembered: Remembered[str, tuple[int, int]] = Remembered(
            COUNTS_BYTES, lambda term, counts: size_of(term, counts, *counts)
        )
        """The count of each common word, and the number of all chunks when it was counted."""

    def of(self, keywords: KeywordReads, query: Query, documents: int) -> TermCounts:
        """Returns the counts of a query's terms. `documents`: all chunks, as this view sees them."""
        words = [
            Word(term, concept.is_prefix)
            for concept in (*query.concepts, *query.related)
            for term in concept.alternatives
        ]
        return TermCounts(documents, self.count(keywords, words, documents))

    def count(
        self, keywords: KeywordReads, words: Iterable[Word], documents: int
    ) -> dict[str, int]:
        """Returns in how many chunks each word is."""
        counts = {word: self._recalled(word, documents) for word in words}
        unknown = [word for word, count in counts.items() if count is None]
        for word, number in zip(unknown, keywords.count(unknown), strict=True):
            counts[word] = number
            if number > COMMON and not word.is_prefix:
                self._remembered.put(word.term, (number, documents))
        return {word.term: count or 0 for word, count in counts.items()}

    def _recalled(self, word: Word, documents: int) -> int | None:
        count, before = self._remembered.get(word.term) or (0, 0)
        is_current = DRIFT * abs(documents - before) <= documents
        return count if count and is_current and not word.is_prefix else None


MIN_SCORED: Final = 1_000
"""The chunks that a query may score in an index of any size, which takes a millisecond."""
MAX_SCORED: Final = 40_000
SCORED_SHARE: Final = 20
"""Between these bounds: one in so many chunks of the index."""
ENOUGH: Final = 200
"""The number of scored chunks at which no further word is looked up."""
MAX_CONCEPTS: Final = 64
"""The most concepts of a query that are looked up, the rarest of them: more would distinguish nothing new."""


def lookup(query: Query, counts: TermCounts, permitted: int) -> Lookup:
    """Returns what to look up. `permitted`: the number of chunks of the files that may answer."""
    documents = counts.documents
    most = min(MAX_SCORED, max(MIN_SCORED, documents // SCORED_SHARE))
    return Lookup(list(tiers(query, counts, most * documents // max(1, permitted))), most, ENOUGH)


def tiers(query: Query, counts: TermCounts, most: int) -> Iterator[list[Concept]]:
    """Yields the rarest concepts that are in at most `most` chunks together, then each further one alone."""
    size = {
        concept: sum(counts.by_term[term] for term in concept.alternatives)
        for concept in query.concepts
    }
    known = [concept for concept in query.concepts if size[concept]]
    by_rarity = sorted(known, key=size.__getitem__)[:MAX_CONCEPTS]
    running = accumulate(size[concept] for concept in by_rarity)
    together = sum(min(chunks, counts.documents) <= most for chunks in running)
    if together:
        yield by_rarity[:together]
    yield from ([concept] for concept in by_rarity[together:])


# --- Lanes ----------------------------------------------------------------------------------------


CANDIDATES: Final = 100
"""Candidates in a block: all from one lane, or half from each. Ranking weighs each of their lines, which takes most of
the time of a search."""
WEAK: Final = 0.15
"""Candidates with less than this share of the best BM25 score are ranked only if the others of their block are too few:
they have half of the lines, and hardly ever the answer."""
LEAST_OF_LANE: Final = 16
"""The first candidates of each lane, which are ranked first whatever their scores: so they are seldom too few."""
MAX_WANTED: Final = 200
MAX_BLOCKS: Final = 40
"""After some thousand candidates nothing relevant follows."""


class VectorLane(msgspec.Struct, frozen=True):
    """The query's vector against the stored ones of the same fingerprint."""

    space: VectorSpace
    query: Vector
    file_ids: Sequence[int] | None

    @classmethod
    def open(
        cls, view: View, query: QueryVector | None, file_ids: Sequence[int] | None
    ) -> VectorLane | None:
        """Opens the lane; returns None without a vector, and while none of its fingerprint is stored."""
        space = view.vectors(query.fingerprint) if query else None
        return (
            cls(space, query.vector, file_ids) if query and space and not space.is_empty else None
        )

    def search(self, limit: int) -> VectorAnswer | Unavailable:
        return self.space.search(self.query, limit=limit, file_ids=self.file_ids)


def _cosines(answer: VectorAnswer | Unavailable | None) -> dict[int, float]:
    """Returns the cosines by excerpt id, best first; none if no engine can search."""
    hits = answer.hits if isinstance(answer, VectorAnswer) else ()
    return {hit.excerpt_id: hit.cosine for hit in hits}


class Candidates:
    """The candidates of one query, in blocks with at least `wanted` of each lane, if it has so many."""

    def __init__(
        self, words: Matches, *, wanted: int, vectors: VectorLane | None, keywords: bool = True
    ) -> None:
        self._words = words
        self._vectors = vectors
        self.keywords = (
            keywords or vectors is None or not vectors.space.covers_all(len(vectors.query))
        )
        """True if the keyword lane takes part. While any text lacks its vector it does, whatever the settings say."""
        wanted = min(MAX_WANTED, wanted)
        self._block = max(wanted, CANDIDATES // 2 if vectors and self.keywords else CANDIDATES)
        answer = vectors.search(self._block) if vectors else None
        self._nearest = _cosines(answer)
        self.obstacle = answer.reason if answer else None
        """The reason why the query's vector could not be compared with the stored ones."""
        if not self._nearest:
            self._block = max(wanted, CANDIDATES)
        self.background = (
            vectors.space.background(vectors.query) if vectors and self._nearest else None
        )
        """None without vectors."""

    def __iter__(self) -> Iterator[Iterator[list[Candidate]]]:
        """Yields each block in two parts, the second of candidates that words hardly find; none is empty."""
        seen: set[int] = set()
        for number in count():
            by_meaning = self._by_meaning(number)
            chunks = (
                self._vectors.space.chunks_of(by_meaning) if self._vectors and by_meaning else []
            )
            by_words, others = self._words.best(
                self._block if self.keywords else 0,
                number * self._block,
                [chunk_id for chunk_id in chunks if chunk_id not in seen],
            )
            found = [one for one in by_words if one.chunk_id not in seen] + others
            seen.update(one.chunk_id for one in found)
            first = {*chunks[:LEAST_OF_LANE], *(one.chunk_id for one in by_words[:LEAST_OF_LANE])}
            yield map(self._measured, filter(None, self._by_strength(found, first)))
            if max(len(by_words), len(by_meaning)) < self._block or number >= MAX_BLOCKS:
                return

    def _by_strength(
        self, found: Sequence[Candidate], first: Collection[int]
    ) -> tuple[list[Candidate], list[Candidate]]:
        best = max([one.bm25 for one in found], default=0.0) if self.keywords else 0.0
        strong: list[Candidate] = []
        weak: list[Candidate] = []
        for one in found:
            is_strong = one.bm25 >= WEAK * best or one.chunk_id in first
            (strong if is_strong else weak).append(one)
        return strong, weak

    def _by_meaning(self, number: int) -> list[int]:
        if self._vectors is None:
            return []
        end = (number + 1) * self._block
        if len(self._nearest) == self._block and number:
            self._nearest = _cosines(self._vectors.search((MAX_BLOCKS + 1) * self._block))
        return list(self._nearest)[end - self._block : end]

    def _measured(self, found: list[Candidate]) -> list[Candidate]:
        if self._vectors is None or not found:
            return found
        chunk_ids = [one.chunk_id for one in found]
        excerpts = self._vectors.space.excerpts(self._vectors.query, chunk_ids, self._nearest)
        return [replace(one, excerpts=excerpts.get(one.chunk_id, ())) for one in found]


# --- Ageing ---------------------------------------------------------------------------------------


MONTH_DAYS: Final = 30
QUESTION_INFORMATION: Final = 20.0
PROMPT_INFORMATION: Final = 60.0
"""In nats. A query that asks for less than the former is a question, for which recency does not count; one that asks
for more than the latter is a prompt of somebody who returns to a task."""


class Ageing:
    """The effect of age on the candidates of one query."""

    def __init__(
        self, files: FileReads, decay: DecaySettings, today: date, information: float
    ) -> None:
        """`information`: nats that the query asks for; infinite if it asks for what was last."""
        self._files = files
        self._half_life = decay.half_life_days if decay.enabled else math.inf
        self._today = today
        share = (information - QUESTION_INFORMATION) / (PROMPT_INFORMATION - QUESTION_INFORMATION)
        self._recent = learnt.RECENT * min(1.0, max(0.0, share))
        self._newest: date | None = None

    def aged(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Returns the candidates with the share of their odds that age leaves; notes without a date lose nothing."""
        if not self._recent and self._half_life == math.inf:
            return candidates
        known = self._files.note_dates({one.file_id for one in candidates})
        dates = {file_id: date.fromisoformat(day) for file_id, day in known.items()}
        self._newest = self._newest or max(dates.values(), default=None)
        left = {file_id: self._left(day) for file_id, day in dates.items()}
        return [replace(one, freshness=left.get(one.file_id, 1.0)) for one in candidates]

    def _left(self, day: date) -> float:
        age = max(0, (self._today - day).days)
        behind = max(0, ((self._newest or day) - day).days)
        decayed: float = 0.5 ** (age / self._half_life)
        return decayed * math.pow(1 + behind / MONTH_DAYS, -self._recent)


def _ranked(
    ranker: PassageRanker, candidates: Candidates, ageing: Ageing
) -> Iterator[RankedPassage]:
    """Yields passages until a block adds none, or its last ones score too little: the rest is weaker in either lane."""
    for block in candidates:
        passage, fell_short = None, False
        for part in block:
            for passage in ranker.rank(ageing.aged(part)):
                yield passage
            fell_short = fell_short or ranker.fell_short
        if passage is None or fell_short:
            return


# --- Hits -----------------------------------------------------------------------------------------


class Explained(Explanation, total=False):
    """All that `explain` says about one hit; `docs/protocol.md` has each of these names."""

    askedTerms: Sequence[str]  # noqa: N815 - as it is sent
    """The terms that were asked for."""
    unknownTerms: Sequence[str]  # noqa: N815
    """Those of them that no note contains, nor in another form."""
    date: str | None
    """The day of the note."""
    time: Sequence[Mapping[str, str | bool]]
    """The days that the question speaks of, as they were understood."""
    links: Mapping[str, str]
    """The paths of the notes that its wiki links lead to."""


def _explained(
    view: View,
    explanation: Explanation,
    card: FileCard,
    text: str,
    query: Query,
    counts: TermCounts,
) -> Explained:
    asked = [one for one in query.concepts if not (one.time or one.instead_of)]
    known = {one.instead_of for one in query.concepts}
    unknown = (
        one
        for one in asked
        if one.alternatives[0] not in known and not any(map(counts.by_term.get, one.alternatives))
    )
    explained = cast("Explained", explanation)
    explained["askedTerms"] = [one.alternatives[0] for one in asked]
    explained["unknownTerms"] = [one.alternatives[0] for one in unknown]
    explained["date"] = card.note_date
    if query.times:
        explained["time"] = [_reading(one, card.note_date) for one in query.times]
    if links := resolve_links(view.files, links_in(text)):
        explained["links"] = links
    return explained


def _reading(days: Days, day: str | None) -> Mapping[str, str | bool]:
    return {
        "text": days.text,
        "from": days.first.isoformat(),
        "to": days.last.isoformat(),
        "matches": day is not None and days.first <= date.fromisoformat(day) <= days.last,
    }


def _turns_of(ranked: RankedPassage) -> list[TurnRange]:
    """Returns the turns of each stretch: each line of a transcript's text is a turn."""
    passage = ranked.passage
    return [TurnRange(passage.file_id, one.start_line, one.end_line) for one in passage.stretches]


MAX_PLACES: Final = 20
"""The most other places with the same line that are named."""


def _hits(
    view: View,
    ranker: PassageRanker,
    ranked: Sequence[tuple[RankedPassage, Explanation | None]],
    query: Query,
    counts: TermCounts,
) -> Iterator[Hit]:
    """Yields the hits for passages, with an explanation if one was asked for."""
    same = [ranker.same_lines(one)[:MAX_PLACES] for one, _ in ranked]
    shown = {one.passage.file_id for one, _ in ranked}
    cards = view.files.cards(shown.union(file_id for places in same for file_id, _ in places))
    turns = {
        turn
        for one, _ in ranked
        if cards[one.passage.file_id].source == "sessions"
        for turn in _turns_of(one)
    }
    entries = view.transcripts.entries(turns) if turns else {}
    for (one, explanation), places in zip(ranked, same, strict=True):
        card = cards[one.passage.file_id]
        text = one.passage.text
        also_in = tuple(
            SameLine(path=cards[file_id].path, line=line)
            for file_id, line in places
            if cards[file_id].source == "memory"
        )
        yield _hit(
            card,
            one,
            entries,
            explain=explanation and _explained(view, explanation, card, text, query, counts),
            also_in=also_in,
        )


def _hit(
    card: FileCard,
    ranked: RankedPassage,
    entries: Mapping[TurnRange, tuple[int, int]],
    *,
    explain: Explained | None,
    also_in: tuple[SameLine, ...],
) -> Hit:
    """Returns the hit for a passage. `entries`: the entries of a transcript that turns are made of."""
    passage = ranked.passage
    stretches, events = passage.stretches, None
    if card.source == "sessions":
        places = (entries[turns] for turns in _turns_of(ranked))
        found = tuple(Stretch(start_line=first, end_line=last) for first, last in places)
        if is_jsonl(card.path):
            stretches = found
        else:
            events = found[0].start_line - 1, found[-1].end_line - 1
    return Hit(
        path=card.path,
        start_line=stretches[0].start_line,
        end_line=stretches[-1].end_line,
        score=round(ranked.score, 4),
        snippet=passage.snippet,
        stretches=stretches if len(stretches) > 1 else (),
        source=card.source,
        confidence=confidence_of(ranked.score),
        text_score=round(ranked.text_score, 4),
        vector_score=None if ranked.vector_score is None else round(ranked.vector_score, 4),
        explain=explain,
        events=events,
        title=card.title or None,
        tags=card.tags,
        headings=passage.headings,
        also_in=also_in,
    )
