"""Where the thread that sees events meets the task that acts on them.

Owns the lock between the two. The task is woken when a burst of changes begins and looks by itself when
it ends, so that a thousand events cost two wake-ups.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gateway.watching.debounce import Debounce
from gateway.watching.places import Place


class Ended(NamedTuple):
    """Bursts that are over."""

    reasons: tuple[str, ...]
    structural: bool
    """Directories came, went or moved, or may have: watches have to be set anew."""


class Bursts:
    """The changes nobody has acted on so far, by the reason of the sync they ask for."""

    def __init__(self, places: Iterable[Place], wake: Callable[[], None]) -> None:
        """`wake` is called from any thread."""
        self._wake = wake
        self._lock = threading.Lock()
        self._debounces = {place.reason: Debounce(place.debounce_s) for place in places}
        self._structural = False

    def note(self, reason: str, *, structural: bool = False) -> None:
        """Something changed. May be called from any thread."""
        with self._lock:
            debounce = self._debounces[reason]
            begins = debounce.due is None
            debounce.note(time.monotonic())
            self._structural |= structural
        if begins:
            self._wake()

    def note_all(self) -> None:
        """Anything may have changed."""
        for reason in self._debounces:
            self.note(reason, structural=True)

    def next_due_s(self) -> float | None:
        """Seconds until the first burst may be over; None when there is none."""
        with self._lock:
            dues = [one.due for one in self._debounces.values() if one.due is not None]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def take(self) -> Ended:
        """What is over by now; it is forgotten here."""
        with self._lock:
            now = time.monotonic()
            reasons = tuple(name for name, one in self._debounces.items() if one.take(now))
            structural = bool(reasons) and self._structural
            self._structural &= not reasons
        return Ended(reasons, structural)
