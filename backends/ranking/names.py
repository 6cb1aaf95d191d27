"""The names that apply to a line: those of its note, the headings, and the titles that are not marked as headings."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

from backends.chunking import HEADING_SEPARATOR, SENTENCE_MARKS, Fence, fence_below, parse_heading
from backends.ranking.lines import Unit
from backends.ranking.query import LEAST_NAMED, Weights
from backends.text.frontmatter import is_property


class Names:
    """Determines how well the names that apply to a line fit the question."""

    def __init__(
        self, weights: Weights, names: Iterable[str], units: Sequence[Unit], lines: Sequence[int]
    ) -> None:
        """`names`: those of the note, which the contexts of all its chunks contain; `lines`: the units that say
        something.
        """
        self._weights = weights
        self._units = units
        self._lines = lines
        self.text_start = text_start(units)
        self._of_note = self._fit_of_note(names) if units else 0.0
        self._above: list[tuple[int, float]] = []
        """The level and the fit of each heading, title and item that applies; levels rise."""
        self._fence: Fence | None = None
        self.is_in_item = False
        self.fit = self._of_note

    def _fit_of_note(self, names: Iterable[str]) -> float:
        known = islice(names, _MOST_NAMES) if self._may_fit(self._units[0].context) else ()
        fits = list(map(self._weights.fit, known))
        if (first := self._first_title()) is not None:
            fits.append(self._weights.fit(first.text, first.concepts))
        return max(fits, default=0.0)

    def read(self, number: int, *, begins: bool) -> bool:
        """Advances to the line of this number, and returns whether it is a heading or a title. `begins`: nothing above
        it is known.

        Other lines may be left out if they are longer than `MOST_TITLE`, begin with none of `NAMING`, and no item
        applies.
        """
        units, at = self._units, self._lines[number]
        unit = units[at]
        if at < self.text_start:
            return False
        line = unit.text
        if begins:
            self._begin(unit)
        text = line.lstrip() if line[0] in _BLANKS else line
        first = text[0]
        if first in _FENCE_MARKS:
            self._fence = fence_below(text, self._fence)
        if self._fence is not None:
            return False
        if first in _ITEM_MARKS and _ITEM.match(text):
            if unit.concepts or self.is_in_item:
                self._read_item(at)
            return False
        if self.is_in_item and line is text:
            self._leave(_BELOW_HEADINGS + 1)
        if first == "#":
            title = parse_heading(line) or (1, "") if is_heading(line) else None
        else:
            title = self._title_by_looks(number) if unit.length <= MOST_TITLE else None
        if title is None:
            return False
        level, name = title
        self._leave(level)
        self._enter(level, name, unit.concepts)
        return True

    def _read_item(self, at: int) -> None:
        """Reads an item: it names the lines nested in it, and may be an answer all the same."""
        units, unit = self._units, self._units[at]
        indent = _indent(unit.text)
        level = _BELOW_HEADINGS + 1 + indent
        self._leave(level)
        below = units[at + 1] if at + 1 < len(units) else unit
        if (
            unit.concepts
            and unit.length <= MOST_TITLE
            and below.line > unit.line
            and _indent(below.text) > indent
        ):
            self._enter(level, unit.text, unit.concepts)

    def _enter(self, level: int, name: str, concepts: int) -> None:
        self._above.append((level, self._weights.fit(name, concepts)))
        self._update()

    def _leave(self, level: int) -> None:
        """Ends the names of this level or deeper."""
        if self._above and self._above[-1][0] >= level:
            self._above = [one for one in self._above if one[0] < level]
            self._update()

    def _begin(self, unit: Unit) -> None:
        headings = stored_headings(unit.headings) if self._may_fit(unit.context) else ()
        self._above = [(level, self._weights.fit(title)) for level, title in headings]
        self._fence = None
        self._update()

    def _may_fit(self, context: int) -> bool:
        return self._weights.coverage(context) >= LEAST_NAMED

    def _update(self) -> None:
        if not self._above:
            self.fit, self.is_in_item = self._of_note, False
            return
        fits = [fit for level, fit in self._above if level < _BELOW_HEADINGS]
        within = [fit for level, fit in self._above if level >= _BELOW_HEADINGS]
        nearest = max(fits.pop() if fits else self._of_note, *within, 0.0)
        if [level for level, _ in self._above] == [1]:  # below its title the note has two names
            nearest = max(nearest, self._of_note)
        self.fit = max(nearest, max(self._of_note, *fits, 0.0) / 2)
        self.is_in_item = self._above[-1][0] > _BELOW_HEADINGS

    def _first_title(self) -> Unit | None:
        """Returns the first line if it is short, on its own and not a sentence: many programs keep titles so."""
        units, lines = self._units, self._lines
        number = bisect_left(lines, self.text_start)
        if units[0].start or number + 1 >= len(lines) or lines[number + 1] == lines[number] + 1:
            return None
        unit = units[lines[number]]
        line = unit.text.rstrip()
        is_title = unit.length <= MOST_TITLE and line[0] not in _NO_TITLE and not _ITEM.match(line)
        return unit if is_title and not line.endswith(_ENDS) else None

    def _title_by_looks(self, number: int) -> tuple[int, str] | None:
        """Returns the level and the text of a setext heading, a heading in HTML, or a line that is wholly in bold or in
        capitals or has a colon at its end. Models write such titles without a blank line above or below.
        """
        units, at = self._units, self._lines[number]
        line = units[at].text.rstrip()
        below = units[at + 1].text.rstrip() if at + 1 < len(units) else ""
        may_be_underlined = below[:1] in _UNDERLINES
        if line[-1] not in _LAST_OF_TITLE and not (may_be_underlined or line.isupper()):
            return None
        if line[0] in _NO_TITLE:
            return None
        if may_be_underlined and not below.strip(below[0]) and len(below) >= _LEAST_UNDERLINE:
            return _UNDERLINES.index(below[0]) + 1, line
        if html := _HTML_HEADING.match(line):
            return int(html[1]), _TAG.sub(" ", line)
        is_title = (
            _BOLD.fullmatch(line) is not None
            or (line.endswith(COLONS) and len(line) <= _MOST_ANNOUNCED)
            or (line.isupper() and not line.endswith(_ENDS))
        )
        return (_BELOW_HEADINGS, line) if is_title else None


_MOST_NAMES: Final = 12
"""The most names of a note that are read for each search; more aliases are words like others."""
MOST_TITLE: Final = 80
"""The most UTF-16 units of a title, of a parent item, and of a first line that names its note."""
_MOST_ANNOUNCED: Final = 40
"""UTF-16 units: a longer line with a colon at its end is a sentence."""
_LEAST_UNDERLINE: Final = 3
_UNDERLINES: Final = ("=", "-")
"""Underlines of setext headings, in the order of their levels."""
_BELOW_HEADINGS: Final = 7
"""The level of a title recognised by its looks; items have the levels after it, by their indentation."""
_BLANKS: Final = (" ", "\t")
_NO_TITLE: Final = frozenset(" \t#|>-+`~=")
_BOLD: Final = re.compile(r"(\*\*|__)(?!\s)(?:(?!\1).)+\1:?")
_HTML_HEADING: Final = re.compile(r"<h([1-6])\b")
_TAG: Final = re.compile(r"</?[a-zA-Z][^>]*>")
COLONS: Final = (":", "：", "៖")
_LAST_OF_TITLE: Final = frozenset("*_:：>")
_ENDS: Final = (*SENTENCE_MARKS, ",", ";", "。", "！", "？", "、", "،")
NAMING: Final = frozenset(" \t#`~")
"""The first characters that a longer line may have if it is a heading or a fence."""
_FENCE_MARKS: Final = frozenset("`~")
_ITEM_MARKS: Final = frozenset("-*+•0123456789")
_ITEM: Final = re.compile(r"(?:[-*+•]|\d{1,9}[.)])\s")


_IN_ITS_FOLDER: Final = frozenset(("index", "_index", "readme"))
"""The file names of notes that have the name of their folder."""


@lru_cache(maxsize=1024)
def name_of_file(path: str) -> str:
    """Returns the name that the path of a note gives it."""
    place = PurePosixPath(path)
    return place.parent.name if place.stem.casefold() in _IN_ITS_FOLDER else place.stem


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


@lru_cache(maxsize=256)
def stored_headings(headings: str) -> tuple[tuple[int, str], ...]:
    """Returns the level and title of each heading that applies where a chunk begins."""
    return tuple(filter(None, map(parse_heading, headings.split(HEADING_SEPARATOR))))


_HEADING: Final = re.compile(r"#{1,6}(\s|\Z)")


def is_heading(line: str) -> bool:
    return line.startswith("#") and _HEADING.match(line) is not None


_FRONT_MATTER: Final = "---"


def text_start(units: Sequence[Unit]) -> int:
    """Returns the number of the first unit after the note's metadata: front matter, or the properties that a page of
    Logseq begins with. Zero without them.
    """
    if not units or units[0].start:
        return 0
    if units[0].text.rstrip() != _FRONT_MATTER:
        return next((at for at, unit in enumerate(units) if not is_property(unit.text)), 0)
    for at in range(1, len(units)):
        if units[at].start - units[at - 1].end > 1:
            return 0
        if units[at].text.rstrip() == _FRONT_MATTER:
            return at + 1
    return 0
