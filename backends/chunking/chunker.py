"""A Markdown document cut into overlapping chunks."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from backends.chunking.blocks import (
    BlockScanner,
    Heading,
    HeadingPath,
    front_matter,
    shorten_title,
    split_lines,
)
from backends.chunking.cuts import Places, Room, choose_cuts, sentence_starts
from backends.chunking.tokens import Chunk, ChunkLimits, suffix_start


class Overlap:
    """Finds beginnings of repeated text in one document."""

    def __init__(self, text: str, places: Places, headings: Sequence[Heading], room: Room) -> None:
        self._text = text
        self._places = places.offsets
        self._headings = [heading.offset for heading in headings]
        self._room = room

    def start(self, cut: int, previous: int, weight: int) -> int:
        """Where the chunk begins whose own text, of this weight, begins at `cut`.

        `previous` is the cut before; the answer lies behind it. A chunk that begins with a heading
        repeats nothing, and no chunk repeats text from before the heading it stands under.
        """
        most = min(self._room.overlap, self._room.limit - weight)
        if most <= 0:
            return cut
        heading = bisect_left(self._headings, cut)
        if heading < len(self._headings) and self._headings[heading] == cut:
            return cut
        lowest = suffix_start(self._text, previous + 1, cut, most)
        if heading and self._headings[heading - 1] >= lowest:
            return self._headings[heading - 1]
        place = self._places[bisect_left(self._places, lowest)]
        if place < cut:
            return place
        return self._inside(lowest, cut)

    def _inside(self, lowest: int, cut: int) -> int:
        """The first line, else the first sentence, that begins in `text[lowest:cut]`."""
        line = self._text.find("\n", lowest - 1, cut) + 1
        if line and not self._text[line:cut].isspace() and line < cut:
            return line
        return next(sentence_starts(self._text, lowest, cut), cut)


CHUNKING_VERSION: Final = 1
"""Raised whenever the same text and limits give other chunks, so that indexes are built anew."""

_LINES_A_TICK: Final = 1_000
_DEFAULT_LIMITS: Final = ChunkLimits()
_VISIBLE: Final = re.compile(r"\S")


def chunk_markdown(
    text: str, limits: ChunkLimits = _DEFAULT_LIMITS, *, tick: Callable[[], None] = lambda: None
) -> list[Chunk]:
    """Cut a document along its structure into chunks, in order, that together hold all of it.

    `estimate_tokens` of a chunk's text never exceeds `limits.tokens`, unless one grapheme alone does (of
    which at most 64 code points are kept together). An empty text has no chunks.
    `tick` is called again and again meanwhile; what it raises ends the work.
    """
    if not text:
        return []
    room = Room.of(limits)
    scanner = BlockScanner(text, room, tick)
    for number, line in enumerate(split_lines(text)):
        if number % _LINES_A_TICK == 0:
            tick()
        scanner.read(line)
    scanner.finish()
    tick()
    cuts = choose_cuts(scanner.places, room)
    overlap = Overlap(text, scanner.places, scanner.headings, room)
    chunks = []
    for chunk in _chunks(text, scanner.places, cuts, overlap, HeadingPath(scanner.headings)):
        tick()
        chunks.append(chunk)
    return chunks


def _chunks(
    text: str, places: Places, cuts: Sequence[int], overlap: Overlap, path: HeadingPath
) -> Iterator[Chunk]:
    previous, counted, line = 0, 0, 1
    for first, last in pairwise(cuts):
        cut, end = places.offsets[first], places.offsets[last]
        weight = places.weights[last] - places.weights[first]
        start = overlap.start(cut, previous, weight) if cut else 0
        line += text.count("\n", counted, start)
        visible = _VISIBLE.search(text, cut, end)
        yield Chunk(
            start=start,
            end=end,
            start_line=line,
            end_line=line + text.count("\n", start, end - 1),
            headings=path.at(cut, visible.start() if visible else cut),
        )
        previous, counted = cut, start


_TITLE: Final = re.compile(r"^title:(.*)$", re.MULTILINE)
_QUOTES: Final = "\"'"


def document_title(text: str) -> str | None:
    """The first heading of level 1, else the title that the front matter gives, else None."""
    scanner = BlockScanner(text, Room.of(ChunkLimits())._replace(limit=sys.maxsize))
    headings = scanner.headings
    for line in split_lines(text):
        scanner.read(line)
        if headings and headings[-1].level == 1 and headings[-1].title:
            return headings[-1].title
    given = _TITLE.search(front_matter(text) or "")
    return shorten_title(given[1].strip().strip(_QUOTES).strip()) or None if given else None
