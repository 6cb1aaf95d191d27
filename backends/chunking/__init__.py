"""Cutting Markdown into chunks for search: a pure function of the text and two limits.

Owns where chunks begin and end. Knows nothing of files, indexes or embeddings.
"""

from __future__ import annotations

from backends.chunking.chunker import CHUNKING_VERSION, chunk_markdown, document_title
from backends.chunking.tokens import Chunk, ChunkLimits, estimate_tokens

__all__ = [
    "CHUNKING_VERSION",
    "Chunk",
    "ChunkLimits",
    "chunk_markdown",
    "document_title",
    "estimate_tokens",
]
