"""Finding, in the candidate chunks of a query, the passages that answer it.

Owns the scoring of passages: runs of adjacent units (lines, or sentences of long lines) that fit into a
snippet. A passage scores by the share of the query's information content that it covers, and by the
BM25 score of the chunk around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from backends.ranking.query import Concept
from backends.text.units import split_units, utf16_length

CHUNK_SHARE: Final = 0.7
"""How much of a passage's score comes from its chunk. Chosen by `scripts/bench_recall`; flat from
0.5 to 0.8."""
REPETITION: Final = 0.3
"""A concept that occurs n times counts `1 + REPETITION * ln(n)` fold."""
BM25_K1: Final = 1.2
"""The constant of FTS5's bm25(); a term's score is below `idf * (k1 + 1)`."""


class Candidate(NamedTuple):
    """One chunk that the keyword or vector lane proposes.

    `start` is the character offset of the chunk in its file, `terms` the stored terms: one line a
    unit of `split_units(text)`.
    """

    chunk_id: int
    file_id: int
    start: int
    start_line: int
    text: str
    terms: str
    bm25: float
    """0 or more, larger is better."""


class Passage(NamedTuple):
    """`text` as it stands in the file, at `start` of it; lines count from 1, ends included."""

    file_id: int
    chunk_id: int
    start: int
    start_line: int
    end_line: int
    text: str
    coverage: float
    """0..1: the share of the query's information content that the passage holds."""
    score: float
    """0..1."""
    matched: tuple[Concept, ...]


class Weights:
    """Information content of a query's concepts in one collection.

    `weight(c) = ln(1 + (N - n + 0.5) / (n + 0.5))`, N chunks of which n hold the concept: the idf
    of Robertson and Sparck Jones in the form that is never negative.
    """

    def __init__(
        self, concepts: Sequence[Concept], document_frequency: Mapping[str, int], documents: int
    ) -> None:
        self.concepts = tuple(concepts)
        self.by_concept = tuple(
            concept.share
            * _idf(max(document_frequency.get(term, 0) for term in concept.alternatives), documents)
            for concept in self.concepts
        )
        self.total = math.fsum(self.by_concept) or 1.0
        self.concept_of_term = {
            term: number
            for number, concept in enumerate(self.concepts)
            for term in concept.alternatives
        }


def _idf(frequency: int, documents: int) -> float:
    return math.log1p((max(0, documents - frequency) + 0.5) / (frequency + 0.5))


class _Unit(NamedTuple):
    start: int
    end: int
    line: int
    text: str
    counts: tuple[tuple[int, int], ...]
    """(number of the concept, occurrences)."""
    chunk_id: int
    chunk_score: float


class _Window(NamedTuple):
    """`units[first:last]` of one file."""

    score: float
    coverage: float
    off_centre: float
    file_id: int
    units: Sequence[_Unit]
    first: int
    last: int


def find_passages(
    candidates: Iterable[Candidate],
    weights: Weights,
    *,
    max_chars: int,
    taken: set[tuple[int, int]] | None = None,
) -> Iterator[Passage]:
    """Passages of at most `max_chars` UTF-16 units that share no unit, best first.

    `taken` (file, start of a unit) remembers the units over several calls. Of windows with equal scores the one wins whose best unit is the most central, then file order.
    """
    windows = [
        window
        for file_id, units in _units_by_file(candidates, weights).items()
        for window in _windows(file_id, units, weights, max_chars)
    ]
    windows.sort(key=lambda w: (-w.score, w.off_centre, w.file_id, w.first))
    taken = set() if taken is None else taken
    for window in windows:
        units = window.units[window.first : window.last]
        if not any((window.file_id, unit.start) in taken for unit in units):
            taken.update((window.file_id, unit.start) for unit in units)
            yield _passage(window, _trim(units), weights)


def _units_by_file(candidates: Iterable[Candidate], weights: Weights) -> dict[int, list[_Unit]]:
    """The units of all candidates in file order; where chunks overlap the better chunk's unit."""
    files: dict[int, dict[int, _Unit]] = {}
    highest = weights.total * (BM25_K1 + 1)
    for candidate in candidates:
        units = files.setdefault(candidate.file_id, {})
        chunk_score = min(1.0, candidate.bm25 / highest)
        for unit in _units(candidate, weights, chunk_score):
            known = units.get(unit.start)
            if known is None or known.chunk_score < chunk_score:
                units[unit.start] = unit
    return {file_id: [units[start] for start in sorted(units)] for file_id, units in files.items()}


def _units(candidate: Candidate, weights: Weights, chunk_score: float) -> Iterator[_Unit]:
    text = candidate.text
    concept_of_term = weights.concept_of_term
    for (start, end, line), terms in zip(
        split_units(text), candidate.terms.split("\n"), strict=True
    ):
        counts: dict[int, int] = {}
        for term in terms.split():
            if term in concept_of_term:
                number = concept_of_term[term]
                counts[number] = counts.get(number, 0) + 1
        yield _Unit(
            candidate.start + start,
            candidate.start + end,
            candidate.start_line + line,
            text[start:end],
            tuple(counts.items()),
            candidate.chunk_id,
            chunk_score,
        )


def _windows(
    file_id: int, units: Sequence[_Unit], weights: Weights, max_chars: int
) -> Iterator[_Window]:
    """For each unit the longest run that starts there and fits, with its score."""
    counts = [0] * len(weights.concepts)
    gain = weights.by_concept
    total = weights.total
    covered, size, last = 0.0, 0, 0
    for first, unit in enumerate(units):
        while last < len(units) and (last == first or _adjoins(units[last - 1], units[last])):
            length = utf16_length(units[last].text) + 1
            if last > first and size + length > max_chars + 1:
                break
            size += length
            for number, n in units[last].counts:
                covered += gain[number] * (_share(counts[number] + n) - _share(counts[number]))
                counts[number] += n
            last += 1
        coverage = covered / total
        run = units[first:last]
        score = (1 - CHUNK_SHARE) * coverage + CHUNK_SHARE * max(u.chunk_score for u in run)
        yield _Window(score, coverage, _off_centre(run, gain), file_id, units, first, last)
        size -= utf16_length(unit.text) + 1
        for number, n in unit.counts:
            counts[number] -= n
            covered += gain[number] * (_share(counts[number]) - _share(counts[number] + n))


def _adjoins(before: _Unit, unit: _Unit) -> bool:
    """Nothing but a newline lies between; pieces of overlapping chunks do not adjoin."""
    return 0 <= unit.start - before.end <= 1


def _share(occurrences: int) -> float:
    return 1.0 + REPETITION * math.log(occurrences) if occurrences else 0.0


def _off_centre(run: Sequence[_Unit], gain: Sequence[float]) -> float:
    """How far the mass of the matches lies from the middle of the run: 0 (central) to 0.5."""
    mass = moment = 0.0
    for position, unit in enumerate(run):
        for number, n in unit.counts:
            mass += gain[number] * n
            moment += gain[number] * n * (position + 0.5)
    return abs(moment / mass / len(run) - 0.5) if mass else 0.5


def _trim(units: Sequence[_Unit]) -> Sequence[_Unit]:
    """Without blank units at either end and without headings that nothing follows."""
    first, last = 0, len(units)
    while last > first + 1 and (
        not units[last - 1].text.strip() or units[last - 1].text.startswith("#")
    ):
        last -= 1
    while first < last - 1 and not units[first].text.strip():
        first += 1
    return units[first:last]


def _passage(window: _Window, units: Sequence[_Unit], weights: Weights) -> Passage:
    parts = [units[0].text]
    for before, unit in pairwise(units):
        parts.append("\n" if unit.start > before.end else "")
        parts.append(unit.text)
    matched = {number for unit in units for number, _ in unit.counts}
    best = max(units, key=lambda unit: unit.chunk_score)
    return Passage(
        window.file_id,
        best.chunk_id,
        units[0].start,
        units[0].line,
        units[-1].line,
        "".join(parts),
        min(1.0, window.coverage),
        min(1.0, window.score),
        tuple(weights.concepts[number] for number in sorted(matched)),
    )
