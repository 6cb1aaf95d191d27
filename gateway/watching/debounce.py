"""Waiting until a burst of changes is over. Pure: the clock is an argument.

Owns the bound on that wait: a file that is saved without end is indexed all the same.
"""

from __future__ import annotations

from typing import Final

LONGEST_WAIT: Final = 1.5
"""The longest wait, in debounce times: a save is found within 2.5 s of the default of 1.5 s even while
other files are being saved, and one that is saved all the time is indexed at most every 2.25 s."""


class Debounce:
    """One kind of change. Times are in seconds of one monotonic clock."""

    def __init__(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self._first: float | None = None
        self._last = 0.0

    def note(self, now: float) -> None:
        """Something changed."""
        self._first = now if self._first is None else self._first
        self._last = now

    @property
    def due(self) -> float | None:
        """When the burst counts as over; None when there is none."""
        if self._first is None:
            return None
        return min(self._last + self._quiet_s, self._first + LONGEST_WAIT * self._quiet_s)

    def take(self, now: float) -> bool:
        """Whether a burst is over by now; it is forgotten then."""
        if self.due is None or now < self.due:
            return False
        self._first = None
        return True
