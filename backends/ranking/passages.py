"""The passages that candidate chunks can offer: runs of adjacent units that fit into a snippet.

Owns the windows over units (lines, or sentences of long lines) and what each window holds of the
query. How windows are put in order, and which of them become results, is decided in `fusion`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from backends.ranking.query import Concept
from backends.ranking.weights import Weights
from backends.text.units import split_units, utf16_length

CHUNK_SHARE: Final = 0.7
"""How much of a window's text score comes from its chunk. Chosen by the recall benchmark; flat from
0.5 to 0.8."""
REPETITION: Final = 0.3
"""A concept that occurs n times counts `1 + REPETITION * ln(n)` fold."""
BM25_K1: Final = 1.2
"""The constant of FTS5's bm25(); a term's score is below `idf * (k1 + 1)`."""


class Candidate(NamedTuple):
    """One chunk that the keyword or the vector lane proposes.

    `start` is the character offset of the chunk in its file, `terms` the stored terms: one line a
    unit of `split_units(text)`.
    """

    chunk_id: int
    file_id: int
    start: int
    start_line: int
    text: str
    terms: str
    bm25: float = 0.0
    """0 or more, larger is better; 0 for a chunk without a term of the query."""
    cosine: float | None = None
    """Of the chunk's vector to the query's; None without vectors."""
    path: str = ""
    """Puts equal scores in an order that every index of the same files agrees on."""


class Passage(NamedTuple):
    """`text` as it stands in the file, at `start` of it; lines count from 1, ends included."""

    file_id: int
    chunk_id: int
    start: int
    start_line: int
    end_line: int
    text: str
    matched: tuple[Concept, ...]


class Unit(NamedTuple):
    """A unit at its place in the file, with what it holds of the query."""

    start: int
    end: int
    line: int
    text: str
    length: int
    """UTF-16 units."""
    counts: tuple[tuple[int, int], ...]
    """(number of the concept, occurrences)."""
    chunk_id: int
    chunk_score: float
    """The chunk's BM25 as a share of what the query could reach: 0..1."""
    cosine: float | None
    speaks_for_chunk: bool = False
    """The first unit of a chunk that was found by its title, path or date alone."""


class Window(NamedTuple):
    """`units[first:last]` of one file."""

    file_id: int
    path: str
    units: Sequence[Unit]
    first: int
    last: int
    coverage: float
    """The share of the query's information content that the window holds; repetitions add to it."""
    text_score: float
    off_centre: float
    """How far the mass of the matches lies from the middle of the window: 0 (central) to 0.5."""
    cosine: float | None
    """Of the window's best chunk."""

    def place(self) -> tuple[str, int, int]:
        return self.path, self.file_id, self.first

    def run(self) -> Sequence[Unit]:
        return self.units[self.first : self.last]


def find_windows(
    candidates: Iterable[Candidate], weights: Weights, *, max_chars: int
) -> list[Window]:
    """For each unit the longest window of at most `max_chars` UTF-16 units that starts there."""
    return [
        window
        for (file_id, path), units in _units_by_file(candidates, weights).items()
        for window in _windows(file_id, path, units, weights, max_chars)
    ]


def to_passage(window: Window, weights: Weights) -> Passage:
    """The window as a result: without blank ends and headings that nothing follows."""
    units = _trim(window.run())
    parts = [units[0].text]
    for before, unit in pairwise(units):
        parts.append("\n" if unit.start > before.end else "")
        parts.append(unit.text)
    matched = {number for unit in units for number, _ in unit.counts}
    return Passage(
        file_id=window.file_id,
        chunk_id=max(units, key=lambda unit: unit.chunk_score).chunk_id,
        start=units[0].start,
        start_line=units[0].line,
        end_line=units[-1].line,
        text="".join(parts),
        matched=tuple(weights.concepts[number] for number in sorted(matched)),
    )


def _units_by_file(
    candidates: Iterable[Candidate], weights: Weights
) -> dict[tuple[int, str], list[Unit]]:
    """The units of all candidates in file order; where chunks overlap the better chunk's unit."""
    files: dict[tuple[int, str], dict[int, Unit]] = {}
    highest = weights.total * (BM25_K1 + 1)
    for candidate in candidates:
        units = files.setdefault((candidate.file_id, candidate.path), {})
        chunk_score = min(1.0, candidate.bm25 / highest)
        for unit in _speaking(list(_units(candidate, weights, chunk_score))):
            known = units.get(unit.start)
            if known is None or _rank(known) < _rank(unit):
                units[unit.start] = unit
    return {file: [units[start] for start in sorted(units)] for file, units in files.items()}


def _rank(unit: Unit) -> tuple[float, float]:
    return unit.chunk_score, -1.0 if unit.cosine is None else unit.cosine


def _speaking(units: list[Unit]) -> list[Unit]:
    if units and units[0].chunk_score and not any(unit.counts for unit in units):
        units[0] = units[0]._replace(speaks_for_chunk=True)
    return units


def _units(candidate: Candidate, weights: Weights, chunk_score: float) -> Iterator[Unit]:
    text = candidate.text
    ascii_only = text.isascii()
    for (start, end, line), terms in zip(
        split_units(text), candidate.terms.split("\n"), strict=True
    ):
        unit = text[start:end]
        found = weights.concepts_in(terms.split())
        yield Unit(
            candidate.start + start,
            candidate.start + end,
            candidate.start_line + line,
            unit,
            end - start if ascii_only else utf16_length(unit),
            tuple(Counter(found).items()) if found else (),
            candidate.chunk_id,
            chunk_score,
            candidate.cosine,
        )


def _windows(
    file_id: int, path: str, units: Sequence[Unit], weights: Weights, max_chars: int
) -> Iterator[Window]:
    tally = _Tally(weights)
    joined = [False, *(_adjoins(before, unit) for before, unit in pairwise(units))]
    size, last = 0, 0
    for first, unit in enumerate(units):
        while last < len(units) and (last == first or joined[last]):
            length = units[last].length
            if last > first and size + length > max_chars:
                break
            size += length + 1
            tally.change(units[last], last, 1)
            last += 1
        coverage = tally.coverage()
        chunk_score, cosine = _strongest(units, first, last)
        text_score = (1 - CHUNK_SHARE) * coverage
        if coverage or unit.speaks_for_chunk:
            text_score += CHUNK_SHARE * chunk_score
        off_centre = tally.off_centre(first, last)
        yield Window(file_id, path, units, first, last, coverage, text_score, off_centre, cosine)
        size -= unit.length + 1
        tally.change(unit, first, -1)


def _strongest(units: Sequence[Unit], first: int, last: int) -> tuple[float, float | None]:
    """The highest BM25 share and cosine of a run. Between two units of a chunk there is no other."""
    unit = units[first]
    if unit.chunk_id == units[last - 1].chunk_id:
        return unit.chunk_score, unit.cosine
    run = units[first:last]
    cosines = [one.cosine for one in run if one.cosine is not None]
    return max(one.chunk_score for one in run), max(cosines, default=None)


class _Tally:
    """What a window holds of the query while it slides over the units of a file."""

    def __init__(self, weights: Weights) -> None:
        self._gain = weights.by_concept
        self._total = weights.total
        self._counts = [0] * len(weights.concepts)
        self._mass = self._moment = 0.0
        self._coverage: float | None = 0.0
        """None: to be computed anew."""

    def change(self, unit: Unit, position: int, sign: Literal[1, -1]) -> None:
        """Takes in or gives up one unit, the `position`-th of its file."""
        if not unit.counts:
            return
        self._coverage = None
        for number, occurrences in unit.counts:
            self._counts[number] += sign * occurrences
            weight = sign * self._gain[number] * occurrences
            self._mass += weight
            self._moment += weight * (position + 0.5)

    def coverage(self) -> float:
        if self._coverage is None:
            self._coverage = (
                math.fsum(
                    gain * (1.0 + REPETITION * math.log(occurrences))
                    for gain, occurrences in zip(self._gain, self._counts, strict=True)
                    if occurrences
                )
                / self._total
            )
        return self._coverage

    def off_centre(self, first: int, last: int) -> float:
        if not any(self._counts):
            return 0.5
        return round(abs(self._moment / self._mass - (first + last) / 2) / (last - first), 6)


def _adjoins(before: Unit, unit: Unit) -> bool:
    """Nothing but a newline lies between; pieces of overlapping chunks do not adjoin."""
    return 0 <= unit.start - before.end <= 1


def _trim(units: Sequence[Unit]) -> Sequence[Unit]:
    """Without blank units at either end and without headings that nothing follows."""
    first, last = 0, len(units)
    while last > first + 1 and (
        not units[last - 1].text.strip() or units[last - 1].text.startswith("#")
    ):
        last -= 1
    while first < last - 1 and not units[first].text.strip():
        first += 1
    return units[first:last]
