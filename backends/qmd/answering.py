"""Turning QMD's rows into hits: real files, exact lines, passages, filters, limits."""

from __future__ import annotations

import heapq
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, Literal, NamedTuple

import msgspec

from backends.chunking import chunk_markdown
from backends.chunking.graphemes import next_cut
from backends.files.reading import decode
from backends.files.roots import Filter, Location
from backends.files.safe_open import opened
from backends.files.scan import FoundFile, scan
from backends.interface import FileUnreadableError, Hit, PathNotAllowedError, SearchRequest, Stale
from backends.qmd.collections import CollectionPlaces
from backends.qmd.server import ResultRow
from backends.ranking.fusion import PassageRanker
from backends.ranking.lines import BM25_K1, Candidate
from backends.ranking.query import Query, QueryAnalyser, Weights
from backends.ranking.selection import Passage, passage_near
from backends.text.analyser import Analyser, guess_latin_language
from backends.text.times import date_of
from backends.text.units import split_units, utf16_length
from config.runtime.remembered import Remembered, size_of
from config.settings import QmdLimits

MAX_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
"""The most that is read of a document: only the beginning of a longer one is looked at for a snippet."""
DOCUMENTS_BYTES: Final = 64 * 1024 * 1024
"""Enough for some 10 MB of Markdown."""


class Piece(NamedTuple):
    """One chunk of a file."""

    start: int
    start_line: int
    text: str
    terms: str
    """One line for each unit of `split_units(text)`."""
    counts: Counter[str]
    length: int
    """The number of terms in it, with repetitions."""


class Document(NamedTuple):
    stamp: tuple[int, int, int, int]
    pieces: tuple[Piece, ...]
    languages: frozenset[str]
    bytes_used: int
    """About the bytes that it takes in memory."""


class Documents:
    """Analysed files by location. May be used by any thread."""

    def __init__(self, most_bytes: int = DOCUMENTS_BYTES) -> None:
        self._known: Remembered[Location, Document] = Remembered(
            most_bytes, lambda _, one: one.bytes_used
        )

    @property
    def bytes_used(self) -> int:
        return self._known.bytes_used

    def get(self, location: Location) -> Document | None:
        """Returns the file as it is now; None when it is gone, refused or unreadable."""
        try:
            with opened(location) as descriptor:
                stamp = _stamp(os.fstat(descriptor))
                known = self._known.get(location)
                if known is not None and known.stamp == stamp:
                    return known
                with open(descriptor, "rb", closefd=False) as file:
                    data = file.read(MAX_DOCUMENT_BYTES)
        except (OSError, FileUnreadableError, PathNotAllowedError):
            return None
        document = analyse(decode(data), stamp)
        self._known.put(location, document)
        return document


def analyse(text: str, stamp: tuple[int, int, int, int] = (0, 0, 0, 0)) -> Document:
    """Returns the chunks of a text with the terms that a query may ask for. Pure."""
    language = guess_latin_language(text)
    analyser = Analyser(language)
    pieces = tuple(_pieces(text, analyser))
    size = size_of(pieces) + sum(
        size_of(piece, piece.text, piece.terms, piece.counts) for piece in pieces
    )
    size += size_of(*{word for piece in pieces for word in piece.counts})
    return Document(stamp, pieces, frozenset({language}), size)


def _pieces(text: str, analyser: Analyser) -> Iterator[Piece]:
    same: dict[str, str] = {}
    for chunk in chunk_markdown(text):
        body = text[chunk.start : chunk.end]
        if not body.strip():
            continue
        terms = "\n".join(analyser.terms(body[unit.start : unit.end]) for unit in split_units(body))
        words = terms.split()
        counts = Counter(same.setdefault(word, word) for word in words)  # one text for all pieces
        yield Piece(chunk.start, chunk.start_line, body, terms, counts, len(words))


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev


_B: Final = 0.75
_BLOCK: Final = 24
"""The number of chunks ranked together; most searches need no second block."""
MIDDLE: Final = 0.6
"""The score of the first document if only ranks are known."""
RANK_SHARE: Final = 0.1
"""The share of a lexical chunk's score that comes from the rank that QMD gave its document."""


class Proposal(NamedTuple):
    """One document that QMD proposes, the best first."""

    document: Document
    score: float
    """QMD's own, 0..1."""
    line: int | None


class QmdFound(NamedTuple):
    """A passage of `proposals[passage.file_id]`."""

    passage: Passage
    score: float
    """0..1, comparable with the builtin engine's."""


def lexical_passages(
    question: str, proposals: Sequence[Proposal], *, max_chars: int
) -> Iterator[QmdFound]:
    """Yields passages with words of the question, best first; scores never rise."""
    query = _analyse(question, proposals)
    pieces = [
        (number, piece)
        for number, proposal in enumerate(proposals)
        for piece in proposal.document.pieces
    ]
    weights = _weights(query, [piece for _, piece in pieces])
    ranker = PassageRanker(weights, max_chars=max_chars)
    candidates = _candidates(pieces, weights, rank_share=RANK_SHARE)
    candidates.sort(key=lambda one: -one.bm25)
    for first in range(0, len(candidates), _BLOCK):
        for ranked in ranker.rank(candidates[first : first + _BLOCK]):
            yield QmdFound(ranked.passage, ranked.score)


def document_passages(
    question: str, proposals: Sequence[Proposal], *, max_chars: int
) -> Iterator[QmdFound]:
    """Yields one passage of each document in QMD's order: where the words are, else where QMD points."""
    query = _analyse(question, proposals)
    weights = _weights(query, [p for one in proposals for p in one.document.pieces])
    ceiling = 1.0
    for number, proposal in enumerate(proposals):
        pieces = [(number, piece) for piece in proposal.document.pieces]
        if not pieces:
            continue
        candidates = _candidates(pieces, weights, rank_share=0.0)
        if best := next(PassageRanker(weights, max_chars=max_chars).rank(candidates), None):
            passage = best.passage
        else:
            line = proposal.line or 1
            passage = passage_near(line, candidates, weights, max_chars=max_chars)
        ceiling = min(ceiling, proposal.score)
        yield QmdFound(passage, ceiling)


def of_rank(score: float) -> float:
    """Returns QMD's 1/rank as a score. A rank says nothing of quality: the first scores 0.6, the tenth 0.34."""
    return MIDDLE * math.sqrt(math.sqrt(score))


def _analyse(question: str, proposals: Sequence[Proposal]) -> Query:
    languages = sorted({one for p in proposals for one in p.document.languages})
    return QueryAnalyser(languages).analyse(question)


def _weights(query: Query, pieces: Sequence[Piece]) -> Weights:
    frequencies = {term: sum(term in one.counts for one in pieces) for term in query.terms()}
    return Weights(query.concepts, frequencies, len(pieces))


def _candidates(
    pieces: Sequence[tuple[int, Piece]], weights: Weights, *, rank_share: float
) -> list[Candidate]:
    """Returns chunks with their scores; without a share for the rank also those without a word."""
    mean = math.fsum(piece.length for _, piece in pieces) / max(1, len(pieces)) or 1.0
    highest = weights.total * (BM25_K1 + 1)
    documents = 1 + max((number for number, _ in pieces), default=0)
    candidates: list[Candidate] = []
    for number, piece in pieces:
        bm25 = _bm25(piece, weights, mean)
        if bm25 > 0 or not rank_share:
            rank = 1.0 - number / documents
            score = (1 - rank_share) * bm25 + rank_share * rank * highest
            start, line, text, terms = piece[:4]
            candidates.append(Candidate(len(candidates), number, start, line, text, terms, score))
    return candidates


def _bm25(piece: Piece, weights: Weights, mean: float) -> float:
    norm = BM25_K1 * (1 - _B + _B * piece.length / mean)
    total = 0.0
    for concept, weight in zip(weights.concepts, weights.by_concept, strict=True):
        frequency = sum(piece.counts.get(term, 0) for term in concept.alternatives)
        total += weight * frequency * (BM25_K1 + 1) / (frequency + norm)
    return total


def limited(hits: Iterable[Hit], *, snippet_chars: int, injected_chars: int) -> Iterator[Hit]:
    """Yields the hits with snippets of at most `snippet_chars`, together at most `injected_chars`."""
    left = injected_chars
    for hit in hits:
        snippet = shorten(hit.snippet, min(snippet_chars, left))
        if not snippet.strip():
            return
        left -= utf16_length(snippet)
        if snippet == hit.snippet:
            yield hit
        else:
            end = hit.start_line + snippet.count("\n")
            yield msgspec.structs.replace(hit, snippet=snippet, end_line=end)
        if left <= 0:
            return


def shorten(text: str, limit: int) -> str:
    """Returns the beginning of `text` that fits: whole lines if one fits, else whole graphemes."""
    if utf16_length(text) <= limit:
        return text
    lines = text.split("\n")
    while len(lines) > 1:
        lines.pop()
        kept = "\n".join(lines)
        if utf16_length(kept) <= limit:
            return kept
    return _cut(lines[0], limit)


def _cut(line: str, limit: int) -> str:
    wanted = length = 0
    for character in line:
        length += utf16_length(character)
        if length > limit:
            break
        wanted += 1
    if not wanted:
        return ""
    cut = next_cut(line, 0, wanted, len(line))
    return line[:cut].rstrip() if cut <= wanted else ""


MAX_EXTRA_FILES: Final = 200
"""The most changed or filtered files that one search reads beside QMD's; the newest first."""


_RankedBy = Literal["model", "words"]


class QmdAnswer(NamedTuple):
    hits: tuple[Hit, ...]
    stale: Stale | None
    changed: int
    """The number of files that differ from what QMD has indexed."""


class Answerer:
    """Answers from the files of one agent. Keeps analysed files between searches."""

    def __init__(self, places: CollectionPlaces, limits: QmdLimits) -> None:
        self._places = places
        self._limits = limits
        self._documents = Documents()

    def answer(
        self,
        request: SearchRequest,
        rows: Sequence[ResultRow],
        seen: Mapping[str, FoundFile],
        *,
        by_model: bool,
    ) -> QmdAnswer:
        """Returns the hits. `seen`: the files of QMD's last update by name; `by_model` keeps QMD's order and scores."""
        now = self._places.seen_by_qmd(scan(self._places.roots).files)
        changed = [name for name, one in now.items() if seen.get(name) != one]
        gone = len(seen.keys() - now.keys())
        filtering = Filter(request)
        permitted = partial(self._is_permitted, request, filtering)
        proposed = self._proposed(rows, permitted)
        # QMD knows no filters, and may have proposed too little.
        extra = list(filter(permitted, now if filtering.active else changed))
        extra.sort(key=lambda name: -now[name].mtime_ns)
        more = {self._location(name, now[name]): None for name in extra[:MAX_EXTRA_FILES]}
        hits = self._hits(request, proposed, more, by_model=by_model)
        left = max(0, len(changed) - MAX_EXTRA_FILES)
        stale = Stale(files=left, reason="QMD has not indexed them yet") if left else None
        return QmdAnswer(hits, stale, len(changed) + gone)

    def _is_permitted(self, request: SearchRequest, filtering: Filter, path: str) -> bool:
        if request.sources is not None and self._places.source_of(path) not in request.sources:
            return False
        day = date_of(path)
        return filtering.permits(path, day.isoformat() if day else None)

    def _proposed(
        self, rows: Sequence[ResultRow], permitted: Callable[[str], bool]
    ) -> dict[Location, ResultRow]:
        proposed: dict[Location, ResultRow] = {}
        for row in rows:
            location = self._places.locate(row.collection, row.path)
            if location is not None and permitted(location.path):
                proposed.setdefault(location, row)
        return proposed

    def _location(self, name: str, file: FoundFile) -> Location:
        roots = self._places.roots
        return roots.all[file.root].location(roots.absolute(file.path), name)

    def _hits(
        self,
        request: SearchRequest,
        proposed: Mapping[Location, ResultRow],
        more: Mapping[Location, None],
        *,
        by_model: bool,
    ) -> tuple[Hit, ...]:
        model = self._proposals({k: v for k, v in proposed.items() if k not in more})
        words = self._proposals(more)
        if not by_model:
            model, words = [], self._proposals({**proposed, **more})
        chars = self._limits.max_snippet_chars
        merged = heapq.merge(
            _found("model", document_passages, request.query, model, chars),
            _found("words", lexical_passages, request.query, words, chars),
            key=lambda one: -one[0].score,
        )
        wanted = min(request.max_results or self._limits.max_results, self._limits.max_results)
        min_score = request.min_score or 0.0
        hits = (
            self._hit(found, location, by, explain=request.explain)
            for found, location, by in merged
            if found.score >= min_score
        )
        most = self._limits.max_injected_chars
        return tuple(limited(islice(hits, wanted), snippet_chars=chars, injected_chars=most))

    def _proposals(
        self, locations: Mapping[Location, ResultRow | None]
    ) -> list[tuple[Location, Proposal]]:
        proposals = []
        for location, row in locations.items():
            document = self._documents.get(location)
            if document is not None:
                score, line = (row.score, row.line) if row else (0.0, None)
                proposals.append((location, Proposal(document, score, line)))
        return proposals

    def _hit(self, found: QmdFound, location: Location, by: _RankedBy, *, explain: bool) -> Hit:
        passage, score = found.passage, round(found.score, 4)
        start, end = passage.start_line, passage.end_line
        export = self._places.exports.of_hit(location.path)
        events = export.events(start, end) if export is not None else None
        if export is not None:
            start, end = export.transcript_line(start), export.transcript_line(end)
        explanation = {
            "rankedBy": "qmd" if by == "model" else "passages",
            "matchedTerms": [concept.alternatives[0] for concept in passage.matched],
            "coverage": round(passage.coverage, 4),
        }
        return Hit(
            path=location.path,
            start_line=start,
            end_line=end,
            score=score,
            snippet=passage.snippet,
            source="sessions" if export else "memory",
            text_score=score if by == "words" else None,
            headings=passage.headings,
            explain=explanation if explain else None,
            events=events,
        )


def _found(
    by: _RankedBy,
    passages: Callable[..., Iterator[QmdFound]],
    question: str,
    pairs: Sequence[tuple[Location, Proposal]],
    max_chars: int,
) -> Iterator[tuple[QmdFound, Location, _RankedBy]]:
    proposals = [proposal for _, proposal in pairs]
    for found in passages(question, proposals, max_chars=max_chars):
        yield found, pairs[found.passage.file_id][0], by
