"""Code fences: the lines of backticks or tildes around fenced code blocks (CommonMark 0.31, 4.5)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_OPENING: Final = re.compile(r"(`{3,})[^`]*$|(~{3,})")


class Fence(msgspec.Struct, frozen=True, gc=False):
    """The closing fence of a fenced code block: `length` or more of `mark`."""

    mark: str
    length: int


def opened_fence(body: str) -> Fence | None:
    """Returns the fence that a line opens; `body` is the line without its indentation."""
    match = _OPENING.match(body)
    if match is None:
        return None
    mark = match[1] or match[2]
    return Fence(mark[0], len(mark))


def closes(body: str, fence: Fence) -> bool:
    mark = body.rstrip()
    return len(mark) >= fence.length and not mark.strip(fence.mark)


def fence_below(line: str, fence: Fence | None) -> Fence | None:
    """Returns the fence that is open below a line; `fence` is open above it. None if what follows is not code."""
    if "```" not in line and "~~~" not in line:
        return fence
    body = line.lstrip()
    if fence is None:
        return opened_fence(body)
    return None if closes(body, fence) else fence
