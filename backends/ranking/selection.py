"""The lines of a snippet: the best of a file that fit, with their context, none shown twice; and passages, which are
selected lines of a file as text and as a snippet that names the headings above them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from heapq import heapify, heappop, heappush
from itertools import compress, islice, pairwise
from operator import not_, or_
from typing import Final

import msgspec

from backends.chunking import parse_heading
from backends.interface import GAP, Stretch
from backends.ranking import learnt
from backends.ranking.evidence import FENCES, NO_EVIDENCE, Evidence, is_question
from backends.ranking.layout import READABLE, RULE, Layout, breadcrumb_of, is_row
from backends.ranking.lines import Candidate, Unit, units_by_file
from backends.ranking.names import is_heading
from backends.ranking.query import Concept, Weights
from backends.text.units import utf16_length

LEAST_SHARE_OF_BEST: Final = 0.03
"""The least odds of a line that is shown, as a share of those of the best line."""
BESIDE: Final = 600
"""The UTF-16 units of a stretch without evidence from words. The less words contribute, by the square, the more of what
is beside them is shown.
"""
_LEAST_ROOM: Final = 24
"""UTF-16 units: nothing shorter is worth a stretch of its own."""

Order = tuple[float, int, str, int, int]
"""A sort key, best first: the negated odds; 0 for a file that may yet yield a selection of these odds, 1 for a
selection; then whatever makes equal ones come in the same order each time.
"""


class Selection(msgspec.Struct, frozen=True, gc=False):
    """Units of one file that a snippet shows together."""

    file: File
    at: tuple[int, ...]
    """Their numbers, in the order of the file; never empty."""
    new: tuple[int, ...]
    """Those that were not shown before; the others are there so that these can be understood."""
    mass: float
    """The sum of their odds."""

    def units(self) -> list[Unit]:
        return [self.file.units[at] for at in self.at]

    def new_units(self) -> list[Unit]:
        return [self.file.units[at] for at in self.new]

    def best(self) -> int:
        """Returns the new unit with the highest odds."""
        return max(self.new, key=self.file.odds.__getitem__)

    def earned(self) -> list[Unit]:
        """Returns the units with concepts of the query and, where that is a heading, the text below; else the best."""
        file, earned, below = self.file, [], False
        for at in self.new:
            unit = file.units[at]
            if file.evidence[at].names_subject or file.layout.is_heading(at):
                below = bool(unit.concepts)
            if unit.concepts or (below and unit.text.strip()):
                earned.append(unit)
        return earned or [file.units[self.best()]]

    def order(self) -> Order:
        """Returns the sort key: equal ones come in the order of paths and lines."""
        return (
            -round(self.mass * self.file.worth, 9),
            1,
            self.file.path,
            self.file.file_id,
            self.at[0],
        )


class File:
    """The candidate units of one file, with their evidence, and which of them were shown."""

    def __init__(
        self,
        file_id: int,
        path: str,
        units: Sequence[Unit],
        evidence: Sequence[Evidence],
        odds: Sequence[float],
        max_chars: int,
    ) -> None:
        """`max_chars`: the most UTF-16 units of a snippet."""
        self.file_id = file_id
        self.path = path
        self.units = units
        self.evidence = evidence
        self.odds = odds
        self.max_chars = max_chars
        self.layout = Layout(units)
        self._taken = [False] * len(units)
        self.worth = 1.0
        """The weight of one more passage of this file."""

    def left(self) -> float:
        """Returns the sum of the odds that were not shown: no selection has more mass."""
        return sum(compress(self.odds, map(not_, self._taken)))

    def is_taken(self, at: int) -> bool:
        return self._taken[at]

    def take(self, spans: Iterable[tuple[int, int]]) -> None:
        """Marks the units that overlap these spans of characters as shown, in one pass, since there may be many."""
        starts: list[int] = []
        ends: list[int] = []
        for start, end in sorted(spans):
            if ends and start < ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        if not ends:
            return
        for at, unit in enumerate(self.units):
            number = bisect_right(ends, unit.start)
            if number < len(ends) and starts[number] < unit.end:
                self._taken[at] = True

    def take_all(self, selection: Selection) -> None:
        """Marks what a selection of this file, or of the same units, shows."""
        self.worth *= learnt.AGAIN
        for at in selection.at:
            self._taken[at] = True  # also empty ones
        if self._is_cut_twice:
            self.take((unit.start, unit.end) for unit in selection.units())

    def best(self) -> Selection | None:
        """Returns the best lines that fit into a snippet, with what they need; None if none is left."""
        chosen: set[int] = set()
        found: set[int] = set()
        said: set[str] = set()
        named: set[tuple[str, ...]] = set()
        room, breadcrumbs, least = self.max_chars + len(GAP), 0, 0.0
        for at in self._by_odds:
            if self._taken[at] or at in chosen or self._was_answered(at):
                continue
            if self.odds[at] < least or room < _LEAST_ROOM:
                break
            if not (self._adds(at, chosen, room) if chosen else self._may_earn(at)):
                continue
            words = in_words(self.units[at].text) if self.units[at].length >= READABLE else ""
            if words and words in said:
                continue
            needed = self._with(at, chosen)
            path = self.layout.headings(at)
            breadcrumb = 0 if path in named else utf16_length(breadcrumb_of(path))
            cost = breadcrumb + self._cost(at) + sum(map(self._cost, needed))
            if chosen and cost > room:
                continue
            if not chosen:
                least = LEAST_SHARE_OF_BEST * self.odds[at]
            room -= breadcrumb
            breadcrumbs += breadcrumb
            named.add(path)
            chosen.add(at)
            found.add(at)
            said.add(words)
            room -= self._cost(at)
            for one in needed:
                if self._cost(one) <= room:
                    chosen.add(one)
                    room -= self._cost(one)
        return self.selection(self._rounded(sorted(chosen), found, breadcrumbs)) if chosen else None

    def _with(self, at: int, chosen: Collection[int]) -> list[int]:
        """Returns the units needed to understand a unit and, for a note that was found by its name, its fields."""
        needed = [
            one
            for one in self._needed(at)
            if one not in chosen
            and not (self._taken[one] and self.units[one].line == self.units[at].line)
            and not self._overlaps(one, (at, *chosen))
        ]
        is_by_name = self.units[at].context and not self.units[at].concepts
        if is_by_name and not chosen and not any(self._taken):
            needed += self.layout.fields
        return needed

    def _may_earn(self, at: int) -> bool:
        """Returns whether a unit has evidence of its own; one that is only beside such a line is shown with that."""
        unit = self.units[at]
        if at < self.layout.text_start:
            return bool(unit.concepts) and not any(self._taken)
        return bool(unit.concepts or unit.context) or self.evidence[at].vector > 0

    def _was_answered(self, at: int) -> bool:
        """Returns whether a unit announces something that was shown, without which it says nothing."""
        if not self.layout.announces(at):
            return False
        below = self.layout.text_below(at)
        return below is not None and self._taken[below]

    def _adds(self, at: int, chosen: Collection[int], room: int) -> bool:
        """Returns whether a unit fits, repeats nothing, and has evidence of its own or is beside one that has."""
        if self._cost(at) > room or self._overlaps(at, chosen):
            return False
        units = self.units
        if at < self.layout.text_start:
            more = units[at].concepts & ~reduce(or_, (units[one].concepts for one in chosen))
            return bool(more) and not any(self._taken)
        if units[at].concepts or self.evidence[at].vector > 0:
            return True
        if not any(units[one].concepts for one in chosen):
            return True  # the file was found by its title, and any line may answer
        if self.layout.code_around(at) is not None:
            return False
        return self._is_announced(at, chosen) or any(
            one in chosen and units[one].concepts for one in (at - 1, at + 1)
        )

    def _cost(self, at: int) -> int:
        return self.units[at].length + len(GAP)

    def _rounded(
        self, chosen: Sequence[int], found: Collection[int], breadcrumbs: int
    ) -> list[int]:
        """Returns the chosen units, completed where a gap, or a stretch with a unit that was `found`, is too short."""
        units = self.units
        runs: list[list[int]] = []
        for at in chosen:
            if runs and runs[-1][-1] == at - 1 and self.layout.adjoin(at - 1):
                runs[-1].append(at)
            else:
                runs.append([at])
        length = sum(units[at].length + 1 for at in chosen) - len(runs)
        room = self.max_chars - breadcrumbs - length - len(GAP) * (len(runs) - 1)
        joined = runs[:1]
        for run in runs[1:]:
            between = range(joined[-1][-1] + 1, run[0])
            cost = sum(units[at].length + 1 for at in between) + 1 - len(GAP)
            is_whole = all(map(self.layout.adjoin, (between.start - 1, *between)))
            is_whole = is_whole and not joined[-1][-1] < self.layout.text_start <= run[0]
            if is_whole and cost < READABLE and cost <= room:
                joined[-1] += [*between, *run]
                room -= cost
            else:
                joined.append(run)
        for number, run in enumerate(joined):
            if not any(at in found for at in run):
                continue
            before = joined[number - 1][-1] if number else -2
            after = joined[number + 1][0] if number + 1 < len(joined) else len(units) + 1
            before = max(before, self.layout.text_start - 2)
            by_words = max(self.evidence[at].text for at in run)
            room -= self._grow(
                run, range(before + 2, after - 1), BESIDE * (1 - by_words) ** 2, room, chosen
            )
        return [at for run in joined for at in run]

    def _grow(
        self, run: list[int], free: range, least: float, room: int, chosen: Collection[int]
    ) -> int:
        """Adds the units below and above a stretch, in turn, up to the least length; returns the added length."""
        units = self.units
        before = length = sum(units[at].length + 1 for at in run)
        is_below = True
        while length < least:
            sides: dict[bool, range | None] = {}
            if self.layout.adjoin(run[-1]):
                sides[True] = self._free(run[-1] + 1, free, (*chosen, *run))
            if run[0] and self.layout.adjoin(run[0] - 1) and not is_heading(units[run[0]].text):
                sides[False] = self._free(run[0] - 1, free, (*chosen, *run))
            more = sides.get(is_below) or sides.get(not is_below)
            cost = sum(units[at].length + 1 for at in more or ())
            if not more or length - before + cost > room:
                break
            length += cost
            run[:] = sorted({*run, *more})
            is_below = not is_below
        while run[-1] not in chosen and self.layout.leads_on(run[-1]):
            length -= units[run.pop()].length + 1  # a heading without the text under it
        return length - before

    def _free(self, at: int, free: range, shown: Collection[int]) -> range | None:
        """Returns the units that a unit is read with, if none is shown yet; None for a table row without its head."""
        if at not in free:
            return None
        if is_row(self.units[at].text) and not set(self.layout.head_of_table(at)).issubset(
            (*shown, at)
        ):
            return None
        lines = self.layout.whole(at)
        if not lines or not all(one in free and not self._taken[one] for one in lines):
            return None
        return lines

    def _needed(self, at: int) -> list[int]:
        """Returns the units needed to understand a unit, the most important first."""
        if (code := self.layout.code_around(at)) is not None:
            whole = self.layout.whole(at)
            beside = whole or range(max(at - 1, 0), min(at + 2, len(self.units)))
            near = sorted((one for one in beside if one != at), key=lambda one: abs(one - at))
            if whole:
                return [*near, *self.layout.announcement_of(code)]
            fences = [one for one in (code.start, code.stop - 1) if one not in (at, *near)]
            fences = [one for one in fences if self.units[one].text.lstrip().startswith(FENCES)]
            return [*near, *fences, *self.layout.explanation_of(code)]
        return [
            *self.layout.above(at),
            *self._below(at),
            *self.layout.steps(at),
            *self.layout.rows_below(at),
        ]

    def _is_announced(self, at: int, chosen: Collection[int]) -> bool:
        """Returns whether the heading or announcement above a unit, or a chosen question, has words of the question."""
        above = self.layout.nearest_above(at)
        while above >= 0 and self.layout.says_who(above):
            above = self.layout.nearest_above(above)
        if above < 0 or not self.units[above].concepts:
            return False
        is_reply = above in chosen and is_question(self.units[above].text)
        return is_reply or self.layout.announces(above)

    def _below(self, at: int) -> Iterator[int]:
        """Yields what a unit announces, until the first line that was shown already."""
        if at < self.layout.text_start:
            yield from self.layout.below_front_matter(at)
            return
        for lines in self.layout.below(at):
            if self._taken[lines.start]:
                return
            yield from lines

    def selection(self, at: Iterable[int]) -> Selection:
        """Returns the selection of these units, which are in the order of the file."""
        units = tuple(at)
        new = tuple(one for one in units if not self._taken[one])
        return Selection(self, units, new, sum(self.odds[one] for one in new))

    @cached_property
    def _by_odds(self) -> list[int]:
        """The units that have evidence, best first."""
        odds = self.odds
        return sorted(
            filter(odds.__getitem__, range(len(odds))), key=odds.__getitem__, reverse=True
        )

    def _overlaps(self, at: int, others: Iterable[int]) -> bool:
        """Returns whether a unit overlaps one of the others: overlapping chunks may cut a long line differently."""
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


def best_selections(files: Iterable[File]) -> Iterator[Selection]:
    """Yields selections that share no unit, best first. The best lines of a file are determined only once nothing else
    can be better than all that is left of it.
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
        if file.selection(best.at).mass == best.mass:
            file.take_all(best)
            yield best
        heappush(heap, (*_before(file, number), file))
        number += 1


def _before(file: File, number: int) -> Order:
    """Returns the sort key of a file by all that is left of it; equal ones come in the order of their numbers."""
    return -round(file.left() * file.worth, 9), 0, "", number, 0


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
    """The lines shown for one query."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        """The words of each text, with a space on either side."""
        self._lines: set[str] = set()
        """The words of each line."""

    def show(self, lines: Sequence[str]) -> None:
        """Records the lines of a passage that is shown."""
        words = [_words(line) for line in lines]
        self._texts.append(f" {' '.join(word for line in words for word in line)} ")
        self._lines.update(map(_line_key, lines, words))

    def has_shown(self, lines: Sequence[str]) -> bool:
        """Returns whether everything these lines say was shown: each of them, or every run of three of their words in
        one passage.
        """
        words = [_words(line) for line in lines]
        if all(_line_key(*one) in self._lines for one in zip(lines, words, strict=True)):
            return True
        together = [word for line in words for word in line]
        return any(_holds(shown, together) for shown in self._texts)


def in_words(line: str) -> str:
    """Returns what a line says: two that say the same in the same words are equal."""
    return _line_key(line, _words(line))


def _line_key(line: str, words: Sequence[str]) -> str:
    return " ".join(words) or line.strip()


def _holds(shown: str, words: Sequence[str]) -> bool:
    """Returns whether every run of three of the words is there; False for fewer than three words."""
    runs = zip(*(islice(words, at, None) for at in range(_RUN)), strict=False)
    return len(words) >= _RUN and all(f" {' '.join(run)} " in shown for run in runs)


# --- Passages -------------------------------------------------------------------------------------


class Passage(msgspec.Struct, frozen=True, gc=False):
    """A result. `text` is as in the file, with `GAP` where lines are left out; it begins at character `start` of the
    file. Lines count from 1, ends included, and enclose all stretches.
    """

    file_id: int
    chunk_id: int
    start: int
    start_line: int
    end_line: int
    text: str
    snippet: str
    """The text with lines that name the headings above its stretches."""
    stretches: tuple[Stretch, ...]
    headings: tuple[str, ...]
    """The path of headings above its best line, outermost first."""
    matched: tuple[Concept, ...]
    coverage: float
    """The share of the query's information content in the passage: 0..1."""


def passage_near(
    line: int, candidates: Iterable[Candidate], weights: Weights, *, max_chars: int
) -> Passage:
    """Returns the passage of one file that begins nearest to a line, whatever it contains of the query."""
    (((file_id, path, _), units),) = units_by_file(candidates, weights).items()
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
    """Returns the selection as a result, without blank ends of stretches and headings at its end."""
    file = selection.file
    stretches = _stretches(selection.units(), file.layout.heads_of_tables(selection.at))
    units = [unit for stretch in stretches for unit in stretch]
    matched = reduce(or_, (unit.concepts for unit in units))
    return Passage(
        file_id=file.file_id,
        chunk_id=max(units, key=lambda unit: unit.chunk_score).chunk_id,
        start=units[0].start,
        start_line=units[0].line,
        end_line=units[-1].line,
        text=GAP.join(map(_text, stretches)),
        snippet=_snippet(file, stretches, {file.units[one].start: one for one in selection.at}),
        stretches=tuple(
            Stretch(start_line=one[0].line, end_line=one[-1].line) for one in stretches
        ),
        headings=file.layout.headings(selection.best()),
        matched=weights.members(matched),
        coverage=min(1.0, weights.coverage(matched)),
    )


def _snippet(file: File, stretches: Sequence[Sequence[Unit]], at: Mapping[int, int]) -> str:
    """Returns the stretches, each under a line with the headings that it does not show itself, if their path differs
    from that of the one before and there is room. `at`: the numbers of units by where they begin.
    """
    texts = [_text(stretch) for stretch in stretches]
    room = file.max_chars - utf16_length(GAP.join(texts))
    before: tuple[str, ...] = ()
    parts = []
    for stretch, text in zip(stretches, texts, strict=True):
        path = file.layout.headings(at[stretch[0].start])
        shown = {heading[1] for unit in stretch if (heading := parse_heading(unit.text))}
        line = "" if path == before else breadcrumb_of([one for one in path if one not in shown])
        if (length := utf16_length(line)) > room:
            line, length = "", 0
        room -= length
        parts.append(line + text)
        before = file.layout.headings(at[stretch[-1].start])
    return GAP.join(parts)


def _stretches(units: Sequence[Unit], heads: Container[int]) -> list[list[Unit]]:
    """Returns the contiguous runs of units, none of them blank; at least one. `heads`: the offsets of the header rows
    of tables of which other rows are shown.
    """
    runs = [[units[0]]]
    for before, unit in pairwise(units):
        if 0 <= unit.start - before.end <= 1:
            runs[-1].append(unit)
        else:
            runs.append([unit])
    stretches = [run for run in (_trim(run, heads) for run in runs) if run[0].text.strip()]
    while len(stretches) > 1 and all(map(_names_only, stretches[-1])):
        stretches.pop()
    return stretches or runs[:1]


def _text(units: Sequence[Unit]) -> str:
    parts = [units[0].text]
    for before, unit in pairwise(units):
        parts.append("\n" if unit.start > before.end else "")
        parts.append(unit.text)
    return "".join(parts)


def _names_only(unit: Unit) -> bool:
    """Returns whether the unit is a heading that was not asked for."""
    return not unit.concepts and is_heading(unit.text)


def _says_nothing(units: Sequence[Unit], heads: Container[int]) -> int:
    """Returns how many units at the end say nothing: a blank one, a heading, the head of a table without rows."""
    last = units[-1]
    if not last.text.strip() or _names_only(last):
        return 1
    is_head = len(units) > 1 and is_row(units[-2].text) and not units[-2].concepts
    is_first = len(units) < 3 or not is_row(units[-3].text)
    is_alone = is_head and is_first and units[-2].start not in heads
    return 2 if is_alone and re.fullmatch(RULE, last.text) else 0


def _trim(units: list[Unit], heads: Container[int]) -> list[Unit]:
    """Returns the units without blank ones at either end and without headings that nothing follows."""
    first, last = 0, len(units)
    while last > first + 1 and (below := _says_nothing(units[first:last], heads)):
        last = max(first + 1, last - below)
    while first < last - 1 and not units[first].text.strip():
        first += 1
    return units[first:last]
