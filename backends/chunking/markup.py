"""What one line of Markdown is, taken by itself: indentation, list item, fence, underline.

Owns cheap tests of a single line. What a line means after the lines before it is decided by the block
scanner. No pattern here can backtrack more than once over a line.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

INDENTATION: Final = " \t\ufeff"
"""What may stand before a line's mark; a byte order mark opens some files."""

_TAB_WIDTH: Final = 4
_ITEM: Final = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])(?:\s|$)")
_FENCE: Final = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_UNDERLINE: Final = re.compile(r"(?:=+|-+)\s*$")
_FRONT_MATTER: Final = re.compile(r"\ufeff?---[ \t]*\r?\n")
_FRONT_MATTER_END: Final = re.compile(r"\n-{3,}[ \t]*\r?(?:\n|\Z)")


class Fence(NamedTuple):
    """What the line that closes a fenced block must look like: `length` or more of `mark`."""

    mark: str
    length: int


FRONT_MATTER_FENCE: Final = Fence("-", 3)


def split_lines(text: str) -> list[str]:
    """The lines without their newlines; no other character ends a line, the last one may lack it."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def indent_of(line: str, body: str) -> int:
    """Columns before `body`, which is `line` without its indentation."""
    width = len(line) - len(body)
    if width and "\t" in line[:width]:
        return len(line[:width].expandtabs(_TAB_WIDTH))
    return width


def is_item(body: str) -> bool:
    return _ITEM.match(body) is not None


def opened_fence(body: str) -> Fence | None:
    match = _FENCE.match(body)
    if match is None:
        return None
    mark = match[1] or match[2]
    return Fence(mark[0], len(mark))


def closes(body: str, fence: Fence) -> bool:
    mark = body.rstrip()
    return len(mark) >= fence.length and not mark.strip(fence.mark)


def underlined_level(body: str) -> int | None:
    """1 or 2 when the line can underline a heading, else None."""
    if _UNDERLINE.match(body) is None:
        return None
    return 1 if body[0] == "=" else 2


def front_matter(text: str) -> str | None:
    """What stands between the opening `---` at the very start and its closing line, or None."""
    opening = _FRONT_MATTER.match(text)
    if opening is None:
        return None
    closing = _FRONT_MATTER_END.search(text, opening.end() - 1)
    return None if closing is None else text[opening.end() : closing.start()]
