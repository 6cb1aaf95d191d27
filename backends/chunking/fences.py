"""Fences: the lines of backticks or tildes between which lines are code (CommonMark 0.31, 4.5)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_OPENING: Final = re.compile(r"(`{3,})[^`]*$|(~{3,})")


class Fence(msgspec.Struct, frozen=True, gc=False):
    """What the line that closes a fenced block must look like: `length` or more of `mark`."""

    mark: str
    length: int


def opened_fence(body: str) -> Fence | None:
    """The fence that a line opens; `body` is the line without its indentation."""
    match = _OPENING.match(body)
    if match is None:
        return None
    mark = match[1] or match[2]
    return Fence(mark[0], len(mark))


def closes(body: str, fence: Fence) -> bool:
    mark = body.rstrip()
    return len(mark) >= fence.length and not mark.strip(fence.mark)


def fence_below(line: str, fence: Fence | None) -> Fence | None:
    """The fence in force below a line, above which this one is: None where what follows is no code."""
    if "```" not in line and "~~~" not in line:
        return fence
    body = line.lstrip()
    if fence is None:
        return opened_fence(body)
    return None if closes(body, fence) else fence
