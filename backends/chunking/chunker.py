"""A Markdown document cut into overlapping chunks: the steps of this package put together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from backends.chunking.blocks import BlockScanner
from backends.chunking.cuts import choose_cuts
from backends.chunking.headings import HeadingPath
from backends.chunking.markup import split_lines
from backends.chunking.model import Chunk, ChunkLimits
from backends.chunking.overlap import Overlap
from backends.chunking.places import Places
from backends.chunking.room import Room

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
