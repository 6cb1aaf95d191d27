"""Cutting Markdown into chunks for search: a pure function of the text and two limits.

Knows nothing of files, indexes or embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from backends.chunking.tokens import Chunk, ChunkLimits, estimate_tokens

__all__ = [
    "CHUNKING_VERSION",
    "HEADING_SEPARATOR",
    "Chunk",
    "ChunkLimits",
    "chunk_markdown",
    "document_title",
    "estimate_tokens",
]

CHUNKING_VERSION: Final = 2
"""Raised whenever the same text and limits give other chunks, so that indexes are built anew."""
HEADING_SEPARATOR: Final = "\x1f"
"""Between the headings of one path."""
_DEFAULT_LIMITS: Final = ChunkLimits()


# The chunker and its patterns take milliseconds to import, and a start on a level index cuts no note.
def chunk_markdown(
    text: str, limits: ChunkLimits = _DEFAULT_LIMITS, *, tick: Callable[[], None] = lambda: None
) -> list[Chunk]:
    """Cut a document along its structure into chunks, in order, that together hold all of it.

    `estimate_tokens` of a chunk's text never exceeds `limits.tokens`, unless one grapheme alone does (of
    which at most 64 code points are kept together). An empty text has no chunks.
    `tick` is called again and again meanwhile; what it raises ends the work.
    """
    from backends.chunking.chunker import chunks_of  # noqa: PLC0415

    return chunks_of(text, limits, tick)


def document_title(text: str) -> str | None:
    """The first heading of level 1, else the title that the front matter gives, else None."""
    from backends.chunking.chunker import title_of  # noqa: PLC0415

    return title_of(text)
