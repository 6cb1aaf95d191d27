"""Where to cut inside a line that does not fit: at sentences, else words, else graphemes.

Owns the search for such places in a stretch of text, and how strong each is. Every step is linear
in the length of the stretch; the patterns cannot backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from backends.chunking.graphemes import may_cut, next_cut
from backends.chunking.places import GRAPHEME_RANK, SENTENCE_RANK, WORD_RANK
from backends.chunking.room import Room
from backends.chunking.tokens import prefix_end, weigh

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
