"""Searches before background work: Python runs one thread at a time, and a search that passes from thread to thread
would wait for its turn at every step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

LONGEST_PAUSE_S: Final = 0.25
"""The longest single pause that background work makes for the sake of searches."""


class SearchPriority:
    """Gives searches of one index priority over what goes on beside them: indexing, and vectors that are taken in
    or loaded.
    """

    def __init__(self) -> None:
        self._searches = 0
        self._none = threading.Event()
        self._none.set()
        self._thread = threading.local()
        """`kind`: of the work that this thread does; what a search does for itself has none, and does not give way."""
        self._rested_until: dict[str, float] = {}
        """By kind of work, of which one piece is done at a time."""

    @contextmanager
    def yielding(self, kind: str) -> Iterator[None]:
        """Around background work, in its thread."""
        self._thread.kind = kind
        try:
            yield
        finally:
            self._thread.kind = ""

    def polite(self, kind: str, work: Callable[[], T]) -> Callable[[], T]:
        """The same work, which lets a search go first and gives way wherever it asks to."""

        def politely() -> T:
            with self.yielding(kind):
                self.give_way()
                return work()

        return politely

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Around what a search computes on the event loop; not around its waits."""
        self._searches += 1
        self._none.clear()
        try:
            yield
        finally:
            self._searches -= 1
            if not self._searches:
                self._none.set()

    def give_way(self) -> None:
        """Waits while a search runs, but no longer than this kind of work has gone on since the last time: it must
        make progress. Blocking; never call it while holding a lock of the database, which the search may need.
        """
        kind: str = getattr(self._thread, "kind", "")
        if self._none.is_set() or not kind:
            return
        worked_s = time.perf_counter() - self._rested_until.get(kind, 0.0)
        self._none.wait(min(worked_s, LONGEST_PAUSE_S))
        self._rested_until[kind] = time.perf_counter()
