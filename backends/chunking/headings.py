"""Headings: recognising them, their texts, and the path of headings in force at a place.

Owns the ATX form (`## Title`); the underlined form is recognised by the block scanner, which sees
two lines at a time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from backends.chunking.graphemes import next_cut

LONGEST_TITLE: Final = 300
"""Characters of a title that are kept: every chunk below carries it."""

_MARKER: Final = re.compile(r"(#{1,6})(?:[ \t]|$)")


class Heading(NamedTuple):
    offset: int
    """Where its line starts."""
    level: int
    """1 to 6."""
    title: str
    """At most `LONGEST_TITLE` characters."""
    joined: bool
    """Whether it follows another heading with nothing but blank lines between."""


def parse_heading(line: str) -> tuple[int, str] | None:
    """Level and text of a line without its indentation, or None when it is not a heading."""
    line = line.rstrip()
    marker = _MARKER.match(line)
    if marker is None:
        return None
    title = line[marker.end() :].strip()
    unclosed = title.rstrip("#")
    if not unclosed or unclosed[-1] in " \t":
        title = unclosed.rstrip()
    return len(marker[1]), shorten_title(title)


def shorten_title(text: str) -> str:
    """A heading's text up to `LONGEST_TITLE` characters, with its last grapheme whole."""
    if len(text) <= LONGEST_TITLE:
        return text
    return text[: next_cut(text, 0, LONGEST_TITLE, len(text))]


class HeadingPath:
    """The titles in force at ever later places, outermost first."""

    def __init__(self, headings: Sequence[Heading]) -> None:
        self._headings = headings
        self._next = 0
        self._open: list[Heading] = []

    def at(self, start: int, visible: int) -> tuple[str, ...]:
        """The path for text that starts at `start` and whose first visible character is `visible`.

        Headings that the text opens with are included. Calls must come with ascending offsets.
        """
        while self._next < len(self._headings):
            heading = self._headings[self._next]
            if heading.offset > visible and not (heading.joined and self._opens(start)):
                break
            self._enter(heading)
            self._next += 1
        return tuple(heading.title for heading in self._open if heading.title)

    def _opens(self, start: int) -> bool:
        """Whether the heading entered last stands at `start` or in the run that begins there."""
        return self._next > 0 and self._headings[self._next - 1].offset >= start

    def _enter(self, heading: Heading) -> None:
        while self._open and self._open[-1].level >= heading.level:
            self._open.pop()
        self._open.append(heading)
