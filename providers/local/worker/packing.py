"""Which texts are computed together, and what of a text is computed at all. Pure.

One batch is one computation of llama.cpp. Attention spans the whole batch, so filling it far beyond
its usual size makes every text slower; short texts gain by sharing one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

BATCH_TOKENS: Final = 512
"""Measured on BERT models: with 2,048 a 400-token text takes one and a half times as long."""
BATCH_TEXTS: Final = 32
"""llama.cpp sets memory aside for each, up to a megabyte where the vocabulary is large."""


def cut(tokens: list[int], max_tokens: int, *, closing: bool) -> list[int]:
    """The tokens up to the model's limit; the last one stays last where it closes the text."""
    if len(tokens) <= max_tokens:
        return tokens
    return [*tokens[: max_tokens - 1], tokens[-1]] if closing else tokens[:max_tokens]


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions of the texts of each batch, in order. A text above `BATCH_TOKENS` goes alone."""
    batch: list[int] = []
    tokens = 0
    for position, length in enumerate(lengths):
        if batch and (tokens + length > BATCH_TOKENS or len(batch) == BATCH_TEXTS):
            yield batch
            batch, tokens = [], 0
        batch.append(position)
        tokens += length
    if batch:
        yield batch
