"""How large chunks may be: as configured, but never more than the embedding model reads."""

from __future__ import annotations

from typing import Final

from backends.chunking import ChunkLimits
from config.settings import Settings

_READABLE: Final = 0.8
"""Of a model's input. The rest is for prompts, and for texts with more tokens than are estimated."""


def chunk_limits(settings: Settings) -> ChunkLimits:
    """Blocking: looks into the file of a local model."""
    search, chunking = settings.search, settings.search.chunking
    named = search.provider == "auto" and not search.local.model_path_is_default
    if search.provider != "local" and not named:
        return ChunkLimits(chunking.tokens, chunking.overlap)
    from providers.local.places import longest_text  # noqa: PLC0415 - not needed otherwise

    longest = longest_text(settings)
    readable = chunking.tokens if longest is None else max(1, int(longest * _READABLE))
    return ChunkLimits(min(chunking.tokens, readable), chunking.overlap)
