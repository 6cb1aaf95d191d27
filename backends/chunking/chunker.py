"""Cuts a Markdown document into overlapping chunks.

It is read line by line to find the places where it may be cut (blocks, list items, fences, headings). `choose_cuts`
chooses among them by the text around each place, never by counting from the top.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Final
from zlib import crc32

import msgspec
from msgspec.structs import replace

from backends.chunking import (
    SENTENCE_MARKS,
    WEIGHT_PER_TOKEN,
    Chunk,
    ChunkLimits,
    Fence,
    closes,
    opened_fence,
    parse_heading,
    prefix_end,
    shorten_title,
    suffix_start,
    weigh,
)
from backends.chunking.graphemes import may_cut, next_cut

GRAPHEME_RANK: Final = 0
WORD_RANK: Final = 1
SENTENCE_RANK: Final = 2
FENCED_RANK: Final = 3
LINE_RANK: Final = 4
DEEPEST_ITEM_RANK: Final = 5
ITEM_RANK: Final = 13
BLOCK_RANK: Final = 14
DEEPEST_HEADING_RANK: Final = 15
_HASH_BITS: Final = 32
HASHED: Final = 32
"""Characters that are hashed: a line that is only continued or changed farther on keeps its strength."""
_CLOSERS: Final = "\"'”’»)\\]*_"
_CJK_CLOSERS: Final = "」』”’）》】\"'"
_SENTENCE: Final = re.compile(
    rf"(?<=[{SENTENCE_MARKS}])[{_CLOSERS}]*+\s++|(?<=[。！？｡．])(?![。！？｡．])[{_CJK_CLOSERS}]*+\s*+"
)
_WORD: Final = re.compile(r"(?<=\s)(?=\S)|(?<=[，、；：,;])(?=\S)")
_Levels = Sequence[tuple[int, re.Pattern[str]]]
_LEVELS: Final[_Levels] = ((SENTENCE_RANK, _SENTENCE), (WORD_RANK, _WORD))
INDENTATION: Final = " \t\ufeff"
"""The characters that may precede a line's marker; a byte order mark opens some files."""
_TAB_WIDTH: Final = 4
_ITEM: Final = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])(?:\s|$)")
_UNDERLINE: Final = re.compile(r"(?:=+|-+)\s*$")
_FRONT_MATTER: Final = re.compile(r"\ufeff?---[ \t]*\r?\n")
_FRONT_MATTER_END: Final = re.compile(r"\n-{3,}[ \t]*\r?(?:\n|\Z)")
_LEAF: Final = 1 << 62
_NOWHERE: Final = -1
_DEEPEST_HEADING: Final = 6
_HEADING_INDENT: Final = 3
_LINES_A_TICK: Final = 1_000
_SORTED_AT_ONCE: Final = 4_096
_SEARCHED_AT_ONCE: Final = 1 << 16
_INSIDE_WORD: Final = re.compile(r"[^\W_]{2}")
_VISIBLE: Final = re.compile(r"\S")
_TITLE: Final = re.compile(r"^title:(.*)$", re.MULTILINE)
_QUOTES: Final = "\"'"


class Room(msgspec.Struct, frozen=True, gc=False):
    """Limits of weight. `0 < step <= least <= limit`; with `ChunkLimits()` these are 80, 133 and 400 tokens."""

    limit: int
    """The most that one chunk may weigh."""
    least: int
    """Chunks lighter than this are avoided, so that small sections share one."""
    step: int
    """Text without spaces and punctuation is cut this often; a heading this far above its text still stays with it."""
    overlap: int
    """The most that a chunk may repeat of the one before it."""

    @classmethod
    def of(cls, limits: ChunkLimits) -> Room:
        limit = max(1, limits.tokens) * WEIGHT_PER_TOKEN
        return cls(
            limit=limit,
            least=max(1, limit // 3),
            step=max(1, limit // 5),
            overlap=max(0, limits.overlap) * WEIGHT_PER_TOKEN,
        )


class Places:
    """The places where a text may be cut: three parallel lists, in ascending order of offsets from 0.

    Once all are known, `offsets` and `weights` have the end of the text as one entry more.
    """

    __slots__ = ("offsets", "strengths", "weights")

    def __init__(self) -> None:
        self.offsets = [0]
        self.weights = [0]
        """The weight of the text before each place."""
        self.strengths = [0]
        """The rank of each place, and a hash of the text there: compared as plain numbers."""

    def add(self, offset: int, weight: int, rank: int, following: str) -> None:
        """Appends a place; `following` is text that begins there, on the same line."""
        beginning = following.lstrip()[:HASHED]
        strength = rank << _HASH_BITS | crc32(beginning.encode("utf-8", "surrogatepass"))
        if offset == 0:
            self.strengths[0] = strength
            return
        self.offsets.append(offset)
        self.weights.append(weight)
        self.strengths.append(strength)

    def rank(self, index: int) -> int:
        return self.strengths[index] >> _HASH_BITS

    def end(self, offset: int, weight: int) -> None:
        """Adds the end of the text, after which nothing is added any more."""
        self.offsets.append(offset)
        self.weights.append(weight)

    def keep_first(self, count: int) -> None:
        """Removes all places but the first `count`."""
        if len(self.offsets) > count:
            del self.offsets[count:], self.weights[count:], self.strengths[count:]

    def raise_last(self, rank: int) -> None:
        """Gives the last place another rank."""
        self.strengths[-1] = rank << _HASH_BITS | self.strengths[-1] & (1 << _HASH_BITS) - 1


def choose_cuts(places: Places, room: Room, tick: Callable[[], None] = lambda: None) -> list[int]:
    """Returns the indices of the places where chunks begin, then the index of the end of the text.

    If neighbouring places are at most `room.limit` apart, so are neighbouring cuts. `tick`: see `chunk_markdown`.
    """
    weights, end = places.weights, len(places.strengths)
    if weights[end] <= room.limit:
        return [0, end]
    accepted = _Accepted(weights[end], room)
    strongest_first = _strongest_first(places.strengths, tick)
    strong = {place for place in strongest_first if accepted.add(weights[place])}
    cuts = _with_joined_ends(places, sorted(strong | {0, end}), room)
    starts = (
        start
        for first, last in pairwise(cuts)
        for start in (first, *_fitting_cuts(weights, first, last, room.limit))
    )
    return [*starts, end]


def _strongest_first(strengths: Sequence[int], tick: Callable[[], None]) -> Iterator[int]:
    """Yields the places, sorted in parts: no other thread of the process runs while a list is sorted."""
    parts: dict[int, list[int]] = defaultdict(list)
    shift = _HASH_BITS - (len(strengths) // _SORTED_AT_ONCE).bit_length()
    for place, strength in enumerate(strengths):
        parts[strength >> shift].append(place)
    for part in sorted(parts, reverse=True):
        tick()
        yield from sorted(parts[part], key=strengths.__getitem__, reverse=True)


class _Accepted:
    """The weights of the accepted cuts, in cells too narrow for two of them.

    Two lists contain the same cells, so that the nearest cut is a minimum or maximum of a few of them: an empty cell
    counts as far below in one list and as far above in the other.
    """

    def __init__(self, total: int, room: Room) -> None:
        self._least, self._limit = room.least, room.limit
        self._reach = room.limit // room.least + 1
        cells = total // room.least + 1 + 2 * self._reach
        self._below = [-room.limit - 1] * cells
        self._above = [total + room.limit + 1] * cells

    def add(self, weight: int) -> bool:
        """Accepts a cut at this weight if the rule allows it, and returns whether it does."""
        least = self._least
        cell = weight // least + self._reach
        if self._below[cell] >= 0:
            return False
        before = max(self._below[cell - self._reach : cell])
        after = min(self._above[cell + 1 : cell + self._reach + 1])
        if weight - before < least or after - weight < least or after - before <= self._limit:
            return False
        self._below[cell] = self._above[cell] = weight
        return True


def _with_joined_ends(places: Places, cuts: list[int], room: Room) -> list[int]:
    """Returns the cuts without those that separate a small or needless first or last chunk from its neighbour."""

    def is_needless(edge: int, cut: int, inner: int) -> bool:
        small = abs(places.weights[cut] - places.weights[edge]) < room.least
        fits = abs(places.weights[inner] - places.weights[edge]) <= room.limit
        return fits and (small or places.rank(cut) <= places.rank(inner))

    if len(cuts) > 3 and is_needless(cuts[0], cuts[1], cuts[2]):
        del cuts[1]
    if len(cuts) > 3 and is_needless(cuts[-1], cuts[-2], cuts[-3]):
        del cuts[-2]
    return cuts


def _fitting_cuts(weights: Sequence[int], first: int, last: int, limit: int) -> Iterator[int]:
    """Yields cuts in a stretch that large blocks keep too long: each piece takes as much as fits."""
    while weights[last] - weights[first] > limit:
        fitting = bisect_right(weights, weights[first] + limit, first + 1, last) - 1
        first = max(fitting, first + 1)
        if first == last:
            return
        yield first


def cuts_inside(
    text: str,
    start: int,
    end: int,
    *,
    used: int,
    room: Room,
    tick: Callable[[], None],
    levels: _Levels = _LEVELS,
) -> Iterator[tuple[int, int]]:
    """Yields cuts (offset, rank) strictly inside `text[start:end]`, so that no piece outweighs `room.limit`.

    `used` is the weight before `start` in the same piece. A sentence that fits stays whole, and so does a word; text
    without spaces and punctuation is cut every `room.step`.
    """
    if not levels:
        yield from _solid(text, start, end, used, room, tick)
        return
    (rank, pattern), *finer = levels
    for stop in chain(_starts(pattern, text, start, end, tick), (end,)):
        if used + weigh(text[start:stop]) > room.limit:
            yield from cuts_inside(text, start, stop, used=used, room=room, tick=tick, levels=finer)
        if stop < end:
            yield stop, rank
        start, used = stop, 0


def _solid(
    text: str, start: int, end: int, used: int, room: Room, tick: Callable[[], None]
) -> Iterator[tuple[int, int]]:
    weight = min(room.step, room.limit - used)
    while (wanted := prefix_end(text, start, end, weight)) < end:
        tick()
        start = next_cut(text, start, max(wanted, start + 1), end)
        if start == end:
            return
        yield start, GRAPHEME_RANK
        weight = room.step


def _starts(
    pattern: re.Pattern[str],
    text: str,
    start: int,
    end: int,
    tick: Callable[[], None] = lambda: None,
) -> Iterator[int]:
    """Yields the positions strictly inside `text[start:end]` where the pattern ends and text begins."""
    for first, last in _slices(text, start, end):
        tick()
        for match in pattern.finditer(text, first, last):
            position = match.end()
            if (
                start < position < end
                and not text[position].isspace()
                and may_cut(text, position, start)
            ):
                yield position


def _slices(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields `start` to `end` in slices: no other thread runs during one search. They meet inside words, where none of
    our patterns finds anything.
    """
    while inside := _INSIDE_WORD.search(text, start + _SEARCHED_AT_ONCE, end):
        yield start, (middle := inside.start() + 1)
        start = middle
    yield start, end


FRONT_MATTER_FENCE: Final = Fence("-", 3)


def split_lines(text: str) -> list[str]:
    """Returns the lines without their newlines; no other character ends a line, the last one may lack it."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def indent_of(line: str, body: str) -> int:
    """Returns the columns before `body`, which is `line` without its indentation."""
    width = len(line) - len(body)
    if width and "\t" in line[:width]:
        return len(line[:width].expandtabs(_TAB_WIDTH))
    return width


def underlined_level(body: str) -> int | None:
    """Returns 1 or 2 if the line can be the underline of a setext heading, else None."""
    if _UNDERLINE.match(body) is None:
        return None
    return 1 if body[0] == "=" else 2


def front_matter(text: str) -> str | None:
    """Returns the text between the opening `---` at the very start and its closing line, or None."""
    opening = _FRONT_MATTER.match(text)
    if opening is None:
        return None
    closing = _FRONT_MATTER_END.search(text, opening.end() - 1)
    return None if closing is None else text[opening.end() : closing.start()]


class Heading(msgspec.Struct, frozen=True, gc=False):
    offset: int
    """The offset of its line."""
    level: int
    """1 to 6."""
    title: str
    """At most `LONGEST_TITLE` characters."""
    joined: bool
    """True if only blank lines separate it from another heading before it."""


class HeadingPath:
    """The titles that apply at ever later places, outermost first."""

    def __init__(self, headings: Sequence[Heading]) -> None:
        self._headings = headings
        self._next = 0
        self._open: list[Heading] = []

    def at(self, start: int, visible: int) -> list[Heading]:
        """Returns the path for text that starts at `start` and whose first visible character is `visible`.

        Headings at the beginning of the text are included. Calls must come with ascending offsets.
        """
        while self._next < len(self._headings):
            heading = self._headings[self._next]
            if heading.offset > visible and not (heading.joined and self._opens(start)):
                break
            self._enter(heading)
            self._next += 1
        return [heading for heading in self._open if heading.title]

    def _opens(self, start: int) -> bool:
        """Returns whether the heading entered last is at `start` or in the run that begins there."""
        return self._next > 0 and self._headings[self._next - 1].offset >= start

    def _enter(self, heading: Heading) -> None:
        while self._open and self._open[-1].level >= heading.level:
            self._open.pop()
        self._open.append(heading)


class _Block(msgspec.Struct, frozen=True, gc=False):
    """An open block: places from index `keep` on are inside it and are removed if it fits."""

    indent: int
    """The indent of an item's marker; `_LEAF` for a leaf block."""
    keep: int
    weight: int
    """The weight of the text before the block, or before the heading it must stay with."""


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
        """True if the line before was text that this line may continue."""
        self._open: list[_Block] = []
        self._block_offset = 0
        self._fence: Fence | None = None
        self._fence_holder = _NOWHERE
        """The indent of the item that contains the fence; a line no deeper than that ends both."""
        self._glue: int | None = None
        """The weight before the run of headings just read, which the next block must stay with."""
        self._readers = {
            "#": self._read_heading,
            "`": self._read_fence,
            "~": self._read_fence,
            "=": self._read_underline,
            "-": self._read_dash,
        } | dict.fromkeys("*+0123456789", self._read_item)

    def read(self, line: str) -> None:
        """Reads the next line, given without its newline."""
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
        """Completes the document after its last line."""
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
        """Reads the underline of a setext heading: it makes the one line of text above it a heading."""
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
        if not _ITEM.match(body):
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
        """Returns the weight before what begins here: it stays with a heading just above, or is a place."""
        if self._glue is not None and self._weight - self._glue <= self._room.step:
            return self._glue
        self._mark(rank)
        return self._weight

    def _close(self, indent: int) -> None:
        """Ends every open block that text at this indentation cannot be part of."""
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
        """Returns whether this is the second line of a short block that is in no item."""
        if not self._continuing or len(self._open) != 1 or self._open[0].indent != _LEAF:
            return False
        short = self._weight - self._open[0].weight <= self._room.step
        return short and self._text.find("\n", self._block_offset, self._offset - 1) < 0

    def _relieve(self, size: int) -> None:
        """Adds places at or inside this line: with it, the text since the last one is too much."""
        used = self._weight - self.places.weights[-1]
        if used > self._room.step:
            self._mark(LINE_RANK)
            used = 0
        if used + size <= self._room.limit:
            return
        end = min(self._offset + len(self._line) + 1, len(self._text))
        last, weight = self._offset, self._weight
        cuts = cuts_inside(self._text, last, end, used=used, room=self._room, tick=self._tick)
        for offset, rank in cuts:
            weight += weigh(self._text[last:offset])
            self.places.add(offset, weight, rank, self._text[offset : min(offset + HASHED, end)])
            last = offset


def _heading_rank(level: int) -> int:
    return DEEPEST_HEADING_RANK + _DEEPEST_HEADING - level


class Overlap:
    """Finds where the repeated text of each chunk of one document begins."""

    def __init__(self, text: str, places: Places, headings: Sequence[Heading], room: Room) -> None:
        self._text = text
        self._places = places.offsets
        self._headings = [heading.offset for heading in headings]
        self._room = room

    def start(self, cut: int, previous: int, weight: int) -> int:
        """Returns where the chunk begins whose own text, of this weight, begins at `cut`.

        `previous` is the cut before; the result is after it. A chunk that begins with a heading repeats nothing, and no
        chunk repeats text from before the heading it is under.
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
        """Returns where the first line, else the first sentence, begins in `text[lowest:cut]`."""
        line = self._text.find("\n", lowest - 1, cut) + 1
        if line and not self._text[line:cut].isspace() and line < cut:
            return line
        return next(_starts(_SENTENCE, self._text, lowest, cut), cut)


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
    cuts = choose_cuts(scanner.places, room, tick)
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
