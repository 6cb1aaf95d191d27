"""From the documents that QMD proposes to the passages that are shown, with calibrated scores.

QMD ranks documents and gives 1/rank, a bare 0 or a blend as their score; what tells an agent something
is the passage. Lexical rows are scored by the BM25 of their chunks among the proposed documents
(Robertson and Sparck Jones' idf, k1 1.2, b 0.75) and by what the passage covers, as the builtin engine
does; rows of a model keep QMD's score. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from backends.qmd.documents import Document, Piece
from backends.ranking.fusion import PassageRanker
from backends.ranking.passages import Passage, passage_near
from backends.ranking.query import Query, QueryAnalyser
from backends.ranking.units import BM25_K1, Candidate
from backends.ranking.weights import Weights

_B: Final = 0.75
_BLOCK: Final = 24
"""Chunks looked at together; most searches need no second block."""
MIDDLE: Final = 0.6
"""What the first of documents scores of which only the rank is known."""
RANK_SHARE: Final = 0.1
"""How much of a lexical chunk's score comes from the place that QMD gave its document."""


class Proposal(NamedTuple):
    """One document that QMD proposes, the best first."""

    document: Document
    score: float
    """QMD's own, 0..1."""
    line: int | None


class Found(NamedTuple):
    """A passage of `proposals[passage.file_id]`."""

    passage: Passage
    score: float
    """0..1, comparable with the builtin engine's."""
    coverage: float


def lexical_passages(
    question: str, proposals: Sequence[Proposal], *, max_chars: int
) -> Iterator[Found]:
    """Passages that hold words of the question, best first; scores never rise."""
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
            yield Found(ranked.passage, ranked.score, ranked.passage.coverage)


def document_passages(
    question: str, proposals: Sequence[Proposal], *, max_chars: int
) -> Iterator[Found]:
    """One passage of each document in QMD's order: where the words are, else where QMD points."""
    query = _analyse(question, proposals)
    weights = _weights(query, [p for one in proposals for p in one.document.pieces])
    ceiling = 1.0
    for number, proposal in enumerate(proposals):
        pieces = [(number, piece) for piece in proposal.document.pieces]
        if not pieces:
            continue
        candidates = _candidates(pieces, weights, rank_share=0.0)
        best = next(PassageRanker(weights, max_chars=max_chars).rank(candidates), None)
        passage = (
            best.passage
            if best
            else passage_near(proposal.line or 1, candidates, weights, max_chars=max_chars)
        )
        ceiling = min(ceiling, proposal.score)
        yield Found(passage, ceiling, passage.coverage)


def of_rank(score: float) -> float:
    """QMD's 1/rank as a score: a rank tells no height, so the first is middling, the tenth a third."""
    return MIDDLE * math.sqrt(math.sqrt(score))


def _analyse(question: str, proposals: Sequence[Proposal]) -> Query:
    languages = sorted({one for p in proposals for one in p.document.languages})
    return QueryAnalyser(languages).analyse(question)


def _weights(query: Query, pieces: Sequence[Piece]) -> Weights:
    terms = set(query.terms())
    frequencies = dict.fromkeys(terms, 0)
    for piece in pieces:
        for term in terms.intersection(piece.counts):
            frequencies[term] += 1
    return Weights(query.concepts, frequencies, len(pieces))


def _candidates(
    pieces: Sequence[tuple[int, Piece]], weights: Weights, *, rank_share: float
) -> list[Candidate]:
    """Chunks with their scores; without a share for the rank also those that hold no word."""
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
