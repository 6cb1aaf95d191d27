"""The passages that candidate chunks can offer: the best lines of a file that fit into a snippet, each with what makes
it readable, none shown twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from heapq import heapify, heappop, heappush
from itertools import compress, islice, pairwise
from operator import not_, or_
from typing import Final

import msgspec

from backends.chunking import parse_heading
from backends.interface import BREADCRUMB, GAP
from backends.ranking import learnt
from backends.ranking.evidence import NO_EVIDENCE, Evidence
from backends.ranking.lines import Candidate, Unit, label_of, units_by_file
from backends.ranking.names import FENCES, is_heading, stored_headings, text_start
from backends.ranking.query import Concept, Weights
from backends.text.frontmatter import is_field
from backends.text.units import utf16_length


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
    snippet: str
    """The text with lines that name the headings above its stretches."""
    stretches: tuple[Lines, ...]
    headings: tuple[str, ...]
    """The path of headings that its best line stands below, outermost first."""
    matched: tuple[Concept, ...]
    coverage: float
    """The share of the query's information content that the passage holds: 0..1."""


ENOUGH: Final = 0.03
"""The share of the best line's odds from which a line is shown with it."""
READABLE: Final = 60
"""UTF-16 units: a shorter gap is not left out, and a line that announces something is hardly longer than twice that."""
BESIDE: Final = 600
"""UTF-16 units of a stretch of which words tell nothing. What is asked in other words than the note has mostly stands
beside what is found: the less words tell, by the square, the more of that is shown."""
WITH_HEADING: Final = 240
"""UTF-16 units of what stands below a heading that are shown with it."""
_LEAST_ROOM: Final = 24
"""UTF-16 units: nothing that is worth a stretch of its own is shorter."""
SHORT_PROCEDURE: Final = 420
"""UTF-16 units of a numbered list that is shown whole."""
MOST_WRAPPED: Final = 130
"""UTF-16 units of a line that an editor ended because it was full; a longer one ends where its writer ended it."""
LEAST_WRAPPED: Final = 60
"""Of such a line with the first word of the next one."""
MOST_ABOVE: Final = 300
"""UTF-16 units of the lines that a line is shown below: more would leave no room for it."""


Order = tuple[float, int, str, int, int]


class Selection(msgspec.Struct, frozen=True, gc=False):
    """Units of one file that a snippet shows together."""

    file: File
    at: tuple[int, ...]
    """Their numbers, in the order of the file; never empty."""
    new: tuple[int, ...]
    """Those that were not shown before; the others are there so that these can be read."""
    mass: float
    """The sum of their odds."""

    def units(self) -> list[Unit]:
        return [self.file.units[at] for at in self.at]

    def new_units(self) -> list[Unit]:
        return [self.file.units[at] for at in self.new]

    def best(self) -> int:
        """The new unit that most speaks for."""
        return max(self.new, key=self.file.odds.__getitem__)

    def earned(self) -> list[Unit]:
        """The units that the place was earned by: those that hold what was asked for, or else the best one."""
        units = [unit for unit in self.new_units() if unit.concepts]
        return units or [self.file.units[self.best()]]

    def order(self) -> Order:
        """Best first; of equal ones in the order of paths and lines."""
        return (
            -round(self.mass * self.file.worth, 9),
            1,
            self.file.path,
            self.file.file_id,
            self.at[0],
        )


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
    ) -> None:
        """`max_chars`: of a snippet, in UTF-16 units."""
        self.file_id = file_id
        self.path = path
        self.units = units
        self.evidence = evidence
        self.odds = odds
        self.max_chars = max_chars
        self._taken = [False] * len(units)
        self._parents: dict[int, int | None] = {}
        self._paths: dict[int, tuple[str, ...]] = {}
        self.worth = 1.0
        """What one more passage of it counts."""

    def left(self) -> float:
        """The sum of the odds that were not shown: no selection has more mass."""
        return sum(compress(self.odds, map(not_, self._taken)))

    def is_taken(self, at: int) -> bool:
        return self._taken[at]

    def take(self, spans: Iterable[tuple[int, int]]) -> None:
        """No selection will be made for one of these characters again. Units of overlapping chunks may overlap
        without beginning at the same place. In one walk: there may be many of both.
        """
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
        """What a selection of this file, or of the same units, shows."""
        self.worth *= learnt.AGAIN
        for at in selection.at:
            self._taken[at] = True  # also what is empty
        if self._is_cut_twice:
            self.take((unit.start, unit.end) for unit in selection.units())

    def best(self) -> Selection | None:
        """The best lines, each with what it cannot be read without, as much as fits into one snippet; None where
        nothing is left.
        """
        chosen: set[int] = set()
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
            path = self.headings(at)
            breadcrumb = 0 if path in named else utf16_length(breadcrumb_of(path))
            cost = breadcrumb + self._cost(at) + sum(map(self._cost, needed))
            if chosen and cost > room:
                continue
            if not chosen:
                least = ENOUGH * self.odds[at]
            room -= breadcrumb
            breadcrumbs += breadcrumb
            named.add(path)
            chosen.add(at)
            said.add(words)
            room -= self._cost(at)
            for one in needed:
                if self._cost(one) <= room:
                    chosen.add(one)
                    room -= self._cost(one)
        return self.selection(self._rounded(sorted(chosen), breadcrumbs)) if chosen else None

    def _with(self, at: int, chosen: Collection[int]) -> list[int]:
        """What is shown with a unit beside what is chosen: what it cannot be read without and, of a note that was
        found by its name, its fields.
        """
        needed = [
            one
            for one in self._needed(at)
            if one not in chosen and not self._overlaps(one, (at, *chosen))
        ]
        if not chosen and self._was_found_by_name(at) and not any(self._taken):
            needed += self._fields
        return needed

    def _may_earn(self, at: int) -> bool:
        """Whether it speaks for itself: what only stands beside a line that does is shown with that."""
        unit = self.units[at]
        if at < self._text_start:
            return bool(unit.concepts) and not any(self._taken)
        return bool(unit.concepts or unit.context) or self.evidence[at].vector > 0

    def _was_answered(self, at: int) -> bool:
        """Whether it announces something that was shown, without which it says nothing."""
        if not self._announces(at):
            return False
        below = at + 1
        while below < len(self.units) and self._adjoin(below - 1):
            if self.units[below].text.strip() and not self._is_heading(below):
                return self._taken[below]
            below += 1
        return False

    def _announces(self, at: int) -> bool:
        """Whether it is a heading, or a short line that announces what stands below it."""
        unit = self.units[at]
        if is_heading(unit.text) or (
            unit.length < 2 * READABLE and unit.text.rstrip().endswith(":")
        ):
            return self._code_around(at) is None
        return False

    def _is_heading(self, at: int) -> bool:
        """Whether it is a heading, and no comment in code."""
        return is_heading(self.units[at].text) and self._code_around(at) is None

    def _adds(self, at: int, chosen: Collection[int], room: int) -> bool:
        """Whether it fits, says nothing again, and something of its own, or stands beside what does: that its file, its
        title or its chunk speaks for it is no reason to show it, too.
        """
        if self._cost(at) > room or self._overlaps(at, chosen):
            return False
        units = self.units
        if at < self._text_start:
            more = units[at].concepts & ~reduce(or_, (units[one].concepts for one in chosen))
            return bool(more) and not any(self._taken)
        if units[at].concepts or self.evidence[at].vector > 0:
            return True
        if not any(units[one].concepts for one in chosen):
            return True  # the file was found by its title, and any line may answer
        if self._code_around(at) is not None:
            return False
        return any(one in chosen and units[one].concepts for one in (at - 1, at + 1))

    def headings(self, at: int) -> tuple[str, ...]:
        """The path of headings that a unit stands below, outermost first."""
        known = self._paths.get(at)
        if known is None:
            known = self._paths[at] = self._path_of_headings(at)
        return known

    def _path_of_headings(self, at: int) -> tuple[str, ...]:
        units = self.units
        first = self._first_of_run[at]
        own = self._headings[bisect_left(self._headings, (first,)) :]
        # Where a chunk repeats the end of the one before it, the path is that of a later line.
        chunk_id = units[first].chunk_id
        inside = {(level, title) for n, level, title in own if units[n].chunk_id == chunk_id}
        above = [one for one in stored_headings(units[first].headings) if one not in inside]
        for number, level, title in own:
            if number > at:
                break
            above = [one for one in above if one[0] < level]
            if number < at:
                above.append((level, title))
        return tuple(title for _, title in above if title)

    @cached_property
    def _first_of_run(self) -> list[int]:
        """By unit the first one from which on all adjoin."""
        found, first, end = [], 0, -2
        for at, unit in enumerate(self.units):
            if not 0 <= unit.start - end <= 1:
                first = at
            found.append(first)
            end = unit.end
        return found

    @cached_property
    def _headings(self) -> list[tuple[int, int, str]]:
        """The number, level and title of each heading among the units."""
        return [
            (number, *parsed)
            for number, unit in enumerate(self.units)
            if unit.text[:1] == "#"
            and self._is_heading(number)
            and (parsed := parse_heading(unit.text)) is not None
        ]

    def _cost(self, at: int) -> int:
        return self.units[at].length + len(GAP)

    def _rounded(self, chosen: Sequence[int], breadcrumbs: int) -> list[int]:
        """With what makes whole again where a gap, or a stretch, is too short to be read."""
        units = self.units
        runs: list[list[int]] = []
        for at in chosen:
            if runs and runs[-1][-1] == at - 1 and self._adjoin(at - 1):
                runs[-1].append(at)
            else:
                runs.append([at])
        length = sum(units[at].length + 1 for at in chosen) - len(runs)
        room = self.max_chars - breadcrumbs - length - len(GAP) * (len(runs) - 1)
        joined = runs[:1]
        for run in runs[1:]:
            between = range(joined[-1][-1] + 1, run[0])
            cost = sum(units[at].length + 1 for at in between) + 1 - len(GAP)
            is_whole = all(map(self._adjoin, (between.start - 1, *between)))
            is_whole = is_whole and not joined[-1][-1] < self._text_start <= run[0]
            if is_whole and cost < READABLE and cost <= room:
                joined[-1] += [*between, *run]
                room -= cost
            else:
                joined.append(run)
        for number, run in enumerate(joined):
            before = joined[number - 1][-1] if number else -2
            after = joined[number + 1][0] if number + 1 < len(joined) else len(units) + 1
            before = max(before, self._text_start - 2)
            told = max(self.evidence[at].text for at in run)
            room -= self._grow(
                run, range(before + 2, after - 1), BESIDE * (1 - told) ** 2, room, chosen
            )
        return [at for run in joined for at in run]

    def _grow(
        self, run: list[int], free: range, least: float, room: int, chosen: Collection[int]
    ) -> int:
        """Adds what stands below and above a stretch, in turn, until it has the least length; what that took.

        `chosen`: all units that the selection has otherwise.
        """
        units = self.units
        before = length = sum(units[at].length + 1 for at in run)
        is_below = True
        while length < least:
            sides: dict[bool, range | None] = {}
            if self._adjoin(run[-1]):
                sides[True] = self._free(run[-1] + 1, free, (*chosen, *run))
            if run[0] and self._adjoin(run[0] - 1) and not is_heading(units[run[0]].text):
                sides[False] = self._free(run[0] - 1, free, (*chosen, *run))
            more = sides.get(is_below) or sides.get(not is_below)
            cost = sum(units[at].length + 1 for at in more or ())
            if not more or length - before + cost > room:
                break
            length += cost
            run[:] = sorted({*run, *more})
            is_below = not is_below
        while run[-1] not in chosen and (
            not units[run[-1]].text.strip() or self._announces(run[-1])
        ):
            length -= units[run.pop()].length + 1  # a heading without what stands below it
        return length - before

    def _free(self, at: int, free: range, shown: Collection[int]) -> range | None:
        """What a unit is read with, if nothing of it is shown yet; no row of a table without its head."""
        if at not in free:
            return None
        if _is_row(self.units[at].text) and not set(self._head_of_table(at)).issubset((*shown, at)):
            return None
        lines = self._whole(at)
        if not lines or not all(one in free and not self._taken[one] for one in lines):
            return None
        return lines

    def _needed(self, at: int) -> list[int]:
        """What a unit cannot be read without, the most important first: the beginning of its line; the rest of a
        paragraph or an item of several lines; the item, the head of the table or the announcement that it stands below;
        what stands below a heading or an announcement; the other steps of a short procedure. Of code, the code around
        and the line that announces it.
        """
        if (code := self._code_around(at)) is not None:
            whole = self._whole(at)
            beside = whole or range(max(at - 1, 0), min(at + 2, len(self.units)))
            near = sorted((one for one in beside if one != at), key=lambda one: abs(one - at))
            return [*near, *self._announcement_of(code)] if whole else near
        return [*self._above(at), *self._below(at), *self._steps(at)]

    def _announcement_of(self, code: range) -> Iterator[int]:
        """The line above a block of code that announces it, and what is blank between them."""
        at = code.start - 1
        while at > 0 and self._adjoin(at) and not self.units[at].text.strip():
            at -= 1
        if at >= 0 and self._adjoin(at) and self._announces(at) and not self._is_heading(at):
            yield from range(at, code.start)

    @cached_property
    def _text_start(self) -> int:
        return text_start(self.units)

    @cached_property
    def _code(self) -> list[range]:
        """The units of each block of code, its fences among them."""
        blocks = []
        start, mark = -1, ""
        for at, unit in enumerate(self.units):
            if start >= 0 and not self._adjoin(at - 1):
                blocks.append(range(start, at))
                start = -1
            if "```" not in unit.text and "~~~" not in unit.text:
                continue
            sign = unit.text.lstrip()[:3]
            if sign not in FENCES:
                continue
            if start < 0:
                start, mark = at, sign
            elif sign == mark and unit.text.strip(" \t\r") == sign:
                blocks.append(range(start, at + 1))
                start = -1
        if start >= 0:
            blocks.append(range(start, len(self.units)))
        return blocks

    def _code_around(self, at: int) -> range | None:
        """The block of code that a unit is in."""
        number = bisect_right(self._code, at, key=lambda block: block.start)
        return self._code[number - 1] if number and at in self._code[number - 1] else None

    def _whole(self, at: int) -> range | None:
        """The units that a unit is read with: the block of code, or the lines of a paragraph or an item that an editor
        divided. None of code that is too long.
        """
        units = self.units
        if (code := self._code_around(at)) is not None:
            length = sum(units[one].length for one in code)
            return code if length <= SHORT_PROCEDURE else None
        first = last = at
        room = SHORT_PROCEDURE - units[at].length
        while self._goes_on_below(first - 1) and (room := room - units[first - 1].length) >= 0:
            first -= 1
        while self._goes_on_below(last) and (room := room - units[last + 1].length) >= 0:
            last += 1
        return range(first, last + 1)

    def _goes_on_below(self, at: int) -> bool:
        """Whether the next line goes on with the sentence, or the item, of this one."""
        units = self.units
        if at < 0 or at + 1 >= len(units) or units[at].length > MOST_WRAPPED:
            return False
        line, following = units[at].text, units[at + 1].text
        if not following or _BEGINS.match(following) or not (line.strip() and following.strip()):
            return False
        if _CALLOUT.match(line) or (following.startswith(": ") and not _BEGINS.match(line)):
            return self._adjoin(at)
        is_item = _ITEM.match(line) is not None
        if not self._adjoin(at) or (not is_item and _BEGINS.match(line)):
            return False
        if following[0] in " \t" and (is_item or line[0] in " \t"):
            return True
        if line.rstrip().endswith(_SENTENCE_ENDS) or label_of(following):
            return False
        return units[at].length + 1 + len(following.split(maxsplit=1)[0]) >= LEAST_WRAPPED

    def _above(self, at: int) -> Iterator[int]:
        units = self.units
        first = at
        while first and units[first - 1].line == units[at].line and self._adjoin(first - 1):
            first -= 1
        if first != at:
            yield first
        lines = self._whole(at) or range(at, at + 1)
        yield from (one for one in lines if one != at)
        first = min(first, lines.start)
        if _is_row(units[first].text):
            yield from self._head_of_table(first)
        elif (parent := self._parent_of_item(first)) is not None:
            yield parent

    def _head_of_table(self, row: int) -> Iterator[int]:
        """The first row, and the rule below it."""
        head = self._first_rows[row]
        if head != row:
            yield head
            if head + 1 < row and re.fullmatch(_RULE, self.units[head + 1].text):
                yield head + 1

    def heads_of_tables(self, shown: Iterable[int]) -> set[int]:
        """Where the heads begin of the tables that rows of are shown."""
        rows = (at for at in shown if _is_row(self.units[at].text))
        return {self.units[first].start for at in rows if (first := self._first_rows[at]) + 1 < at}

    @cached_property
    def _first_rows(self) -> list[int]:
        """By unit the first row of the table that it is a row of; of what is no row itself."""
        found: list[int] = []
        was_row = False
        for at, unit in enumerate(self.units):
            is_row = _is_row(unit.text)
            found.append(found[-1] if is_row and was_row and self._adjoin(at - 1) else at)
            was_row = is_row
        return found

    def _parent_of_item(self, item: int) -> int | None:
        """The item that one is below, or the line that announces the list; None of what is no item."""
        indent = _indent_of_item(self.units[item].text)
        if indent is None:
            return None
        at, parent = item, None
        while at and self._adjoin(at - 1):
            at -= 1
            line = self.units[at].text
            above = _indent_of_item(line)
            if above == indent and at in self._parents:
                parent = self._parents[at]
                break
            if not line.strip() or (above is not None and above >= indent):
                continue
            is_text = above is None and not line.startswith((" ", "\t"))
            if is_heading(line) or (is_text and not line.rstrip().endswith(":")):
                break
            if above is not None or is_text:
                parent = at if self.units[at].length <= MOST_ABOVE else None
                break
        self._parents[item] = parent
        return parent

    def _below(self, at: int) -> Iterator[int]:
        """What stands below a heading, or a short line that announces it."""
        if at < self._text_start:
            yield from sorted(self._fields, key=lambda one: abs(one - at))
            yield from self._beginning()
            return
        if not self._announces(at):
            return
        room = WITH_HEADING
        below = at + 1
        while room > 0 and below < len(self.units) and self._adjoin(below - 1):
            lines = self._code_around(below) or range(below, below + 1)
            length = sum(self.units[one].length for one in lines)
            if self._is_heading(below):
                if room < WITH_HEADING:
                    return
            elif room < WITH_HEADING and length > room:
                return
            else:
                room -= length
            if self._whole(below) is None or self._taken[below]:
                return
            yield from lines
            below = lines.stop

    @cached_property
    def _fields(self) -> Sequence[int]:
        """The lines of front matter that tell something, as those of a card do; none where they are many."""
        units = self.units
        fields = [at for at in range(self._text_start) if is_field(units[at].text)]
        return fields if sum(units[at].length for at in fields) <= SHORT_PROCEDURE else ()

    def _was_found_by_name(self, at: int) -> bool:
        """Whether the title, path, date or headings of a line hold what was asked for, and not the line."""
        return bool(self.units[at].context and not self.units[at].concepts)

    def _beginning(self) -> Iterator[int]:
        """What the note begins with: that is what its front matter speaks of."""
        room = WITH_HEADING
        for at in range(self._text_start, len(self.units)):
            room -= self.units[at].length
            if room < 0 or (at > self._text_start and not self._adjoin(at - 1)):
                return
            yield at

    def _steps(self, at: int) -> Iterator[int]:
        """The numbered list that a unit is an item of, if that is short: whoever follows it must not miss a step."""
        if not _STEP.match(self.units[at].text):
            return
        first, last = at, at
        length = self.units[at].length
        while first and self._goes_on(first - 1, first):
            first -= 1
            length += self.units[first].length
        while last + 1 < len(self.units) and self._goes_on(last + 1, last):
            last += 1
            length += self.units[last].length
        if length <= SHORT_PROCEDURE:
            yield from (one for one in range(first, last + 1) if one != at)

    def _goes_on(self, at: int, beside: int) -> bool:
        """Whether a numbered list goes on with a unit: an item, or a line that is indented."""
        text = self.units[at].text
        is_part = _STEP.match(text) is not None or text.startswith((" ", "\t"))
        return is_part and self._adjoin(min(at, beside))

    def selection(self, at: Iterable[int]) -> Selection:
        """The selection of these units, which are in the order of the file."""
        units = tuple(at)
        new = tuple(one for one in units if not self._taken[one])
        return Selection(self, units, new, sum(self.odds[one] for one in new))

    @cached_property
    def _by_odds(self) -> list[int]:
        """The units that something speaks for, best first."""
        odds = self.odds
        return sorted(
            filter(odds.__getitem__, range(len(odds))), key=odds.__getitem__, reverse=True
        )

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
        return at + 1 < len(self.units) and 0 <= self.units[at + 1].start - self.units[at].end <= 1


_ITEM: Final = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]")
_STEP: Final = re.compile(r"[ \t]*\d{1,3}[.)][ \t]")
_BEGINS: Final = re.compile(
    r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]|#{1,6}(?:\s|\Z)|\||```|~~~|---|===|\$\$|:::|[A-Za-z-]+::)"
)
"""What is no line of a paragraph that goes on: an item, a heading, a row, a fence, a rule, a property."""
_CALLOUT: Final = re.compile(r">[ \t]*\[![\w-]+\]|(?:!!!|\?\?\?\+?)[ \t]+\w")
"""The line above a note or a warning, which says nothing without it."""
_SENTENCE_ENDS: Final = (".", "!", "?", "…", ":", "。", "！", "？", "：")
_RULE: Final = r"[ \t]*\|?[ :|-]*-[ :|-]*"
"""The line below the head of a table."""


def _indent_of_item(line: str) -> int | None:
    """The indentation of a list item; None of what is none."""
    match = _ITEM.match(line)
    return len(match[1].expandtabs(4)) if match else None


def _is_row(line: str) -> bool:
    """Whether it is a row of a table."""
    return line.lstrip().startswith("|")


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
        if file.selection(best.at).mass == best.mass:
            file.take_all(best)
            yield best
        heappush(heap, (*_before(file, number), file))
        number += 1


def _before(file: File, number: int) -> Order:
    """What may yet become a selection comes before selections of that mass."""
    return -round(file.left() * file.worth, 9), 0, "", number, 0


def passage_near(
    line: int, candidates: Iterable[Candidate], weights: Weights, *, max_chars: int
) -> Passage:
    """The passage of one file that begins nearest to a line, whatever it holds of the query."""
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
    """The selection as a result: without blank ends of stretches and headings at its end."""
    file = selection.file
    stretches = _stretches(selection.units(), file.heads_of_tables(selection.at))
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
        stretches=tuple(Lines(one[0].line, one[-1].line) for one in stretches),
        headings=file.headings(selection.best()),
        matched=weights.members(matched),
        coverage=min(1.0, weights.coverage(matched)),
    )


MOST_BREADCRUMB: Final = 60
"""UTF-16 units of that line, its end included."""


def breadcrumb_of(headings: Sequence[str]) -> str:
    """The line, with its end, that names headings: the innermost of them that there is room for; nothing of none."""
    path = list(headings)
    while path:
        line = f"{BREADCRUMB}{' › '.join(path)}\n"
        if utf16_length(line) <= MOST_BREADCRUMB:
            return line
        del path[0]
    return ""


def _snippet(file: File, stretches: Sequence[Sequence[Unit]], at: Mapping[int, int]) -> str:
    """The stretches, each below a line that names the headings which it does not show itself, where that is another
    path than that of the one before and there is room. `at`: the numbers of units by where they begin.
    """
    texts = [_text(stretch) for stretch in stretches]
    room = file.max_chars - utf16_length(GAP.join(texts))
    before: tuple[str, ...] = ()
    parts = []
    for stretch, text in zip(stretches, texts, strict=True):
        path = file.headings(at[stretch[0].start])
        shown = {heading[1] for unit in stretch if (heading := parse_heading(unit.text))}
        line = "" if path == before else breadcrumb_of([one for one in path if one not in shown])
        if (length := utf16_length(line)) > room:
            line, length = "", 0
        room -= length
        parts.append(line + text)
        before = file.headings(at[stretch[-1].start])
    return GAP.join(parts)


def _stretches(units: Sequence[Unit], heads: Container[int]) -> list[list[Unit]]:
    """Runs between which something is left out, none of them blank; at least one. `heads`: where the heads of tables
    begin that rows of are shown.
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
    """Whether it is a heading that was not asked for."""
    return not unit.concepts and is_heading(unit.text)


def _says_nothing(units: Sequence[Unit], heads: Container[int]) -> int:
    """How many units at the end say nothing: a blank one, a heading, the head of a table of which no row is shown."""
    last = units[-1]
    if not last.text.strip() or _names_only(last):
        return 1
    is_head = len(units) > 1 and _is_row(units[-2].text) and not units[-2].concepts
    is_first = len(units) < 3 or not _is_row(units[-3].text)
    is_alone = is_head and is_first and units[-2].start not in heads
    return 2 if is_alone and re.fullmatch(_RULE, last.text) else 0


def _trim(units: list[Unit], heads: Container[int]) -> list[Unit]:
    """Without blank units at either end and without headings that nothing follows."""
    first, last = 0, len(units)
    while last > first + 1 and (below := _says_nothing(units[first:last], heads)):
        last = max(first + 1, last - below)
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
        self._texts: list[str] = []
        """The words of each text, with a space on either side."""
        self._lines: set[str] = set()
        """The words of each line."""

    def show(self, lines: Sequence[str]) -> None:
        """Takes the lines of a passage that is shown."""
        words = [_words(line) for line in lines]
        self._texts.append(f" {' '.join(word for line in words for word in line)} ")
        self._lines.update(map(_line_key, lines, words))

    def tell_all(self, lines: Sequence[str]) -> bool:
        """Whether what was shown says all that these lines say: each of them, or every run of three words of them
        together in one text.
        """
        words = [_words(line) for line in lines]
        if all(_line_key(*one) in self._lines for one in zip(lines, words, strict=True)):
            return True
        together = [word for line in words for word in line]
        return any(_holds(shown, together) for shown in self._texts)


def in_words(line: str) -> str:
    """What a line says: two that say the same in the same words are equal."""
    return _line_key(line, _words(line))


def _line_key(line: str, words: Sequence[str]) -> str:
    return " ".join(words) or line.strip()


def _holds(shown: str, words: Sequence[str]) -> bool:
    """Whether every run of three of the words is there; of fewer words none is looked for."""
    runs = zip(*(islice(words, at, None) for at in range(_RUN)), strict=False)
    return len(words) >= _RUN and all(f" {' '.join(run)} " in shown for run in runs)
