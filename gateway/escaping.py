"""Control characters of notes and paths, written out: no text of a user moves the cursor of a terminal."""

from __future__ import annotations

from typing import Final

_IN_LINES: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_IN_TEXTS: Final = {code: escape for code, escape in _IN_LINES.items() if chr(code) not in "\t\n"}


def escape_controls(text: str) -> str:
    """Text of several lines without control characters but tabs and newlines."""
    return text.translate(_IN_TEXTS)


def escape_line(text: str) -> str:
    """Text that must stay one line, such as a path, without any control character."""
    return text.translate(_IN_LINES)
