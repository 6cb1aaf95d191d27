"""Headings, and titles of the length that is kept. For whoever reads them and cuts no note."""

from __future__ import annotations

import re
from typing import Final

from backends.chunking.graphemes import next_cut

LONGEST_TITLE: Final = 300
"""Characters of a title that are kept: every chunk below carries it."""

_MARKER: Final = re.compile(r"(#{1,6})(?:[ \t]|$)")


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
