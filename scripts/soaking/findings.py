"""What a soak did and found, as its actors write it down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from config.errors import ErrorKind, MemoryGatewayError
from gateway.client import RemoteError

MOST_KEPT = 50


@dataclass
class Findings:
    """`errors` and `wrong` have to be empty at the end."""

    done: Counter[str] = field(default_factory=Counter)
    """How often each activity was done."""
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Answers that missed what is known to exist, or showed what is known to be gone."""
    stale: int = 0
    """Answers that missed something and said so."""
    modes: Counter[str] = field(default_factory=Counter)
    """How many searches used vectors, how many only words."""
    search_s: list[float] = field(default_factory=list)

    @contextmanager
    def activity(self, name: str, *expected: ErrorKind) -> Iterator[None]:
        """Counts it, and notes down an error that it should not end with."""
        self.done[name] += 1
        try:
            yield
        except MemoryGatewayError as error:
            kind = error.kind if isinstance(error, RemoteError) else None
            if kind not in expected or kind is None:
                self.errors.append(f"{name}: {type(error).__name__} {kind}: {error}")

    def faults(self) -> list[str]:
        return [*self.errors, *self.wrong][:MOST_KEPT]
