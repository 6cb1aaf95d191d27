"""A cache with a limit in bytes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

ENTRY_BYTES: Final = 64
"""One entry of a dict, with its share of the table's free places and of what the allocator rounds up."""


def size_of(*parts: object) -> int:
    """Returns the bytes of these objects, without what they refer to."""
    return sum(map(sys.getsizeof, parts))


class Remembered(Generic[K, V]):
    """A mapping that forgets entries that were not used lately. Any thread may call.

    It has two halves: when the newer one is full it becomes the older one, and the entries of the older one are
    forgotten unless they were used meanwhile. So a hit costs as much as in a dict, and entries in use stay.
    """

    def __init__(self, most_bytes: int, size: Callable[[K, V], int]) -> None:
        """`size`: the bytes of a key and its value, without those of the entry. A value that would fill more than half
        of the memory is not kept.
        """
        self._half_bytes = most_bytes // 2
        self._size = size
        self.newer: Final[dict[K, V]] = {}
        """For reading where even a call of `get` costs too much; an entry that is not in here may still be kept."""
        self._newer_bytes = 0
        self._older: dict[K, V] = {}
        self._older_bytes = 0
        self._changing = threading.Lock()

    @property
    def bytes_used(self) -> int:
        return self._newer_bytes + self._older_bytes

    def __len__(self) -> int:
        return len(self.newer.keys() | self._older.keys())

    def get(self, key: K) -> V | None:
        value = self.newer.get(key)
        if value is None:
            value = self._older.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        size = self._size(key, value) + ENTRY_BYTES
        with self._changing:
            self._drop(key)
            if size > self._half_bytes:
                return
            if self._newer_bytes + size > self._half_bytes:
                self._older, self._older_bytes = self.newer.copy(), self._newer_bytes
                self.newer.clear()
                self._newer_bytes = 0
            self.newer[key] = value
            self._newer_bytes += size

    def clear(self) -> None:
        with self._changing:
            self.newer.clear()
            self._older = {}
            self._newer_bytes = self._older_bytes = 0

    def _drop(self, key: K) -> None:
        newer, older = self.newer.pop(key, None), self._older.pop(key, None)
        if newer is not None:
            self._newer_bytes -= self._size(key, newer) + ENTRY_BYTES
        if older is not None:
            self._older_bytes -= self._size(key, older) + ENTRY_BYTES
