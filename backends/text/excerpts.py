"""Cutting a chunk into excerpts: the pieces that are embedded, each with a vector of its own.

A vector of a whole chunk tells its topic; one of a few lines tells what they say. Excerpts never
overlap, so they cost no more tokens than the text has.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from backends.chunking import estimate_tokens
from backends.text.units import Unit, split_units

EXCERPT_VERSION: Final = 2
"""Goes up with every change of where excerpts begin and end."""
EXCERPT_TOKENS: Final = 150
"""About as much as a snippet shows. Half as much finds no more and doubles the vectors."""


class ExcerptSpan(NamedTuple):
    """`text[start:end]`; `line` is that of its first character, counted from 0 in the text."""

    start: int
    end: int
    line: int


def cut_excerpts(text: str, start: int = 0) -> list[ExcerptSpan]:
    """Runs of whole units from character `start` on, of at most `EXCERPT_TOKENS` where units allow.

    Of a unit that begins before `start` the rest counts. Each begins and ends with a unit that is not
    blank. A heading ends one and is in none: it is short,
    and the keyword lane knows it. Where there is nothing else, headings are excerpts.
    """
    units = [_from(unit, text, start) for unit in split_units(text) if unit.end > start]
    lines = [text[unit.start : unit.end] for unit in units]
    only_headings = not any(line.strip() and not line.startswith("#") for line in lines)
    spans: list[ExcerptSpan] = []
    room = 0
    for unit, line in zip(units, lines, strict=True):
        if not line.strip():
            continue
        if line.startswith("#") and not only_headings:
            room = 0
            continue
        tokens = estimate_tokens(line)
        if tokens <= room:
            spans[-1] = spans[-1]._replace(end=unit.end)
            room -= tokens
        else:
            spans.append(ExcerptSpan(unit.start, unit.end, unit.line))
            room = EXCERPT_TOKENS - tokens
    return spans


def _from(unit: Unit, text: str, start: int) -> Unit:
    """What of the unit begins at character `start` or later, without leading blanks."""
    if unit.start >= start:
        return unit
    rest = text[start : unit.end]
    return replace(unit, start=start + len(rest) - len(rest.lstrip()))
