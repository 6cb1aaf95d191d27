"""The weights that one set of limits gives to every step of chunking."""

from __future__ import annotations

from typing import NamedTuple

from backends.chunking.model import ChunkLimits
from backends.chunking.tokens import WEIGHT_PER_TOKEN


class Room(NamedTuple):
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
