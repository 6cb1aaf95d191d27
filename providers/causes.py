"""What lies behind an error: the chain of exceptions that led to it. Pure."""

from __future__ import annotations

from collections.abc import Iterator


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error itself, then what caused it or was being handled, each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
