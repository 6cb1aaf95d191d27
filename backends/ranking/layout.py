"""The structure of a file: its front matter, headings, code, paragraphs, tables and lists.

The query, and what was shown, play no part here.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from backends.chunking import SENTENCE_MARKS, Fence, fence_below, parse_heading
from backends.interface import BREADCRUMB
from backends.ranking.lines import Unit, is_cue, label_of
from backends.ranking.names import COLONS, is_heading, stored_headings, text_start
from backends.text.frontmatter import is_field
from backends.text.units import utf16_length

READABLE: Final = 60
"""UTF-16 units: a shorter gap is not left out, and a line that announces something has less than twice as many."""
WITH_HEADING: Final = 240
"""The most UTF-16 units under a heading that are shown with it."""
SHORT_PROCEDURE: Final = 420
"""The most UTF-16 units of a numbered list that is shown whole."""
MOST_WRAPPED: Final = 130
"""The most UTF-16 units of a line that an editor wrapped; a longer one ends where its writer ended it."""
LEAST_WRAPPED: Final = 60
"""The fewest UTF-16 units of such a line together with the first word of the next one."""
MOST_ABOVE: Final = 300
"""The most UTF-16 units of a parent item or announcement shown with a line: more would leave no room for it."""
_ITEM: Final = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]")
_STEP: Final = re.compile(r"[ \t]*\d{1,3}[.)][ \t]")
_BEGINS: Final = re.compile(
    r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]|#{1,6}(?:\s|\Z)|\||```|~~~|---|===|\$\$|:::|[A-Za-z-]+::)"
)
"""The beginning of a line that continues no paragraph: an item, heading, row, fence, thematic break or property."""
_CALLOUT: Final = re.compile(r">[ \t]*\[![\w-]+\]|(?:!!!|\?\?\?\+?)[ \t]+\w")
"""The first line of a callout or an admonition, which says nothing without its content."""
_SPEAKER: Final = re.compile(
    r"(?:(?:\*\*|__)[^*_:\n]{1,48}(?:\*\*|__)[^\w:\n]*(?:[\w/.,-]+ ){0,4}"
    r"|\[?(?:[^\W\d_][\w.'’-]*[\]\t ]+){1,3})\d{1,2}:\d\d(?::\d\d)?(?: ?[AaPp][Mm])?\W*"
    r"|\[\d[\d./, :APM-]+\] [^\W\d_][^\d:\n]{1,48}"
)
"""A line with who speaks and when, above what is said: `**Anna** — 8/2/2026 6:32 PM`, `Anna 0:05`, `[18:32] Anna`."""
_SENTENCE_ENDS: Final = (*SENTENCE_MARKS, ":", "。", "！", "？", "：")
RULE: Final = r"[ \t]*\|?[ :|-]*-[ :|-]*"
"""The delimiter row of a table."""


class Layout:
    """The structure of one file, whose units are numbered in its order."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = units
        self._parents: dict[int, int | None] = {}
        self._paths: dict[int, tuple[str, ...]] = {}
        self._texts_below: dict[int, int | None] = {}

    def adjoin(self, at: int) -> bool:
        """Returns whether nothing but a newline separates this unit and the next."""
        return at + 1 < len(self.units) and 0 <= self.units[at + 1].start - self.units[at].end <= 1

    @cached_property
    def text_start(self) -> int:
        return text_start(self.units)

    @cached_property
    def fields(self) -> Sequence[int]:
        """The fields of front matter that say something, as those of a card do; empty if they are long."""
        units = self.units
        fields = [at for at in range(self.text_start) if is_field(units[at].text)]
        return fields if sum(units[at].length for at in fields) <= SHORT_PROCEDURE else ()

    def _beginning(self) -> Iterator[int]:
        """Yields the beginning of the note, which its front matter describes."""
        room = WITH_HEADING
        for at in range(self.text_start, len(self.units)):
            room -= self.units[at].length
            if room < 0 or (at > self.text_start and not self.adjoin(at - 1)):
                return
            yield at

    def headings(self, at: int) -> tuple[str, ...]:
        """Returns the path of headings above a unit, outermost first."""
        known = self._paths.get(at)
        if known is None:
            known = self._paths[at] = self._path_of_headings(at)
        return known

    def _path_of_headings(self, at: int) -> tuple[str, ...]:
        units = self.units
        first = self._first_of_run[at]
        own = self._headings[bisect_left(self._headings, (first,)) :]
        # If a chunk repeats the end of the one before it, the path is that of a later line.
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
        """The first unit of the contiguous run that each unit is in."""
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
            and self.is_heading(number)
            and (parsed := parse_heading(unit.text)) is not None
        ]

    def is_heading(self, at: int) -> bool:
        """Returns whether the unit is a heading and not a comment in code."""
        return is_heading(self.units[at].text) and self.code_around(at) is None

    def announces(self, at: int) -> bool:
        """Returns whether the unit is a heading, or a short line that announces what follows."""
        unit = self.units[at]
        is_short = unit.length < 2 * READABLE and (
            unit.text.rstrip().endswith(COLONS) or self.says_who(at)
        )
        return (is_short or is_heading(unit.text)) and self.code_around(at) is None

    def says_who(self, at: int) -> bool:
        """Returns whether the unit says only who speaks, or when, and the next one what."""
        if not self.adjoin(at) or not (below := self.units[at + 1].text.strip()):
            return False
        is_speaker = _SPEAKER.fullmatch(self.units[at].text) and not _SPEAKER.fullmatch(below)
        return bool(is_speaker) or is_cue(self.units, at)

    def text_below(self, at: int) -> int | None:
        """Returns the first unit below that is neither blank nor a heading, if nothing but such ones is in between."""
        known, passed = self._texts_below, []
        while at not in known:
            passed.append(at)
            below = at + 1
            if not self.adjoin(at):
                known[at] = None
            elif self.units[below].text.strip() and not self.is_heading(below):
                known[at] = below
            else:
                at = below
        known.update(dict.fromkeys(passed, known[at]))
        return known[at]

    def code_around(self, at: int) -> range | None:
        """Returns the code block that a unit is in, if any."""
        number = bisect_right(self._code, at, key=lambda block: block.start)
        return self._code[number - 1] if number and at in self._code[number - 1] else None

    @cached_property
    def _code(self) -> list[range]:
        """The units of each code block, including its fences."""
        blocks = []
        start = 0
        fence: Fence | None = None
        for at, unit in enumerate(self.units):
            if fence is not None and not self.adjoin(at - 1):
                blocks.append(range(start, at))
                fence = None
            above, fence = fence, fence_below(unit.text, fence)
            if above is None and fence is not None:
                start = at
            elif above is not None and fence is None:
                blocks.append(range(start, at + 1))
        if fence is not None:
            blocks.append(range(start, len(self.units)))
        return blocks

    def nearest_above(self, at: int) -> int:
        """Returns the first unit above that is not blank; -1 if there is none."""
        above = at - 1
        while above > 0 and self.adjoin(above) and not self.units[above].text.strip():
            above -= 1
        return above if above >= 0 and self.adjoin(above) else -1

    def announcement_of(self, code: range) -> Iterator[int]:
        """Yields the line above a code block that announces it, and the blank ones between them."""
        at = self.nearest_above(code.start)
        if at >= 0 and self.announces(at) and not self.is_heading(at):
            yield from range(at, code.start)

    def explanation_of(self, code: range) -> Iterator[int]:
        """Yields the text below a code block that says what to make of it, and the blank lines between them."""
        at = code.stop
        while at < len(self.units) and self.adjoin(at - 1) and not self.units[at].text.strip():
            at += 1
        if at < len(self.units) and self.adjoin(at - 1) and not self.is_heading(at):
            lines = self.whole(at) or range(0)
            if sum(self.units[one].length for one in lines) <= MOST_ABOVE:
                yield from range(code.stop, lines.stop)

    def whole(self, at: int) -> range | None:
        """Returns the code block, or the wrapped paragraph or item, of a unit; None for code that is too long."""
        units = self.units
        if (code := self.code_around(at)) is not None:
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
        """Returns whether the next line continues the sentence, or the item, of this one."""
        units = self.units
        if at < 0 or at + 1 >= len(units) or units[at].length > MOST_WRAPPED:
            return False
        if self.says_who(at):
            return True
        line, following = units[at].text, units[at + 1].text
        if not following or _BEGINS.match(following) or not (line.strip() and following.strip()):
            return False
        if _CALLOUT.match(line) or (following.startswith(": ") and not _BEGINS.match(line)):
            return self.adjoin(at)
        is_item = _ITEM.match(line) is not None
        if not self.adjoin(at) or (not is_item and _BEGINS.match(line)):
            return False
        if following[0] in " \t" and (is_item or line[0] in " \t"):
            return True
        if line.rstrip().endswith(_SENTENCE_ENDS) or label_of(following):
            return False
        return units[at].length + 1 + len(following.split(maxsplit=1)[0]) >= LEAST_WRAPPED

    def head_of_table(self, row: int) -> Iterator[int]:
        """Yields the header row and the delimiter row of a row's table."""
        head = self._first_rows[row]
        if head != row:
            yield head
            if head + 1 < row and re.fullmatch(RULE, self.units[head + 1].text):
                yield head + 1

    def rows_below(self, head: int) -> Iterator[int]:
        """Yields the rows of a short table, if the unit is its header: the question is about all of them."""
        last = head
        length = self.units[head].length
        if not is_row(self.units[head].text) or self._first_rows[head] != head:
            return
        while last + 1 < len(self.units) and self._first_rows[last + 1] == head:
            last += 1
            length += self.units[last].length
        if length <= SHORT_PROCEDURE:
            yield from range(head + 1, last + 1)

    def heads_of_tables(self, shown: Iterable[int]) -> set[int]:
        """Returns the offsets of the header rows of tables of which other rows are shown."""
        rows = (at for at in shown if is_row(self.units[at].text))
        return {self.units[first].start for at in rows if (first := self._first_rows[at]) + 1 < at}

    @cached_property
    def _first_rows(self) -> list[int]:
        """The header row of each unit's table; for a unit that is not a row, the unit itself."""
        found: list[int] = []
        was_row = False
        for at, unit in enumerate(self.units):
            is_one = is_row(unit.text)
            found.append(found[-1] if is_one and was_row and self.adjoin(at - 1) else at)
            was_row = is_one
        return found

    def _parent_of_item(self, item: int) -> int | None:
        """Returns the parent of a list item, or the line that announces the list; None if the unit is not an item."""
        if item in self._parents:
            return self._parents[item]
        indent = _indent_of_item(self.units[item].text)
        if indent is None:
            return None
        at, parent = item, None
        while at and self.adjoin(at - 1):
            at -= 1
            line = self.units[at].text
            above = _indent_of_item(line)
            if above == indent and at in self._parents:
                parent = self._parents[at]
                break
            if not line.strip() or (above is not None and above >= indent):
                continue
            is_text = above is None and not line.startswith((" ", "\t"))
            if is_heading(line) or (is_text and not (indent or line.rstrip().endswith(":"))):
                break
            if above is not None or is_text:
                parent = at if self.units[at].length <= MOST_ABOVE else None
                break
        self._parents[item] = parent
        return parent

    def steps(self, at: int) -> Iterator[int]:
        """Yields the rest of a unit's numbered list, if that is short: readers must not miss a step."""
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
        """Returns whether a numbered list continues with a unit: an item, or an indented line."""
        text = self.units[at].text
        is_part = _STEP.match(text) is not None or text.startswith((" ", "\t"))
        return is_part and self.adjoin(min(at, beside))

    def above(self, at: int) -> Iterator[int]:
        """Yields what a unit is read with: the rest of its line, paragraph or item; its parent, or head of table."""
        units = self.units
        first = at
        while first and units[first - 1].line == units[at].line and self.adjoin(first - 1):
            first -= 1
        if first != at:
            yield first
        lines = self.whole(at) or range(at, at + 1)
        yield from (one for one in lines if one != at)
        first = min(first, lines.start)
        if is_row(units[first].text):
            yield from self.head_of_table(first)
        elif (parent := self._parent_of_item(first)) is not None:
            yield parent

    def below_front_matter(self, at: int) -> Iterator[int]:
        """Yields the context of a line of front matter: the other fields, and the beginning of the note."""
        yield from sorted(self.fields, key=lambda one: abs(one - at))
        yield from self._beginning()

    def below(self, at: int) -> list[range]:
        """Returns the lines and code blocks under a heading, or after a short line that announces them."""
        found: list[range] = []
        room, below = WITH_HEADING if self.announces(at) else 0, at + 1
        while room > 0 and below < len(self.units) and self.adjoin(below - 1):
            lines = self.code_around(below) or range(below, below + 1)
            length = sum(self.units[one].length for one in lines)
            is_heading = self.is_heading(below)
            if room < WITH_HEADING and (is_heading or length > room):
                break
            room -= 0 if is_heading else length
            if self.whole(below) is None:
                break
            found.append(lines)
            below = lines.stop
        while found and self.leads_on(found[-1].start):
            found.pop()
        return found

    def leads_on(self, at: int) -> bool:
        """Returns whether a unit says nothing at an end: an announcement, a blank line, a thematic break."""
        return not self.units[at].text.strip(" \t-*_") or self.announces(at)


def _indent_of_item(line: str) -> int | None:
    """Returns the indentation of a list item; None if it is not one."""
    match = _ITEM.match(line)
    return len(match[1].expandtabs(4)) if match else None


def is_row(line: str) -> bool:
    """Returns whether a line is a row of a table."""
    return line.lstrip().startswith("|")


MOST_BREADCRUMB: Final = 60
"""The most UTF-16 units of that line, including its newline."""


def breadcrumb_of(headings: Sequence[str]) -> str:
    """Returns a line, with its newline, that names the innermost headings that fit; empty without headings."""
    path = list(headings)
    while path:
        line = f"{BREADCRUMB}{' › '.join(path)}\n"
        if utf16_length(line) <= MOST_BREADCRUMB:
            return line
        del path[0]
    return ""
