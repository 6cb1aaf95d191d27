"""Filling requests: which of the waiting texts go into the next one.

Pure. Texts keep their order; a request is full when the next text would pass its budget of items,
tokens or bytes. A text that is larger than a budget by itself, or than the model's own limit, goes
alone, so that its refusal costs no other text anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from providers.embedding.limits import Size
from providers.interface import InputLimits


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: four ASCII characters make one, a CJK character is one.

    From the UTF-8 length alone, so that it costs nothing; at least 1.
    """
    size = len(text.encode("utf-8", "replace"))
    wide = (size - len(text)) / 2
    return max(1, round(len(text) / 4 + wide * 0.75))


def size_of(text: str) -> Size:
    return Size(1, estimate_tokens(text), len(text.encode("utf-8", "replace")))


def total(sizes: Iterable[Size]) -> Size:
    items = tokens = size = 0
    for one in sizes:
        items, tokens, size = items + one.items, tokens + one.tokens, size + one.bytes
    return Size(items, tokens, size)


def fill(waiting: Iterable[Size], limits: InputLimits) -> int:
    """How many of the leading texts make the next request: at least 1 if there are any."""
    count = tokens = size = 0
    for text in waiting:
        tokens, size = tokens + text.tokens, size + text.bytes
        full = (
            count >= limits.max_items
            or tokens > limits.max_request_tokens
            or size > limits.max_request_bytes
            or text.tokens > limits.max_input_tokens
        )
        if count and full:
            return count
        count += 1
        if text.tokens > limits.max_input_tokens:
            return count
    return count
