"""Which places become cuts, chosen by the text around each place and never by counting from the top."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final
from zlib import crc32

import msgspec

from backends.chunking.graphemes import may_cut, next_cut
from backends.chunking.tokens import WEIGHT_PER_TOKEN, ChunkLimits, prefix_end, weigh


class Room(msgspec.Struct, frozen=True, gc=False):
    """`0 < step <= least <= limit`; with `ChunkLimits()` these are 80, 133 and 400 tokens."""

    limit: int
    """What one chunk may hold."""
    least: int
    """Chunks lighter than this are avoided, so that small sections share one."""
    step: int
    """Solid text is cut this often; a heading this far above its text still stays with it."""
    overlap: int
    """What a chunk may repeat of the one before it."""

    @classmethod
    def of(cls, limits: ChunkLimits) -> Room:
        limit = max(1, limits.tokens) * WEIGHT_PER_TOKEN
        return cls(
            limit=limit,
            least=max(1, limit // 3),
            step=max(1, limit // 5),
            overlap=max(0, limits.overlap) * WEIGHT_PER_TOKEN,
        )


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
"""Characters; a line that is only continued or changed farther on keeps its strength."""


class Places:
    """Three parallel lists, ascending from offset 0.

    When all are known, `offsets` and `weights` have the end of the text as one entry more.
    """

    __slots__ = ("offsets", "strengths", "weights")

    def __init__(self) -> None:
        self.offsets = [0]
        self.weights = [0]
        """Weight of the text before each place."""
        self.strengths = [0]
        """Compare as plain numbers."""

    def add(self, offset: int, weight: int, rank: int, following: str) -> None:
        """Append a place; `following` is text that begins there, on the same line."""
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
        """The text is this long and this heavy; nothing is added any more."""
        self.offsets.append(offset)
        self.weights.append(weight)

    def keep_first(self, count: int) -> None:
        """Forget all places but the first `count`."""
        if len(self.offsets) > count:
            del self.offsets[count:], self.weights[count:], self.strengths[count:]

    def raise_last(self, rank: int) -> None:
        """Give the last place another rank."""
        self.strengths[-1] = rank << _HASH_BITS | self.strengths[-1] & (1 << _HASH_BITS) - 1


def choose_cuts(places: Places, room: Room) -> list[int]:
    """Indices of the places where chunks begin, then the index of the end of the text.

    Where neighbouring places lie at most `room.limit` apart, so do neighbouring cuts.
    """
    weights, end = places.weights, len(places.strengths)
    if weights[end] <= room.limit:
        return [0, end]
    accepted = _Accepted(weights[end], room)
    strongest_first = sorted(range(end), key=places.strengths.__getitem__, reverse=True)
    strong = {place for place in strongest_first if accepted.add(weights[place])}
    cuts = _with_joined_ends(places, sorted(strong | {0, end}), room)
    starts = (
        start
        for first, last in pairwise(cuts)
        for start in (first, *_fitting_cuts(weights, first, last, room.limit))
    )
    return [*starts, end]


class _Accepted:
    """The weights at which cuts stand, in cells too narrow for two of them.

    Two lists hold the same cells, so that the nearest cut is a minimum or maximum of a few of them:
    an empty cell counts as far below in one list and as far above in the other.
    """

    def __init__(self, total: int, room: Room) -> None:
        self._least, self._limit = room.least, room.limit
        self._reach = room.limit // room.least + 1
        cells = total // room.least + 1 + 2 * self._reach
        self._below = [-room.limit - 1] * cells
        self._above = [total + room.limit + 1] * cells

    def add(self, weight: int) -> bool:
        """Accept a cut at this weight if the rule allows it."""
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
    """The cuts, less those that part a small or needless first or last chunk from its neighbour."""

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
    """Cuts in a stretch that large blocks keep too long: each piece takes as much as fits."""
    while weights[last] - weights[first] > limit:
        fitting = bisect_right(weights, weights[first] + limit, first + 1, last) - 1
        first = max(fitting, first + 1)
        if first == last:
            return
        yield first


_CLOSERS: Final = "\"'”’»)\\]*_"
_CJK_CLOSERS: Final = "」』”’）》】\"'"
_SENTENCE: Final = re.compile(
    rf"(?<=[.!?…])[{_CLOSERS}]*+\s++|(?<=[。！？｡．])(?![。！？｡．])[{_CJK_CLOSERS}]*+\s*+"
)
_WORD: Final = re.compile(r"(?<=\s)(?=\S)|(?<=[，、；：,;])(?=\S)")
_Levels = Sequence[tuple[int, re.Pattern[str]]]
_LEVELS: Final[_Levels] = ((SENTENCE_RANK, _SENTENCE), (WORD_RANK, _WORD))


def sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Positions strictly inside `text[start:end]` at which a sentence begins."""
    return _starts(_SENTENCE, text, start, end)


def cuts_inside(
    text: str, start: int, end: int, *, used: int, room: Room
) -> Iterator[tuple[int, int]]:
    """Cuts (offset, rank) strictly inside `text[start:end]`: no piece outweighs `room.limit`.

    `used` is the weight that already stands before `start` in the same piece. A sentence that fits
    stays whole, and so does a word; solid text (no space, no punctuation) is cut every `room.step`.
    """
    return _refine(text, start, end, used=used, room=room, levels=_LEVELS)


def _refine(
    text: str, start: int, end: int, *, used: int, room: Room, levels: _Levels
) -> Iterator[tuple[int, int]]:
    if not levels:
        yield from _solid(text, start, end, used, room)
        return
    (rank, pattern), *finer = levels
    for stop in (*_starts(pattern, text, start, end), end):
        if used + weigh(text[start:stop]) > room.limit:
            yield from _refine(text, start, stop, used=used, room=room, levels=finer)
        if stop < end:
            yield stop, rank
        start, used = stop, 0


def _solid(text: str, start: int, end: int, used: int, room: Room) -> Iterator[tuple[int, int]]:
    weight = min(room.step, room.limit - used)
    while (wanted := prefix_end(text, start, end, weight)) < end:
        start = next_cut(text, start, max(wanted, start + 1), end)
        if start == end:
            return
        yield start, GRAPHEME_RANK
        weight = room.step


def _starts(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[int]:
    for match in pattern.finditer(text, start, end):
        position = match.end()
        if (
            start < position < end
            and not text[position].isspace()
            and may_cut(text, position, start)
        ):
            yield position
