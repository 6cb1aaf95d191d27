"""Candidates as the keyword lane gives them, made from real text by the real chunker and analyser."""

from collections.abc import Callable

import pytest

from backends.chunking import ChunkLimits, chunk_markdown
from backends.ranking.fusion import PassageRanker, RankedPassage
from backends.ranking.lines import Candidate
from backends.ranking.query import QueryAnalyser, Weights
from backends.ranking.selection import Passage
from backends.text.analyser import Analyser
from backends.text.units import split_units

WHOLE = ChunkLimits(tokens=100_000, overlap=0)


@pytest.fixture(scope="session")
def candidates_of() -> Callable[..., list[Candidate]]:
    """The chunks of one file as candidates, each with the same BM25 score."""
    analyser = Analyser()

    def chunk(
        text: str, *, file_id: int = 1, limits: ChunkLimits = WHOLE, bm25: float = 1.0
    ) -> list[Candidate]:
        candidates = []
        for number, one in enumerate(chunk_markdown(text, limits)):
            inside = text[one.start : one.end]
            units = split_units(inside)
            terms = "\n".join(analyser.terms(inside[unit.start : unit.end]) for unit in units)
            chunk_id = file_id * 10_000 + number
            candidates.append(
                Candidate(chunk_id, file_id, one.start, one.start_line, inside, terms, bm25)
            )
        return candidates

    return chunk


@pytest.fixture(scope="session")
def weigh() -> Callable[..., Weights]:
    """The weights of a query in a collection of 100 chunks, by default with every term in ten."""

    def weights(query: str, **frequencies: int) -> Weights:
        asked = QueryAnalyser(["english"]).analyse(query)
        return Weights(asked.concepts, dict.fromkeys(asked.terms(), 10) | frequencies, 100)

    return weights


@pytest.fixture(scope="session")
def rank() -> Callable[..., list[RankedPassage]]:
    """The passages of some candidates for a query, best first."""

    def ranked(
        candidates: list[Candidate], weights: Weights, *, max_chars: int = 700, **options
    ) -> list[RankedPassage]:
        return list(PassageRanker(weights, max_chars=max_chars, **options).rank(candidates))

    return ranked


@pytest.fixture
def passages(candidates_of, weigh, rank) -> Callable[..., list[Passage]]:
    """The passages of one text for a query, best first."""

    def find(text: str, query: str, *, max_chars: int = 700, **options) -> list[Passage]:
        ranked = rank(candidates_of(text, **options), weigh(query), max_chars=max_chars)
        return [one.passage for one in ranked]

    return find
