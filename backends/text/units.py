"""Division of a chunk into the lines that a snippet consists of, and into the excerpts that are embedded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

import msgspec
from msgspec.structs import replace

from backends.chunking import SENTENCE_MARKS, estimate_tokens
from backends.chunking.graphemes import next_cut

MAX_LINE_CHARS: Final = 700
"""UTF-16 units: a line that fits into a snippet is never split."""
MAX_PIECE_CHARS: Final = 320
"""Less than half a snippet, so that a matching sentence can be shown with a neighbour."""

_SENTENCE_END = rf"[{SENTENCE_MARKS}][)\"'”’»\]]*\s+|[。！？；][」』”）]*|[;:؛]\s+"
_SPACE = r"\s+"


# Compiled with the first long line, not at start.
@cache
def _ends() -> tuple[re.Pattern[str], ...]:
    return re.compile(_SENTENCE_END), re.compile(_SPACE)


class TextUnit(msgspec.Struct, frozen=True, gc=False):
    """`text[start:end]`, without the newline at its end; `line`, where it begins, counts from 0 in the text."""

    start: int
    end: int
    line: int


def split_units(text: str) -> list[TextUnit]:
    """Returns the units of `text` in order; together they contain every character except newlines.

    A newline at the end ends its line and begins no further unit.
    """
    units = []
    start = 0
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        end = start + len(line)
        if 2 * len(line) <= MAX_LINE_CHARS or utf16_length(line) <= MAX_LINE_CHARS:
            units.append(TextUnit(start, end, number))
        else:
            units.extend(TextUnit(a, b, number) for a, b in _split_line(text, start, end))
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
    """Returns the last end of a sentence in the second half before `limit`, else of a space, else of a grapheme
    cluster.
    """
    middle = (start + limit) // 2
    for pattern in _ends():
        ends = [match.end() for match in pattern.finditer(text, middle, limit)]
        if ends:
            return ends[-1]
    return next_cut(text, start, limit, end)


def utf16_length(text: str) -> int:
    """Returns the length in UTF-16 code units, the measure of the documented limits."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


EXCERPT_VERSION: Final = 3
"""Increases with every change of where excerpts begin and end."""
EXCERPT_TOKENS: Final = 150
"""About as much as a snippet shows. Half as much finds no more and doubles the vectors."""


def cut_excerpts(
    text: str, start: int = 0, units: Sequence[TextUnit] | None = None
) -> list[TextUnit]:
    """Returns runs of whole units from character `start` on, of at most `EXCERPT_TOKENS` where units allow.

    Of a unit that begins before `start`, only the rest counts. Each run begins and ends with a unit that is not blank.
    A heading ends a run and is in none: it is short, and the keyword lane finds it. If there is nothing else, headings
    are excerpts. `units`: those of the text, if known.
    """
    units = [_from(one, text, start) for one in units or split_units(text) if one.end > start]
    lines = [text[unit.start : unit.end] for unit in units]
    only_headings = not any(line.strip() and not line.startswith("#") for line in lines)
    spans: list[TextUnit] = []
    room = 0
    for unit, line in zip(units, lines, strict=True):
        if not line.strip():
            continue
        if line.startswith("#") and not only_headings:
            room = 0
            continue
        tokens = estimate_tokens(line)
        if tokens <= room:
            spans[-1] = replace(spans[-1], end=unit.end)
            room -= tokens
        else:
            spans.append(unit)
            room = EXCERPT_TOKENS - tokens
    return spans


def _from(unit: TextUnit, text: str, start: int) -> TextUnit:
    """Returns the part of the unit that begins at character `start` or later, without leading blanks."""
    if unit.start >= start:
        return unit
    rest = text[start : unit.end]
    return replace(unit, start=start + len(rest) - len(rest.lstrip()))
