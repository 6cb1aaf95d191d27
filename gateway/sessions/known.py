"""Which sessions have been seen by this process.

Owns the bound on that memory: a session forgotten because of it is greeted once more, which costs a sync
that finds nothing to do.
"""

from __future__ import annotations

from typing import Final

MAX_SESSIONS: Final = 1024


class KnownSessions:
    """Session keys, the least recently seen first."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}

    def is_new(self, key: str | None) -> bool:
        """Whether this is the first sign of the session. Without a key there is no session."""
        key = (key or "").strip().lower()
        if not key:
            return False
        is_new = key not in self._keys
        self._keys.pop(key, None)
        self._keys[key] = None
        if len(self._keys) > MAX_SESSIONS:
            del self._keys[next(iter(self._keys))]
        return is_new
