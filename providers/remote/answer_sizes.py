"""How much an answer may hold, counted before it is parsed: a megabyte of `{},` takes fifty in memory afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

MOST_DIMENSIONS: Final = 16_384
"""Several times what any model gives."""
OTHER_VALUES: Final = 100_000
"""What an answer may hold beside its vectors, such as a list of jobs."""

_texts: ContextVar[int] = ContextVar("texts in the request", default=0)


@contextmanager
def embedding(texts: int) -> Iterator[None]:
    """Within it, answers may hold the vectors of so many texts."""
    token = _texts.set(texts)
    try:
        yield
    finally:
        _texts.reset(token)


def most_values() -> int:
    """How many values the answer to a request of this task may hold."""
    return _texts.get() * MOST_DIMENSIONS + OTHER_VALUES


def values_in(data: bytes) -> int:
    """No fewer than the values that JSON with these bytes has: each begins an array or an object, or follows a comma."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")
