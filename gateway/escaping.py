"""Writes out characters of notes and paths that are not what they look like.

For programs and models these are control characters only: nothing reorders what they read. For people, on a terminal
or in a page, they are also characters that reorder text, end a line or are invisible.
"""

from __future__ import annotations

import re
from typing import Final

_IN_LINES: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_IN_TEXTS: Final = {code: escape for code, escape in _IN_LINES.items() if chr(code) not in "\t\n"}

_TURNING: Final = "\u202a-\u202e\u2066-\u206f"
"""Characters that set or override the direction of the text after them, obsolete ones included."""
_LINE_ENDS: Final = "\u2028\u2029"
_UNSEEN: Final = (
    "\u2061-\u2064\u180e\ufeff\ufff0-\ufffb\ufffe\uffff\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""No script is written with them; the last ones can hide a text in another."""
_UNSEEN_IN_NAMES: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u200b\u200e\u200f\u2060\u3164\uffa0"
)
"""Texts of some scripts contain them; two names that differ by one of them look the same."""
_JOINERS: Final = "\u200c\u200d"
"""Words of many scripts, and emoji, are spelled with them; beside a letter of ASCII they do nothing."""

# As strings: they are needed for few texts, and take long to compile.
_DECEPTIVE: Final = f"[{_TURNING}{_LINE_ENDS}{_UNSEEN}]"
_DECEPTIVE_IN_NAMES: Final = (
    f"[{_TURNING}{_LINE_ENDS}{_UNSEEN}{_UNSEEN_IN_NAMES}]"
    f"|(?<![^\x00-\x7f])[{_JOINERS}]|[{_JOINERS}](?![^\x00-\x7f])"
)


def escape_controls(text: str) -> str:
    """Returns text of several lines without control characters other than tabs and newlines."""
    return text.translate(_IN_TEXTS)


def escape_line(text: str) -> str:
    """Returns text that must stay one line, such as a path, without any control character."""
    return text.translate(_IN_LINES)


def visible(text: str) -> str:
    """Returns text of several lines as it is shown to people."""
    return escape_controls(text if text.isascii() else re.sub(_DECEPTIVE, _number, text))


def visible_line(text: str) -> str:
    """Returns a path or a message as it is shown to people: one line, in which each character can be seen."""
    return escape_line(text if text.isascii() else re.sub(_DECEPTIVE_IN_NAMES, _number, text))


def escape_in_json(document: str) -> str:
    """Returns the same JSON document with nothing in it that a terminal obeys or that deceives a reader."""
    return document if document.isascii() else re.sub(_RAW_IN_JSON, _utf16, document)


_RAW_IN_JSON: Final = f"[\x7f-\x9f{_TURNING}{_LINE_ENDS}{_UNSEEN}]"


def _number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _utf16(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
