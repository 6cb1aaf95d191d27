"""Cutting a chunk into the units that a snippet is made of: lines, and sentences of long lines.

A pure function of the text, so that the terms stored at indexing time and the passages built at
search time always speak of the same units. Units are structs, which are made and read several times faster
than tuples with names, and without a look of the collector, which would find no cycle in them.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from backends.chunking.graphemes import next_cut

MAX_LINE_CHARS: Final = 700
"""UTF-16 units: a line that fits into a snippet is never divided."""
MAX_PIECE_CHARS: Final = 320
"""Less than half a snippet, so that a matching sentence can bring a neighbour along."""

_SENTENCE_END = re.compile(r"[.!?…][)\"'”’»\]]*\s+|[。！？；][」』”）]*|[;:]\s+")
_SPACE = re.compile(r"\s+")


class Unit(msgspec.Struct, frozen=True, gc=False):
    """`text[start:end]`, without the newline that ends it; `line` counts from 0 in the text."""

    start: int
    end: int
    line: int


def split_units(text: str) -> list[Unit]:
    """The units of `text` in order; together they hold every character but the newlines.

    A newline at the end closes its line and begins no further unit.
    """
    units = []
    start = 0
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        end = start + len(line)
        if 2 * len(line) <= MAX_LINE_CHARS or utf16_length(line) <= MAX_LINE_CHARS:
            units.append(Unit(start, end, number))
        else:
            units.extend(Unit(a, b, number) for a, b in _split_line(text, start, end))
        start = end + 1
    return units


def _split_line(text: str, start: int, end: int) -> list[tuple[int, int]]:
    pieces = []
    while end - start > MAX_PIECE_CHARS:
        cut = _best_cut(text, start, start + MAX_PIECE_CHARS, end)
        pieces.append((start, cut))
        start = cut
    pieces.append((start, end))
    return pieces


def _best_cut(text: str, start: int, limit: int, end: int) -> int:
    """The last sentence end in the second half before `limit`, else the last space, else a cluster."""
    middle = (start + limit) // 2
    for pattern in (_SENTENCE_END, _SPACE):
        ends = [match.end() for match in pattern.finditer(text, middle, limit)]
        if ends:
            return ends[-1]
    return next_cut(text, start, limit, end)


def utf16_length(text: str) -> int:
    """Length in UTF-16 code units, the measure of the documented limits."""
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)
