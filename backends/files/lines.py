"""Cutting a range of lines out of a stream of bytes, within a limit, without holding the rest.

Pure: takes blocks, gives bytes. Lines are what splitting on the newline gives: nothing else ends
one, and a text that ends with a newline has an empty last line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineWindow:
    """The lines that were cut out, joined by newlines."""

    data: bytes
    line_count: int
    """0: the stream ends before the first line asked for."""
    truncated: bool = False
    next_line: int | None = None
    """The first line that was asked for and left out; None when there is none."""
    cut_inside_line: bool = False
    """One line alone exceeds the limit: `data` is its beginning, perhaps with half a character."""


def select_lines(blocks: Iterator[bytes], first: int, count: int | None, limit: int) -> LineWindow:
    """Lines `first` (from 1) to `first + count - 1`; `count` None means to the end.

    At most `limit` bytes: a longer range ends with the last whole line that fits and names the next
    one. A single line beyond the limit is cut; going on then means the line after it, because a
    range of lines cannot begin inside one.
    """
    rest = _from_line(blocks, first)
    if next(rest, None) is None:
        return LineWindow(data=b"", line_count=0)
    data, ended = _collect(rest, count, limit)
    if len(data) <= limit:
        return LineWindow(data=data, line_count=data.count(b"\n") + 1)
    end = data.rfind(b"\n", 0, limit + 1)
    if end >= 0:
        kept = data.count(b"\n", 0, end) + 1
        return LineWindow(data[:end], kept, truncated=True, next_line=first + kept)
    follows = b"\n" in data or (not ended and count != 1 and any(b"\n" in block for block in rest))
    return LineWindow(
        data[:limit],
        line_count=1,
        truncated=True,
        next_line=first + 1 if follows else None,
        cut_inside_line=True,
    )


def _from_line(blocks: Iterator[bytes], first: int) -> Iterator[bytes]:
    """What follows the newline before line `first`, led by an empty block when that line exists."""
    to_skip = first - 1
    if to_skip == 0:
        yield b""
    for block in blocks:
        if to_skip == 0:
            yield block
            continue
        newlines = block.count(b"\n")
        if newlines < to_skip:
            to_skip -= newlines
            continue
        start = _nth_newline(block, to_skip) + 1
        to_skip = 0
        yield b""
        yield block[start:]


def _collect(blocks: Iterator[bytes], count: int | None, limit: int) -> tuple[bytes, bool]:
    """Gather `count` lines, or until `limit` is passed; and whether the range ended here."""
    data = bytearray()
    for block in blocks:
        newlines = 0 if count is None else block.count(b"\n")
        if count is not None and newlines >= count:
            data += block[: _nth_newline(block, count)]
            return bytes(data), True
        if count is not None:
            count -= newlines
        data += block
        if len(data) > limit:
            return bytes(data), False
    return bytes(data), True


def _nth_newline(block: bytes, n: int) -> int:
    position = -1
    for _ in range(n):
        position = block.index(b"\n", position + 1)
    return position
