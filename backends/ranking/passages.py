"""The passages that candidate chunks can offer: runs of adjacent units that fit into a snippet.

Owns the windows over the units of a file, which of them are the best without sharing a line, and the
text of a result. What a unit is worth is decided in `evidence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise
from operator import or_
from typing import NamedTuple

from backends.ranking.evidence import NO_EVIDENCE, Evidence
from backends.ranking.query import Concept
from backends.ranking.units import Candidate, Unit, units_by_file
from backends.ranking.weights import Weights


class Passage(NamedTuple):
    """`text` as it stands in the file, at `start` of it; lines count from 1, ends included."""

    file_id: int
    chunk_id: int
    start: int
    start_line: int
    end_line: int
    text: str
    matched: tuple[Concept, ...]
    coverage: float
    """The share of the query's information content that the passage holds: 0..1."""


class Window(NamedTuple):
    """`units[first:last]` of one file."""

    file: File
    first: int
    last: int
    mass: float
    """The sum of its units' odds."""
    off_centre: float
    """How far that mass lies from the middle of the window: 0 (central) to 0.5."""

    def run(self) -> Sequence[Unit]:
        return self.file.units[self.first : self.last]

    def characters(self) -> tuple[int, int]:
        """Where it starts and ends in its file."""
        run = self.run()
        return run[0].start, run[-1].end

    def order(self) -> tuple[float, float, str, int, int]:
        """Best first; of equal ones the most central, then file order."""
        return -round(self.mass, 9), self.off_centre, self.file.path, self.file.file_id, self.first


class File:
    """The candidate units of one file, with what speaks for them, and which of them were shown."""

    def __init__(
        self,
        file_id: int,
        path: str,
        units: Sequence[Unit],
        evidence: Sequence[Evidence],
        odds: Sequence[float],
        *,
        max_chars: int,
    ) -> None:
        self.file_id = file_id
        self.path = path
        self.units = units
        self.evidence = evidence
        self._odds = odds
        self._ends = _ends(units, max_chars)
        self._mass = [0.0, *accumulate(odds)]
        moments = (value * (at + 0.5) for at, value in enumerate(odds))
        self._moment = [0.0, *accumulate(moments)]
        self._taken = [False] * len(units)

    def speaks(self, at: int) -> bool:
        """Whether anything speaks for this unit."""
        return self._odds[at] > 0

    def is_taken(self, first: int, last: int) -> bool:
        """Whether any of these units was."""
        return any(self._taken[first:last])

    def take(self, start: int, end: int) -> None:
        """No window will hold one of these characters again. Units of overlapping chunks may overlap
        without beginning at the same place.
        """
        for at, unit in enumerate(self.units):
            if unit.start < end and start < unit.end:
                self._taken[at] = True

    def window(self, first: int) -> Window | None:
        """The longest free window that starts with this unit; None where nothing speaks for it."""
        if self._taken[first] or not self.speaks(first):
            return None
        last = self._ends[first]
        if True in (rest := self._taken[first:last]):
            last = first + rest.index(True)
        mass = self._mass[last] - self._mass[first]
        centre = (self._moment[last] - self._moment[first]) / mass
        off_centre = round(abs(centre - (first + last) / 2) / (last - first), 6)
        return Window(self, first, last, mass, off_centre)


def best_windows(files: Iterable[File]) -> Iterator[Window]:
    """Windows that share no unit, best first.

    One that lost units to a better window comes back as what is left of it, so that a line between two
    taken windows gets its turn.
    """
    heap = [
        (window.order(), window)
        for file in files
        for first in range(len(file.units))
        if (window := file.window(first))
    ]
    heapify(heap)
    while heap:
        _, window = heappop(heap)
        if not window.file.is_taken(window.first, window.last):
            window.file.take(*window.characters())
            yield window
        elif rest := window.file.window(window.first):
            heappush(heap, (rest.order(), rest))


def passage_near(
    line: int, candidates: Iterable[Candidate], weights: Weights, *, max_chars: int
) -> Passage:
    """The passage of one file that begins nearest to a line, whatever it holds of the query."""
    (((file_id, path), units),) = units_by_file(candidates, weights).items()
    everywhere = [1.0] * len(units)
    evidence = [NO_EVIDENCE] * len(units)
    file = File(file_id, path, units, evidence, everywhere, max_chars=max_chars)
    first = min(range(len(units)), key=lambda at: abs(units[at].line - line))
    window = file.window(first)
    assert window is not None
    return to_passage(window, weights)


def to_passage(window: Window, weights: Weights) -> Passage:
    """The window as a result: without blank ends and headings that nothing follows."""
    units = _trim(window.run())
    parts = [units[0].text]
    for before, unit in pairwise(units):
        parts.append("\n" if unit.start > before.end else "")
        parts.append(unit.text)
    matched = reduce(or_, (unit.concepts for unit in units))
    return Passage(
        file_id=window.file.file_id,
        chunk_id=max(units, key=lambda unit: unit.chunk_score).chunk_id,
        start=units[0].start,
        start_line=units[0].line,
        end_line=units[-1].line,
        text="".join(parts),
        matched=weights.members(matched),
        coverage=weights.coverage(matched),
    )


def _ends(units: Sequence[Unit], max_chars: int) -> list[int]:
    """For each unit the end of the longest run from there that fits; at least itself."""
    ends: list[int] = []
    size, last = 0, 0
    for first, unit in enumerate(units):
        while last < len(units) and (
            last == first
            or (_adjoins(units[last - 1], units[last]) and size + units[last].length <= max_chars)
        ):
            size += units[last].length + 1
            last += 1
        ends.append(last)
        size -= unit.length + 1
    return ends


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
