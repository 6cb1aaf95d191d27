"""The passages that candidate chunks can offer: the best lines of a file that fit into a snippet, none shown twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from heapq import heapify, heappop, heappush
from itertools import compress, islice, pairwise
from operator import not_, or_
from typing import Final

import msgspec

from backends.ranking.evidence import (
    NO_EVIDENCE,
    Candidate,
    Evidence,
    Unit,
    units_by_file,
)
from backends.ranking.query import Concept, Weights

GAP: Final = "\n…\n"
"""Between stretches of a snippet that do not follow one another in the file."""


class Lines(msgspec.Struct, frozen=True, gc=False):
    """A range of lines of a file, counted from 1, ends included."""

    first: int
    last: int


class Passage(msgspec.Struct, frozen=True, gc=False):
    """`text` as it stands in the file, with `GAP` where lines are left out; it begins at character `start`
    of the file. Lines count from 1, ends included, and enclose all stretches.
    """

    file_id: int
    chunk_id: int
    start: int
    start_line: int
    end_line: int
    text: str
    stretches: tuple[Lines, ...]
    matched: tuple[Concept, ...]
    coverage: float
    """The share of the query's information content that the passage holds: 0..1."""


BARE_SHARE: Final = 0.1
"""What is left of the text score's share for headings that nothing follows. One that holds all that was
asked for still passes the default `minScore`."""
_BARE_ODDS: Final = 0.01
"""What is left of their odds: lines that say as much, or somewhat less, come first."""
_HEADING: Final = re.compile(r"#{1,6}(\s|\Z)")

APART: Final = 0.03
"""The share of the best line's odds from which a line is shown even if those between are not. What is
weaker is shown beside a line that is, since alone it would tell nothing."""
LEAST_ALONE: Final = 1.0
"""Odds from which it is: where the best line of a file says little, what stands around it says more than other lines
that say as little."""


Order = tuple[float, int, str, int, int]


class Selection(msgspec.Struct, frozen=True, gc=False):
    """Units of one file that a snippet shows together."""

    file: File
    at: tuple[int, ...]
    """Their numbers, in the order of the file; never empty."""
    mass: float
    """The sum of their odds."""

    def units(self) -> list[Unit]:
        return [self.file.units[at] for at in self.at]

    def order(self) -> Order:
        """Best first; of equal ones in the order of paths and lines."""
        return -round(self.mass, 9), 1, self.file.path, self.file.file_id, self.at[0]


class File:
    """The candidate units of one file, with what speaks for them, and which of them were shown."""

    def __init__(
        self,
        file_id: int,
        path: str,
        units: Sequence[Unit],
        evidence: Sequence[Evidence],
        odds: Sequence[float],
        max_chars: int,
        least_alone: float = 0.0,
    ) -> None:
        """`max_chars`: of a snippet, in UTF-16 units. `least_alone`: the odds of a line, other than the best one, that
        is shown by itself.
        """
        self.file_id = file_id
        self.path = path
        self.units = units
        self.evidence = evidence
        self.odds = odds
        self._max_chars = max_chars
        self._least_alone = least_alone
        self._taken = [False] * len(units)

    def left(self) -> float:
        """The sum of the odds that were not shown: no selection has more mass."""
        return sum(compress(self.odds, map(not_, self._taken)))

    def is_taken(self, at: int) -> bool:
        return self._taken[at]

    def take(self, start: int, end: int) -> None:
        """No selection will hold one of these characters again. Units of overlapping chunks may overlap
        without beginning at the same place.
        """
        for at, unit in enumerate(self.units):
            if unit.start < end and start < unit.end:
                self._taken[at] = True

    def take_all(self, selection: Selection) -> None:
        """What a selection of this file, or of the same units, shows."""
        for at, unit in zip(selection.at, selection.units(), strict=True):
            self._taken[at] = True  # also what is empty
            if self._is_cut_twice:
                self.take(unit.start, unit.end)

    def best(self) -> Selection | None:
        """The best lines with what stands beside them, as much as fits into one snippet; None where nothing
        is left.
        """
        chosen: list[int] = []
        room, least = self._max_chars + len(GAP), 0.0
        for at in self._by_odds:
            if self._taken[at]:
                continue
            if self.odds[at] < least:
                break
            cost = self.units[at].length + len(GAP)
            if not chosen or (cost <= room and not self._overlaps(at, chosen)):
                least = least or max(APART * self.odds[at], self._least_alone)
                chosen.append(at)
                room -= cost
        return self.selection(sorted(self._grown(chosen, room))) if chosen else None

    def selection(self, at: Iterable[int]) -> Selection:
        """The selection of these units, which are in the order of the file."""
        units = tuple(at)
        mass = sum(self.odds[one] for one in units)
        return Selection(self, units, mass * _BARE_ODDS if self.is_bare(units) else mass)

    def is_bare(self, at: Iterable[int]) -> bool:
        """Whether nothing but headings is there: it names a subject and says nothing of it."""
        return not any(_says_something(self.units[one].text) for one in at)

    @cached_property
    def _by_odds(self) -> list[int]:
        """The units that something speaks for, best first."""
        odds = self.odds
        return sorted(
            filter(odds.__getitem__, range(len(odds))), key=odds.__getitem__, reverse=True
        )

    def _grown(self, chosen: Iterable[int], room: int) -> set[int]:
        """Also what stands beside them, the better side first, as far as there is room."""
        odds, shown = self.odds, set(chosen)
        beside = [(-odds[on], -step, on, step) for at in shown for on, step in self._beside(at)]
        heapify(beside)
        while beside and room > 1:
            *_, at, step = heappop(beside)
            length = self.units[at].length
            if self._taken[at] or at in shown or self._overlaps(at, shown):
                continue
            if length < room:
                room -= length + 1
                shown.add(at)
                on = at + step
                if 0 <= on < len(odds) and self._adjoin(min(at, on)):
                    heappush(beside, (-odds[on], -step, on, step))
        return shown

    def _beside(self, at: int) -> Iterator[tuple[int, int]]:
        """The units before and after one, as far as they adjoin, with the way to go on."""
        if at + 1 < len(self.units) and self._adjoin(at):
            yield at + 1, 1
        if at and self._adjoin(at - 1):
            yield at - 1, -1

    def _overlaps(self, at: int, others: Iterable[int]) -> bool:
        """Whether a unit says again what one of the others says: chunks that overlap may cut a long line
        at different places.
        """
        if not self._is_cut_twice:
            return False
        unit = self.units[at]
        units = (self.units[other] for other in others)
        return any(unit.start < one.end and one.start < unit.end for one in units)

    @cached_property
    def _is_cut_twice(self) -> bool:
        if not self.units or self.units[0].chunk_id == self.units[-1].chunk_id:
            return False
        return any(after.start < unit.end for unit, after in pairwise(self.units))

    def _adjoin(self, at: int) -> bool:
        """Whether nothing but a newline lies between this unit and the next."""
        return 0 <= self.units[at + 1].start - self.units[at].end <= 1


def _says_something(line: str) -> bool:
    return bool(text := line.strip()) and not (text[0] == "#" and _HEADING.match(text))


def best_selections(files: Iterable[File]) -> Iterator[Selection]:
    """Selections that share no unit, best first. The best lines of a file are looked for when nothing else can be
    better than all that are left of it.
    """
    heap: list[tuple[float, int, str, int, int, File | Selection]]
    heap = [(*_before(file, number), file) for number, file in enumerate(files)]
    heapify(heap)
    number = len(heap)
    while heap:
        *_, best = heappop(heap)
        if isinstance(best, File):
            if selection := best.best():
                heappush(heap, (*selection.order(), selection))
            continue
        file = best.file
        if not any(map(file.is_taken, best.at)):
            file.take_all(best)
            yield best
        heappush(heap, (*_before(file, number), file))
        number += 1


def _before(file: File, number: int) -> Order:
    """What may yet become a selection comes before selections of that mass."""
    return -round(file.left(), 9), 0, "", number, 0


def passage_near(
    line: int, candidates: Iterable[Candidate], weights: Weights, *, max_chars: int
) -> Passage:
    """The passage of one file that begins nearest to a line, whatever it holds of the query."""
    (((file_id, path), units),) = units_by_file(candidates, weights).items()
    nothing = [NO_EVIDENCE] * len(units)
    file = File(file_id, path, units, nothing, [1.0] * len(units), max_chars)
    first = min(range(len(units)), key=lambda at: abs(units[at].line - line))
    last, room = first + 1, max_chars - units[first].length
    while (
        last < len(units)
        and units[last].start - units[last - 1].end <= 1
        and (room := room - units[last].length - 1) >= 0
    ):
        last += 1
    return to_passage(file.selection(range(first, last)), weights)


def to_passage(selection: Selection, weights: Weights) -> Passage:
    """The selection as a result: without blank ends of stretches and headings at its end."""
    stretches = _stretches(selection.units())
    units = [unit for stretch in stretches for unit in stretch]
    matched = reduce(or_, (unit.concepts for unit in units))
    return Passage(
        file_id=selection.file.file_id,
        chunk_id=max(units, key=lambda unit: unit.chunk_score).chunk_id,
        start=units[0].start,
        start_line=units[0].line,
        end_line=units[-1].line,
        text=GAP.join(map(_text, stretches)),
        stretches=tuple(Lines(one[0].line, one[-1].line) for one in stretches),
        matched=weights.members(matched),
        coverage=min(1.0, weights.coverage(matched)),
    )


def _stretches(units: Sequence[Unit]) -> list[list[Unit]]:
    """Runs between which something is left out, none of them blank; at least one."""
    runs = [[units[0]]]
    for before, unit in pairwise(units):
        if 0 <= unit.start - before.end <= 1:
            runs[-1].append(unit)
        else:
            runs.append([unit])
    stretches = [run for run in map(_trim, runs) if run[0].text.strip()]
    while len(stretches) > 1 and all(unit.text.startswith("#") for unit in stretches[-1]):
        stretches.pop()
    return stretches or runs[:1]


def _text(units: Sequence[Unit]) -> str:
    parts = [units[0].text]
    for before, unit in pairwise(units):
        parts.append("\n" if unit.start > before.end else "")
        parts.append(unit.text)
    return "".join(parts)


def _trim(units: list[Unit]) -> list[Unit]:
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
_IN_WORDS: Final = bytes(
    code if code < 128 and (chr(code).isalnum() or code == ord("_")) else 32 for code in range(256)
)


def _words(text: str) -> list[str]:
    if text.isascii():  # the same words in a fraction of the time
        return text.lower().encode().translate(_IN_WORDS).decode().split()
    return _WORD.findall(text.casefold())


class Repeats:
    """What was shown for one query."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        """The words of each text, with a space on either side."""
        self._lines: set[str] = set()
        """The words of each line."""

    def new_lines(self, lines: Sequence[str]) -> list[int]:
        """The numbers of those lines of a passage that are worth telling; none where all of it was told.

        They count as shown from now on.
        """
        words = [_words(line) for line in lines]
        if not self._is_new([word for line in words for word in line] or ["".join(lines).strip()]):
            return []
        told = []
        for number, line in enumerate(words):
            said = " ".join(line)
            if len(line) < _RUN or said not in self._lines:
                told.append(number)
                self._lines.add(said)
        is_short = all(len(words[number]) < _RUN for number in told)
        return [] if is_short and len(told) < len(lines) else told

    def is_new(self, text: str) -> bool:
        """Whether the text says anything that no shown one says; it counts as shown from now on."""
        return self._is_new(_words(text) or [text.strip()])

    def _is_new(self, words: Sequence[str]) -> bool:
        said = f" {' '.join(words)} "
        if said in self._shown or any(_holds(shown, words) for shown in self._shown):
            return False
        self._shown.append(said)
        return True


def _holds(shown: str, words: Sequence[str]) -> bool:
    """Whether every run of three of the words is there; of fewer words none is looked for."""
    runs = zip(*(islice(words, at, None) for at in range(_RUN)), strict=False)
    return len(words) >= _RUN and all(f" {' '.join(run)} " in shown for run in runs)
