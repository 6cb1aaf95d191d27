"""Makes a failing input smaller while it still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable


def shrink(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Cuts out ever smaller pieces (delta debugging, A. Zeller, 1999) until no single byte can go."""
    size = max(1, len(data) // 2)
    while True:
        start, is_smaller = 0, False
        while start < len(data):
            shorter = data[:start] + data[start + size :]
            if fails(shorter):
                data, is_smaller = shorter, True
            else:
                start += size
        if size == 1 and not is_smaller:
            return data
        size = max(1, size // 2)
