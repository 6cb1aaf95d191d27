"""Which sessions have been seen by this process.

Owns the bound on that memory: a session forgotten because of it is greeted once more, which costs a sync
that finds nothing to do.
"""

from __future__ import annotations

from typing import Final

MAX_SESSIONS: Final = 1024


class KnownSessions:
    """Session keys, the least recently seen first, each with a count that somebody keeps of it."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def is_new(self, key: str | None) -> bool:
        """Whether this is the first sign of the session. Without a key there is no session."""
        return bool((key or "").strip()) and self.put(key or "", 0) is None

    def put(self, key: str, count: int) -> int | None:
        """Notes the count of a session; answers the one before, None for the first."""
        key = key.strip().lower()
        before = self._counts.pop(key, None)
        self._counts[key] = count
        if len(self._counts) > MAX_SESSIONS:
            del self._counts[next(iter(self._counts))]
        return before
