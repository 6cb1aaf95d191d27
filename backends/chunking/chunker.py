"""A Markdown document cut into overlapping chunks.

It is read line by line into the places where it may be cut (blocks, list items, fences, headings); `cuts`
chooses among them.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from backends.chunking.cuts import (
    BLOCK_RANK,
    DEEPEST_HEADING_RANK,
    DEEPEST_ITEM_RANK,
    FENCED_RANK,
    HASHED,
    ITEM_RANK,
    LINE_RANK,
    Places,
    Room,
    choose_cuts,
    cuts_inside,
    sentence_starts,
)
from backends.chunking.headings import parse_heading, shorten_title
from backends.chunking.tokens import Chunk, ChunkLimits, suffix_start, weigh

INDENTATION: Final = " \t\ufeff"
"""What may stand before a line's mark; a byte order mark opens some files."""
_TAB_WIDTH: Final = 4
_ITEM: Final = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])(?:\s|$)")
_FENCE: Final = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_UNDERLINE: Final = re.compile(r"(?:=+|-+)\s*$")
_FRONT_MATTER: Final = re.compile(r"\ufeff?---[ \t]*\r?\n")
_FRONT_MATTER_END: Final = re.compile(r"\n-{3,}[ \t]*\r?(?:\n|\Z)")
_LEAF: Final = 1 << 62
_NOWHERE: Final = -1
_DEEPEST_HEADING: Final = 6
_HEADING_INDENT: Final = 3
_LINES_A_TICK: Final = 1_000
_VISIBLE: Final = re.compile(r"\S")
_TITLE: Final = re.compile(r"^title:(.*)$", re.MULTILINE)
_QUOTES: Final = "\"'"


class Fence(msgspec.Struct, frozen=True, gc=False):
    """What the line that closes a fenced block must look like: `length` or more of `mark`."""

    mark: str
    length: int


FRONT_MATTER_FENCE: Final = Fence("-", 3)


def split_lines(text: str) -> list[str]:
    """The lines without their newlines; no other character ends a line, the last one may lack it."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def indent_of(line: str, body: str) -> int:
    """Columns before `body`, which is `line` without its indentation."""
    width = len(line) - len(body)
    if width and "\t" in line[:width]:
        return len(line[:width].expandtabs(_TAB_WIDTH))
    return width


def is_item(body: str) -> bool:
    return _ITEM.match(body) is not None


def opened_fence(body: str) -> Fence | None:
    match = _FENCE.match(body)
    if match is None:
        return None
    mark = match[1] or match[2]
    return Fence(mark[0], len(mark))


def closes(body: str, fence: Fence) -> bool:
    mark = body.rstrip()
    return len(mark) >= fence.length and not mark.strip(fence.mark)


def underlined_level(body: str) -> int | None:
    """1 or 2 when the line can underline a heading, else None."""
    if _UNDERLINE.match(body) is None:
        return None
    return 1 if body[0] == "=" else 2


def front_matter(text: str) -> str | None:
    """What stands between the opening `---` at the very start and its closing line, or None."""
    opening = _FRONT_MATTER.match(text)
    if opening is None:
        return None
    closing = _FRONT_MATTER_END.search(text, opening.end() - 1)
    return None if closing is None else text[opening.end() : closing.start()]


class Heading(msgspec.Struct, frozen=True, gc=False):
    offset: int
    """Where its line starts."""
    level: int
    """1 to 6."""
    title: str
    """At most `LONGEST_TITLE` characters."""
    joined: bool
    """Whether it follows another heading with nothing but blank lines between."""


class HeadingPath:
    """The titles in force at ever later places, outermost first."""

    def __init__(self, headings: Sequence[Heading]) -> None:
        self._headings = headings
        self._next = 0
        self._open: list[Heading] = []

    def at(self, start: int, visible: int) -> list[Heading]:
        """The path for text that starts at `start` and whose first visible character is `visible`.

        Headings that the text opens with are included. Calls must come with ascending offsets.
        """
        while self._next < len(self._headings):
            heading = self._headings[self._next]
            if heading.offset > visible and not (heading.joined and self._opens(start)):
                break
            self._enter(heading)
            self._next += 1
        return [heading for heading in self._open if heading.title]

    def _opens(self, start: int) -> bool:
        """Whether the heading entered last stands at `start` or in the run that begins there."""
        return self._next > 0 and self._headings[self._next - 1].offset >= start

    def _enter(self, heading: Heading) -> None:
        while self._open and self._open[-1].level >= heading.level:
            self._open.pop()
        self._open.append(heading)


class _Block(msgspec.Struct, frozen=True, gc=False):
    """An open block: places from index `keep` on lie inside it and go when it fits."""

    indent: int
    """The indent of an item's mark; `_LEAF` for a block that holds no others."""
    keep: int
    weight: int
    """Weight of the text before the block, or before the heading it must stay with."""


class BlockScanner:
    """Reads one document; `places` and `headings` are complete after `finish()`."""

    def __init__(self, text: str, room: Room, tick: Callable[[], None] = lambda: None) -> None:
        """`tick`: see `chunk_markdown`."""
        self.places = Places()
        self.headings: list[Heading] = []
        self._text = text
        self._room = room
        self._tick = tick
        self._weigh = len if text.isascii() else weigh
        self._line = ""
        self._offset = 0
        self._weight = 0
        self._continuing = False
        """Whether the line before was text that this line may continue."""
        self._open: list[_Block] = []
        self._block_offset = 0
        self._fence: Fence | None = None
        self._fence_holder = _NOWHERE
        """Indent of the item that holds the fence; a line no deeper than that ends both."""
        self._glue: int | None = None
        """Weight before the run of headings just read, which the next block must stay with."""
        self._readers = {
            "#": self._read_heading,
            "`": self._read_fence,
            "~": self._read_fence,
            "=": self._read_underline,
            "-": self._read_dash,
        } | dict.fromkeys("*+0123456789", self._read_item)

    def read(self, line: str) -> None:
        """Take the next line, given without its newline."""
        self._line = line
        if not line or line.isspace():
            self._continuing = False
        elif self._fence is None:
            self._read_block()
        else:
            self._read_fenced(self._fence)
        size = self._weigh(line) + 1
        if self._weight + size - self.places.weights[-1] > self._room.limit:
            self._relieve(size)
        self._offset += len(line) + 1
        self._weight += size

    def finish(self) -> None:
        """All lines were read."""
        self._close(_NOWHERE)
        unended = not self._text.endswith("\n")
        self.places.end(self._offset - unended, self._weight - unended)

    def _read_block(self) -> None:
        body = self._line.lstrip(INDENTATION)
        indent = indent_of(self._line, body)
        reader = self._readers.get(body[:1])
        if reader and reader(body, indent):
            return
        if self._continuing:
            self._continue_block()
        else:
            self._start_block(indent)

    def _read_heading(self, body: str, indent: int) -> bool:
        parsed = parse_heading(body) if indent <= _HEADING_INDENT else None
        if parsed is None:
            return False
        level, title = parsed
        self._close(_NOWHERE)
        self.headings.append(Heading(self._offset, level, title, joined=self._glue is not None))
        self._glue = self._start_weight(_heading_rank(level))
        self._continuing = False
        return True

    def _read_underline(self, body: str, indent: int) -> bool:
        """An underline makes the one line of text above it a heading."""
        level = underlined_level(body) if indent <= _HEADING_INDENT else None
        if level is None or not self._is_second_line():
            return False
        start = self._block_offset
        joined = self.places.offsets[-1] != start
        if not joined:
            self.places.raise_last(_heading_rank(level))
        title = shorten_title(self._text[start : self._offset].strip())
        self.headings.append(Heading(start, level, title, joined))
        self._glue = self._open.pop().weight
        self._continuing = False
        return True

    def _read_dash(self, body: str, indent: int) -> bool:
        if self._offset == 0 and front_matter(self._text) is not None:
            self._start_block(indent)
            self._fence, self._fence_holder = FRONT_MATTER_FENCE, _NOWHERE
            return True
        return self._read_underline(body, indent) or self._read_item(body, indent)

    def _read_item(self, body: str, indent: int) -> bool:
        if not is_item(body):
            return False
        self._close(indent)
        self._open_block(indent, self._rank(ITEM_RANK))
        return True

    def _read_fence(self, body: str, indent: int) -> bool:
        fence = opened_fence(body)
        if fence is None:
            return False
        self._start_block(indent)
        self._fence = fence
        self._fence_holder = self._open[-2].indent if len(self._open) > 1 else _NOWHERE
        return True

    def _read_fenced(self, fence: Fence) -> None:
        body = self._line.lstrip(INDENTATION)
        if indent_of(self._line, body) <= self._fence_holder:
            self._fence, self._continuing = None, False
            self._read_block()
        elif closes(body, fence):
            self._fence, self._continuing = None, False
        else:
            self._mark(FENCED_RANK if self._continuing else LINE_RANK)
            self._continuing = True

    def _start_block(self, indent: int) -> None:
        self._close(indent)
        self._open_block(_LEAF, self._rank(ITEM_RANK if self._continuing else BLOCK_RANK))
        self._block_offset = self._offset

    def _continue_block(self) -> None:
        if self._open[-1].indent != _LEAF:
            self._open.append(replace(self._open[-1], indent=_LEAF))
        self._mark(LINE_RANK)

    def _open_block(self, indent: int, rank: int) -> None:
        weight = self._start_weight(rank)
        self._open.append(_Block(indent, len(self.places.offsets), weight))
        self._glue = None
        self._continuing = True

    def _start_weight(self, rank: int) -> int:
        """Weight before what begins here: it stays with a heading just above, or is a place."""
        if self._glue is not None and self._weight - self._glue <= self._room.step:
            return self._glue
        self._mark(rank)
        return self._weight

    def _close(self, indent: int) -> None:
        """End every open block that text at this indentation cannot be part of."""
        while self._open and self._open[-1].indent >= indent:
            block = self._open.pop()
            if self._weight - block.weight <= self._room.limit:
                self.places.keep_first(block.keep)

    def _mark(self, rank: int) -> None:
        self.places.add(self._offset, self._weight, rank, self._line)

    def _rank(self, outermost: int) -> int:
        depth = len(self._open)
        return max(ITEM_RANK - depth, DEEPEST_ITEM_RANK) if depth else outermost

    def _is_second_line(self) -> bool:
        """Whether this is the second line of a short block that is in no item."""
        if not self._continuing or len(self._open) != 1 or self._open[0].indent != _LEAF:
            return False
        short = self._weight - self._open[0].weight <= self._room.step
        return short and self._text.find("\n", self._block_offset, self._offset - 1) < 0

    def _relieve(self, size: int) -> None:
        """Add places at or inside this line: with it, the text since the last one is too much."""
        used = self._weight - self.places.weights[-1]
        if used > self._room.step:
            self._mark(LINE_RANK)
            used = 0
        if used + size <= self._room.limit:
            return
        end = min(self._offset + len(self._line) + 1, len(self._text))
        last, weight = self._offset, self._weight
        for offset, rank in cuts_inside(self._text, last, end, used=used, room=self._room):
            self._tick()
            weight += weigh(self._text[last:offset])
            self.places.add(offset, weight, rank, self._text[offset : min(offset + HASHED, end)])
            last = offset


def _heading_rank(level: int) -> int:
    return DEEPEST_HEADING_RANK + _DEEPEST_HEADING - level


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


def chunks_of(text: str, limits: ChunkLimits, tick: Callable[[], None]) -> list[Chunk]:
    """See `backends.chunking.chunk_markdown`."""
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
        headings = path.at(cut, visible.start() if visible else cut)
        yield Chunk(
            start=start,
            end=end,
            start_line=line,
            end_line=line + text.count("\n", start, end - 1),
            headings=tuple(heading.title for heading in headings),
            levels=tuple(heading.level for heading in headings),
        )
        previous, counted = cut, start


def title_of(text: str) -> str | None:
    """See `backends.chunking.document_title`."""
    scanner = BlockScanner(text, replace(Room.of(ChunkLimits()), limit=sys.maxsize))
    headings = scanner.headings
    for line in split_lines(text):
        scanner.read(line)
        if headings and headings[-1].level == 1 and headings[-1].title:
            return headings[-1].title
    given = _TITLE.search(front_matter(text) or "")
    return shorten_title(given[1].strip().strip(_QUOTES).strip()) or None if given else None
