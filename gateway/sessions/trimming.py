"""Cutting a note that is too long to be loaded whole: its beginning, its end, and what lies between.

Pure. Cuts between lines where there are any; the note that replaces the rest says which lines are left
out and how to read them, so that nothing seems to be complete that is not.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final, NamedTuple

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
"""Only a newline ends a line, as everywhere where lines are counted."""


class Trimmed(NamedTuple):
    """`first` to `last` are the lines that were left out, counted from 1; None when nothing was."""

    text: str
    first: int | None = None
    last: int | None = None


def trim(path: str, text: str, *, max_chars: int, head_share: float) -> Trimmed:
    """At most about `max_chars` characters of the text, of which `head_share` from its beginning."""
    if len(text) <= max_chars:
        return Trimmed(text)
    lines = _LINE.findall(text)
    head = _fitting(lines, int(max_chars * head_share))
    tail = _fitting(lines[head:][::-1], max_chars - sum(map(len, lines[:head])))
    if head + tail == 0:
        return Trimmed(text[:max_chars] + _left_out(path, 1, len(lines)), 1, len(lines))
    first, last = head + 1, len(lines) - tail
    kept_tail = "".join(lines[len(lines) - tail :])
    return Trimmed("".join(lines[:head]) + _left_out(path, first, last) + kept_tail, first, last)


def _fitting(lines: list[str], max_chars: int) -> int:
    """How many of the leading lines fit."""
    return sum(total <= max_chars for total in accumulate(map(len, lines)))


def _left_out(path: str, first: int, last: int) -> str:
    return f"\n[... lines {first} to {last} of {path} are left out; memory_get reads them ...]\n\n"
