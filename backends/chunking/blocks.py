"""Markdown read line by line into places where a document may be cut.

Owns how lines make blocks (sections, nested list items, fences, paragraphs and tables), and a promise:
between two neighbouring places never stands more than one chunk may hold, and a block that fits is
never open to a cut inside. Which of the places are used is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from backends.chunking.headings import Heading, parse_heading, shorten_title
from backends.chunking.markup import (
    FRONT_MATTER_FENCE,
    INDENTATION,
    Fence,
    closes,
    front_matter,
    indent_of,
    is_item,
    opened_fence,
    underlined_level,
)
from backends.chunking.places import (
    BLOCK_RANK,
    DEEPEST_HEADING_RANK,
    DEEPEST_ITEM_RANK,
    FENCED_RANK,
    HASHED,
    ITEM_RANK,
    LINE_RANK,
    Places,
)
from backends.chunking.room import Room
from backends.chunking.spans import cuts_inside
from backends.chunking.tokens import weigh

_LEAF: Final = 1 << 62
_NOWHERE: Final = -1
_DEEPEST_HEADING: Final = 6
_HEADING_INDENT: Final = 3


class _Block(NamedTuple):
    """An open block: places from index `keep` on lie inside it and go when it fits."""

    indent: int
    """Of an item's mark; `_LEAF` for a block that holds no others."""
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
            self._open.append(self._open[-1]._replace(indent=_LEAF))
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
