"""What goes into chunking and what comes out of it."""

from __future__ import annotations

import msgspec


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
