"""What goes into chunking and what comes out, and an estimate of tokens that needs no tokenizer."""

from __future__ import annotations

from typing import Final

import msgspec

WEIGHT_PER_TOKEN: Final = 4

_BELOW_U0800: Final = bytes(range(0xE0))


def weigh(text: str) -> int:
    """The weight of a text in quarters of a token: UTF-8 bytes plus characters from U+0800 on.

    So an ASCII character weighs 1 (four to a token), one of the two-byte scripts (accented Latin,
    Greek, Cyrillic, Hebrew, Arabic) 2, a Han, kana, Hangul, Thai, Indic or full-width character
    4 (one token), a character outside the basic plane, such as an emoji, 5.
    """
    if text.isascii():
        return len(text)
    encoded = text.encode("utf-8", "surrogatepass")
    return len(encoded) + len(encoded.translate(None, _BELOW_U0800))


def estimate_tokens(text: str) -> int:
    """About how many tokens a text takes, rounded up; see `weigh` for the characters' shares."""
    return -(-weigh(text) // WEIGHT_PER_TOKEN)


def prefix_end(text: str, start: int, end: int, weight: int) -> int:
    """The last position up to `end` such that `text[start:position]` weighs at most `weight`."""
    end = min(end, start + weight)
    if weigh(text[start:end]) <= weight:
        return end
    low, high = start, end
    while high - low > 1:
        middle = (low + high) // 2
        if weigh(text[start:middle]) <= weight:
            low = middle
        else:
            high = middle
    return low


def suffix_start(text: str, start: int, end: int, weight: int) -> int:
    """The first position from `start` on such that `text[position:end]` weighs at most `weight`."""
    start = max(start, end - weight)
    if weigh(text[start:end]) <= weight:
        return start
    low, high = start, end
    while high - low > 1:
        middle = (low + high) // 2
        if weigh(text[middle:end]) <= weight:
            high = middle
        else:
            low = middle
    return high


class ChunkLimits(msgspec.Struct, frozen=True):
    """Sizes in estimated tokens. `tokens` is at least 1; more overlap than `tokens - 1` has no effect."""

    tokens: int = 400
    """The most a chunk may have, its overlap included."""
    overlap: int = 80
    """The most a chunk repeats of the one before it; less where its own text leaves less room."""


class Chunk(msgspec.Struct, frozen=True):
    """A stretch of a document: its text is exactly `text[start:end]`."""

    start: int
    end: int
    start_line: int
    """Line of the first character, counted from 1; only `\\n` ends a line."""
    end_line: int
    """Line of the last character; a newline belongs to the line it ends."""
    headings: tuple[str, ...]
    """Titles in force where the chunk's own text begins (behind what it repeats), outermost first."""
    levels: tuple[int, ...] = ()
    """Their levels, 1 to 6."""
