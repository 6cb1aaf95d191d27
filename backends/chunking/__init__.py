"""Chunking of Markdown for search: a pure function of the text and two limits.

The types, headings, fences, and the weight of a text in tokens are here, for callers that cut no note: `chunker` is
imported when the first one is cut. Knows nothing of files, indexes or embeddings.
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
    "SENTENCE_MARKS",
    "Chunk",
    "ChunkLimits",
    "chunk_markdown",
    "document_title",
    "estimate_tokens",
    "parse_heading",
    "shorten_title",
]

CHUNKING_VERSION: Final = 3
"""Increases whenever the same text and limits give other chunks, so that indexes are rebuilt."""
HEADING_SEPARATOR: Final = "\x1f"
"""Separates the headings of one path."""
LONGEST_TITLE: Final = 300
"""The most characters of a title that are kept: every chunk under it contains it."""
WEIGHT_PER_TOKEN: Final = 4
SENTENCE_MARKS: Final = ".!?…؟۔।॥։።။។"
"""The ends of sentences in scripts with spaces: also Arabic, Urdu, Indic, Armenian, Ethiopic, Burmese and Khmer."""

_BELOW_U0800: Final = bytes(range(0xE0))
_MARKER: Final = re.compile(r"(#{1,6})(?:[ \t]|$)")


class ChunkLimits(msgspec.Struct, frozen=True):
    """Sizes in estimated tokens. `tokens` is at least 1; more overlap than `tokens - 1` has no effect."""

    tokens: int = 400
    """The most tokens of a chunk, including its overlap."""
    overlap: int = 80
    """The most tokens that a chunk repeats of the one before it; fewer if its own text leaves less room."""


class Chunk(msgspec.Struct, frozen=True):
    """A stretch of a document: its text is exactly `text[start:end]`."""

    start: int
    end: int
    start_line: int
    """The line of the first character, counted from 1; only `\\n` ends a line."""
    end_line: int
    """The line of the last character; a newline belongs to the line it ends."""
    headings: tuple[str, ...]
    """The titles that apply where the chunk's own text begins (after what it repeats), outermost first."""
    levels: tuple[int, ...] = ()
    """Their levels, 1 to 6."""


# The chunker and its patterns take milliseconds to import, and a start with an up-to-date index cuts no note.
def chunk_markdown(
    text: str, limits: ChunkLimits | None = None, *, tick: Callable[[], None] = lambda: None
) -> list[Chunk]:
    """Cuts a document along its structure into chunks, in order, that together contain all of it.

    `estimate_tokens` of a chunk's text never exceeds `limits.tokens`, unless one grapheme alone does (of which at most
    64 code points are kept together). An empty text has no chunks. `tick` is called again and again meanwhile; an
    exception that it raises ends the work.
    """
    from backends.chunking.chunker import chunks_of  # noqa: PLC0415

    return chunks_of(text, limits or ChunkLimits(), tick)


def document_title(text: str) -> str | None:
    """Returns the first heading of level 1, else the title in the front matter, else None."""
    from backends.chunking.chunker import title_of  # noqa: PLC0415

    return title_of(text)


def parse_heading(line: str) -> tuple[int, str] | None:
    """Returns the level and text of an ATX heading, None for other lines; `line` is without its indentation."""
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
    """Returns a heading's text up to `LONGEST_TITLE` characters, with its last grapheme whole."""
    if len(text) <= LONGEST_TITLE:
        return text
    return text[: next_cut(text, 0, LONGEST_TITLE, len(text))]


def weigh(text: str) -> int:
    """Returns the weight of a text in quarters of a token: UTF-8 bytes plus characters from U+0800 on.

    An ASCII character weighs 1 (four per token), one of the two-byte scripts (accented Latin, Greek, Cyrillic, Hebrew,
    Arabic) 2, a Han, kana, Hangul, Thai, Indic or full-width character 4 (one token), a character outside the basic
    plane, such as an emoji, 5.
    """
    if text.isascii():
        return len(text)
    encoded = text.encode("utf-8", "surrogatepass")
    return len(encoded) + len(encoded.translate(None, _BELOW_U0800))


def estimate_tokens(text: str) -> int:
    """Returns the estimated number of tokens of a text, rounded up; see `weigh` for the weights of characters."""
    return -(-weigh(text) // WEIGHT_PER_TOKEN)


def prefix_end(text: str, start: int, end: int, weight: int) -> int:
    """Returns the last position up to `end` such that `text[start:position]` weighs at most `weight`."""
    end = min(end, start + weight)
    if weigh(text[start:end]) <= weight:
        return end
    between = range(start + 1, end)
    return start + bisect_right(between, weight, key=lambda at: weigh(text[start:at]))


def suffix_start(text: str, start: int, end: int, weight: int) -> int:
    """Returns the first position from `start` on such that `text[position:end]` weighs at most `weight`."""
    start = max(start, end - weight)
    if weigh(text[start:end]) <= weight:
        return start
    between = range(start + 1, end)
    return start + 1 + bisect_left(between, -weight, key=lambda at: -weigh(text[at:end]))


# --- Fences: the lines of backticks or tildes around code (CommonMark 0.31, 4.5) ---

_OPENING: Final = re.compile(r"(`{3,})[^`]*$|(~{3,})")


class Fence(msgspec.Struct, frozen=True, gc=False):
    """The closing fence of a fenced code block: `length` or more of `mark`."""

    mark: str
    length: int


def opened_fence(body: str) -> Fence | None:
    """Returns the fence that a line opens; `body` is the line without its indentation."""
    match = _OPENING.match(body)
    if match is None:
        return None
    mark = match[1] or match[2]
    return Fence(mark[0], len(mark))


def closes(body: str, fence: Fence) -> bool:
    mark = body.rstrip()
    return len(mark) >= fence.length and not mark.strip(fence.mark)


def fence_below(line: str, fence: Fence | None) -> Fence | None:
    """Returns the fence that is open below a line; `fence` is open above it. None if what follows is not code."""
    if "```" not in line and "~~~" not in line:
        return fence
    body = line.lstrip()
    if fence is None:
        return opened_fence(body)
    return None if closes(body, fence) else fence
