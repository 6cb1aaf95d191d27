"""Values that remember where in which file they stand, so that every message can name the place.

Owns the tree that a configuration file becomes and the way key paths and values are put into words.
Reading text into such a tree belongs to `config.source.json5`, what the values mean to `config.keys`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

KeyPath = tuple[str | int, ...]
"""Member names and list indexes from the top of the file: `("agents", "list", 0, "id")`."""

_MAX_SHOWN = 60


class SourceText(msgspec.Struct, frozen=True):
    """The decoded text of one file."""

    path: Path
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1; LF, CRLF and CR end a line."""
        before = self.text[:offset]
        breaks = before.count("\n") + before.count("\r") - before.count("\r\n")
        return breaks + 1, offset - max(before.rfind("\n"), before.rfind("\r"))


class Located(msgspec.Struct, frozen=True):
    """One value. Objects hold `dict[str, Located]`, arrays `list[Located]`, the rest scalars."""

    value: Any
    source: SourceText
    offset: int
    """Where its key starts; for list items and the top value, where the value itself starts."""
    start: int = 0
    """Where the value starts in the text of its file."""
    end: int = 0
    """Behind the value."""
    shadowed: int | None = None
    """Offset of an earlier member of the same name, which this one replaces."""

    @property
    def line(self) -> int:
        return self.source.position(self.offset)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.offset)[1]


def descend(node: Located, *names: str) -> Located | None:
    """The member below `node` along `names`, or None where one of them is missing."""
    for name in names:
        if not isinstance(node.value, dict) or name not in node.value:
            return None
        node = node.value[name]
    return node


def render_path(path: KeyPath) -> str:
    """`agents.list[0].id`; names that are no identifiers are quoted: `providers["my.host"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("-", "_").isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{quote(part)}]"
    return text


def quote(text: str) -> str:
    """The string in double quotes, shortened, control characters escaped."""
    shown = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown) + '"'


def type_words(value: object) -> str:
    """What kind of JSON value this is, never the value itself."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    words = {dict: "an object", list: "a list", str: "a string", int: "a number", float: "a number"}
    return words[type(value)]


def value_words(value: object) -> str:
    """The value in words for messages. Not for keys whose value may be a secret."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number_words(value)
    return type_words(value)


def _number_words(number: float) -> str:
    if isinstance(number, int):
        return str(number) if abs(number) < 10**20 else "a number with more than 20 digits"
    if math.isfinite(number):
        return f"{number:.10g}"
    return "NaN" if math.isnan(number) else f"{'-' if number < 0 else ''}Infinity"
