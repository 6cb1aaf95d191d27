"""Reading a stretch of a JSONL file: whole lines only, in bounded memory, with their hash. Blocks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""A longer line (an image in a message) is passed over; it still counts as a line."""
TAIL_BYTES: Final = 4096
_BLOCK_BYTES: Final = 256 * 1024
HASH_BYTES: Final = 16


class Stretch(NamedTuple):
    """Complete lines of a file from one offset on."""

    lines: tuple[bytes | None, ...]
    """Without their newlines; None for one that was too long."""
    end: int
    """Offset behind the last newline; the start where no line was complete."""
    digest: bytes
    """Of all bytes from the start to the end."""
    is_last: bool
    """Nothing complete follows."""


def read_stretch(descriptor: int, start: int, until: int) -> Stretch:
    """The complete lines from `start` on, at least up to `until` if there are so many. Raises OSError."""
    reader = _Reader(start)
    if start >= until:
        return reader.stretch(is_last=False)
    for block in _blocks(descriptor, start):
        for piece in _pieces(block):
            reader.take(piece)
            if reader.end >= until:
                return reader.stretch(is_last=False)
    return reader.stretch(is_last=True)


def digest_of(descriptor: int, start: int, end: int) -> bytes:
    """The hash of a range of the file, to be compared with a stretch's. Raises OSError."""
    digest = hashlib.blake2b(digest_size=HASH_BYTES)
    for block in _blocks(descriptor, start, end):
        digest.update(block)
    return digest.digest()


def tail_of(descriptor: int, end: int) -> bytes:
    """The hash of the last bytes before `end`: cheap to compare, telling when the file was rewritten."""
    return digest_of(descriptor, max(0, end - TAIL_BYTES), end)


def count_lines(descriptor: int, start: int, end: int) -> int:
    """How many newlines a range of the file holds. Raises OSError."""
    return sum(block.count(b"\n") for block in _blocks(descriptor, start, end))


class _Reader:
    """The lines read so far, and the hash up to the end of the last one."""

    def __init__(self, start: int) -> None:
        self.end = start
        self._lines: list[bytes | None] = []
        self._digest = hashlib.blake2b(digest_size=HASH_BYTES)
        self._ahead = self._digest.copy()
        """The hash including the half line."""
        self._half = bytearray()
        self._half_size = 0

    def take(self, piece: bytes) -> None:
        """A piece of the file that holds a newline at its end or none."""
        self._ahead.update(piece)
        self._half_size += len(piece)
        if self._half_size <= MAX_LINE_BYTES:
            self._half += piece
        if piece.endswith(b"\n"):
            self._finish_line()

    def _finish_line(self) -> None:
        fits = self._half_size <= MAX_LINE_BYTES
        self._lines.append(bytes(self._half[:-1]) if fits else None)
        self.end += self._half_size
        self._half.clear()
        self._half_size = 0
        self._digest = self._ahead.copy()

    def stretch(self, *, is_last: bool) -> Stretch:
        return Stretch(tuple(self._lines), self.end, self._digest.digest(), is_last)


def _blocks(descriptor: int, start: int, end: int | None = None) -> Iterator[bytes]:
    while end is None or start < end:
        size = _BLOCK_BYTES if end is None else min(_BLOCK_BYTES, end - start)
        block = os.pread(descriptor, size, start)
        if not block:
            return
        yield block
        start += len(block)


def _pieces(block: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(block):
        end = block.find(b"\n", start) + 1 or len(block)
        yield block[start:end]
        start = end
