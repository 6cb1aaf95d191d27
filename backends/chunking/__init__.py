"""Cutting Markdown into chunks for search: a pure function of the text and two limits.

What goes in and comes out, headings, and the weight of a text in tokens stand here, for those who cut no note:
`chunker` is imported when the first one is cut. Knows nothing of files, indexes or embeddings.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Final

import msgspec

from backends.chunking.graphemes import next_cut

__all__ = [
    "CHUNKING_VERSION",
    "HEADING_SEPARATOR",
    "Chunk",
    "ChunkLimits",
    "chunk_markdown",
    "document_title",
    "estimate_tokens",
    "parse_heading",
    "shorten_title",
]

CHUNKING_VERSION: Final = 2
"""Raised whenever the same text and limits give other chunks, so that indexes are built anew."""
HEADING_SEPARATOR: Final = "\x1f"
"""Between the headings of one path."""
LONGEST_TITLE: Final = 300
"""Characters of a title that are kept: every chunk below carries it."""
WEIGHT_PER_TOKEN: Final = 4

_BELOW_U0800: Final = bytes(range(0xE0))
_MARKER: Final = re.compile(r"(#{1,6})(?:[ \t]|$)")


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


# The chunker and its patterns take milliseconds to import, and a start on a level index cuts no note.
def chunk_markdown(
    text: str, limits: ChunkLimits | None = None, *, tick: Callable[[], None] = lambda: None
) -> list[Chunk]:
    """Cut a document along its structure into chunks, in order, that together hold all of it.

    `estimate_tokens` of a chunk's text never exceeds `limits.tokens`, unless one grapheme alone does (of
    which at most 64 code points are kept together). An empty text has no chunks.
    `tick` is called again and again meanwhile; what it raises ends the work.
    """
    from backends.chunking.chunker import chunks_of  # noqa: PLC0415

    return chunks_of(text, limits or ChunkLimits(), tick)


def document_title(text: str) -> str | None:
    """The first heading of level 1, else the title that the front matter gives, else None."""
    from backends.chunking.chunker import title_of  # noqa: PLC0415

    return title_of(text)


def parse_heading(line: str) -> tuple[int, str] | None:
    """Level and text of a line without its indentation, or None when it is not a heading."""
    line = line.rstrip()
    marker = _MARKER.match(line)
    if marker is None:
        return None
    title = line[marker.end() :].strip()
    unclosed = title.rstrip("#")
    if not unclosed or unclosed[-1] in " \t":
        title = unclosed.rstrip()
    return len(marker[1]), shorten_title(title)


def shorten_title(text: str) -> str:
    """A heading's text up to `LONGEST_TITLE` characters, with its last grapheme whole."""
    if len(text) <= LONGEST_TITLE:
        return text
    return text[: next_cut(text, 0, LONGEST_TITLE, len(text))]


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
    between = range(start + 1, end)
    return start + bisect_right(between, weight, key=lambda at: weigh(text[start:at]))


def suffix_start(text: str, start: int, end: int, weight: int) -> int:
    """The first position from `start` on such that `text[position:end]` weighs at most `weight`."""
    start = max(start, end - weight)
    if weigh(text[start:end]) <= weight:
        return start
    between = range(start + 1, end)
    return start + 1 + bisect_left(between, -weight, key=lambda at: -weigh(text[at:end]))
