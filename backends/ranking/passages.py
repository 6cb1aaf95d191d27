"""The passages that candidate chunks can offer: runs of adjacent lines that fit into a snippet, none shown twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from heapq import heapify, heappop, heappush
from itertools import accumulate, islice, pairwise
from operator import or_
from typing import Final, NamedTuple, Protocol

from backends.ranking.evidence import (
    NO_EVIDENCE,
    Candidate,
    Completeness,
    Evidence,
    Unit,
    units_by_file,
)
from backends.ranking.query import Concept, Weights


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


_BEFORE_WINDOWS: Final = -1.0
"""In the place of `Window.off_centre`: what may yet become a window comes before windows of that mass."""
_BEFORE_ANY: Final = -2.0

BARE_SHARE: Final = 0.1
"""What is left of the text score's share for headings that nothing follows. One that holds all that was
asked for still passes the default `minScore`."""
_BARE_ODDS: Final = 0.01
"""What is left of their odds: lines that say as much, or somewhat less, come first."""
_HEADING: Final = re.compile(r"#{1,6}(\s|\Z)")


Span = tuple[float, int, int]
"""Where a window will lie: the mass it has if it holds all of the query that its file does, and from which
unit to which."""


class Window(NamedTuple):
    """`units[first:last]` of one file."""

    file: File
    first: int
    last: int
    mass: float
    """The sum of its units' odds, less what it lacks of being complete."""
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
        completeness: Completeness,
        ends: Sequence[int],
    ) -> None:
        """`ends`: of the windows that begin with each unit, see `ends_of`."""
        self.file_id = file_id
        self.path = path
        self.units = units
        self.evidence = evidence
        self.odds = odds
        self._completeness = completeness
        self._ends = ends
        self._mass = [0.0, *accumulate(odds)]
        self._taken = [False] * len(units)

    @cached_property
    def _moment(self) -> list[float]:
        moments = (value * (at + 0.5) for at, value in enumerate(self.odds))
        return [0.0, *accumulate(moments)]

    def highest_mass(self) -> float:
        """No window of the file has more."""
        return max((mass for mass, *_ in self.spans()), default=0.0)

    def spans(self) -> list[Span]:
        """One for each unit that can begin a window."""
        most = self._completeness(reduce(or_, [unit.concepts for unit in self.units], 0))
        return [
            (self._odds_of(first, last) * most, first, last)
            for first, last in enumerate(self._free_ends())
            if last > first and self.odds[first] > 0
        ]

    def free(self) -> list[int]:
        """The units that something speaks for and that were not shown."""
        return [at for at, odds in enumerate(self.odds) if odds > 0 and not self._taken[at]]

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

    def rest(self, window: Window) -> Window | None:
        """What of a window is free from its first unit on; None where that was shown."""
        taken = self._taken[window.first : window.last]
        free = taken.index(True) if True in taken else len(taken)
        return self.window(window.first, window.first + free) if free else None

    def window_from(self, first: int) -> Window:
        """The longest that starts with this unit, whatever was shown."""
        return self.window(first, self._ends[first])

    def window(self, first: int, last: int) -> Window:
        """Of units that something speaks for the first one of."""
        odds = self._odds_of(first, last)
        centre = (self._moment[last] - self._moment[first]) / odds
        off_centre = min(0.5, round(abs(centre - (first + last) / 2) / (last - first), 6))
        held = reduce(or_, [unit.concepts for unit in self.units[first:last]])
        mass = odds * self._completeness(held)
        if self.is_bare(first, last):
            mass *= _BARE_ODDS
        return Window(self, first, last, mass, off_centre)

    def is_bare(self, first: int, last: int) -> bool:
        """Whether nothing but headings is there: it names a subject and says nothing of it."""
        return self._statements[first] == self._statements[last]

    @cached_property
    def _statements(self) -> list[int]:
        """How many of the units before each say something."""
        says = (bool(text := unit.text.strip()) and not _HEADING.match(text) for unit in self.units)
        return [0, *accumulate(map(int, says))]

    def _odds_of(self, first: int, last: int) -> float:
        # What age left of some lines vanishes in the rounding of a sum that began with whole ones.
        return self._mass[last] - self._mass[first] or sum(self.odds[first:last])

    def _free_ends(self) -> Sequence[int]:
        """For each unit the end of the longest free run from there; itself where it was shown."""
        if True not in self._taken:
            return self._ends
        ends, free = list(self._ends), len(self._taken)
        for at in range(free - 1, -1, -1):
            free = at if self._taken[at] else free
            ends[at] = min(ends[at], free)
        return ends


class Offer(Protocol):
    """A file that need not be known yet."""

    @property
    def most_mass(self) -> float:
        """No window of the file has more."""
        ...

    @property
    def file(self) -> File: ...


class _Unbuilt(NamedTuple):
    """The windows of a file that were not put in order so far."""

    file: File
    spans: list[Span]
    """Those that can have the most mass last."""

    def order(self) -> tuple[float, float, str, int, int]:
        """Before every window that has no more mass than one of these can have."""
        most_mass, *_ = self.spans[-1]
        return -round(most_mass, 9), _BEFORE_WINDOWS, self.file.path, self.file.file_id, 0


def best_windows(offers: Iterable[Offer]) -> Iterator[Window]:
    """Windows that share no unit, best first.

    Each file is looked at, and each of its windows built and put in order, when nothing else can be
    better. A window that lost units to a better one comes back as what is left of it, so that a line
    between two taken windows gets its turn.
    """
    heap: list[tuple[float, float, str, int, int, Offer | _Unbuilt | Window]] = [
        (-round(offer.most_mass, 9), _BEFORE_ANY, "", number, 0, offer)
        for number, offer in enumerate(offers)
    ]
    heapify(heap)
    while heap:
        *_, best = heappop(heap)
        again: _Unbuilt | Window | None
        match best:
            case Window(file=file, first=first, last=last):
                if not file.is_taken(first, last):
                    file.take(*best.characters())
                    yield best
                    continue
                again = file.rest(best)
            case _Unbuilt(file, spans):
                _, first, last = spans.pop()
                window = file.window(first, last)
                heappush(heap, (*window.order(), window))
                again = best if spans else None
            case offer:
                spans = sorted(offer.file.spans())
                again = _Unbuilt(offer.file, spans) if spans else None
        if again:
            heappush(heap, (*again.order(), again))


def passage_near(
    line: int, candidates: Iterable[Candidate], weights: Weights, *, max_chars: int
) -> Passage:
    """The passage of one file that begins nearest to a line, whatever it holds of the query."""
    (((file_id, path), units),) = units_by_file(candidates, weights).items()
    everywhere = [1.0] * len(units)
    evidence = [NO_EVIDENCE] * len(units)
    ends = ends_of(units, max_chars)
    file = File(file_id, path, units, evidence, everywhere, lambda _: 1.0, ends)
    first = min(range(len(units)), key=lambda at: abs(units[at].line - line))
    return to_passage(file.window_from(first), weights)


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


def ends_of(units: Sequence[Unit], max_chars: int) -> list[int]:
    """For each unit the end of the longest run from there that fits; at least itself.

    In a run nothing but a newline lies between; pieces of overlapping chunks do not adjoin.
    """
    ends: list[int] = []
    size, last, behind = 0, 0, 0
    for first, unit in enumerate(units):
        if last == first:
            size, last, behind = unit.length + 1, first + 1, unit.end
        while last < len(units):
            after = units[last]
            if not 0 <= after.start - behind <= 1 or size + after.length > max_chars:
                break
            size += after.length + 1
            last += 1
            behind = after.end
        ends.append(last)
        size -= unit.length + 1
    return ends


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


_RUN: Final = 3
_WORD: Final = re.compile(r"\w+")


class Repeats:
    """What was shown for one query."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        """The words of each text, with a space on either side."""

    def is_new(self, text: str) -> bool:
        """Whether the text says anything that no shown one says; it counts as shown from now on."""
        words = _WORD.findall(text.casefold()) or [text.strip()]
        said = f" {' '.join(words)} "
        if said in self._shown or any(_holds(shown, words) for shown in self._shown):
            return False
        self._shown.append(said)
        return True


def _holds(shown: str, words: Sequence[str]) -> bool:
    """Whether every run of three of the words is there; of fewer words none is looked for."""
    runs = zip(*(islice(words, at, None) for at in range(_RUN)), strict=False)
    return len(words) >= _RUN and all(f" {' '.join(run)} " in shown for run in runs)
