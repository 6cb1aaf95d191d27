"""Where every member and item of a JSON5 text starts and ends.

The parser library gives values without places, so this scanner runs over text that the parser has
already accepted: it may therefore take much for granted and only follows quotes, comments, brackets,
commas and colons. It never decides whether a text is valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

LEXEME = re.compile(
    r"""
    "[^"\\]*+(?:\\.[^"\\]*+)*+"        # a string; a backslash may stand before a line break
    | '[^'\\]*+(?:\\.[^'\\]*+)*+'
    | //[^\n\r\u2028\u2029]*+
    | /\*.*?\*/
    | [{}\[\],:]
    | [^\s\ufeff"'{}\[\],:/]++         # an identifier, a number, a literal
    """,
    re.VERBOSE | re.DOTALL,
)


class Spot(msgspec.Struct):
    """One value: where it starts, and the spots of what is in it."""

    offset: int
    """Of the name of a member, of the value itself elsewhere."""
    value: int = 0
    """Where the value starts."""
    end: int = 0
    """Behind the value."""
    members: dict[str, Spot] = msgspec.field(default_factory=dict)
    items: list[Spot] = msgspec.field(default_factory=list)
    shadowed: int | None = None


class _Open(msgspec.Struct):
    """An object or array that is not closed yet."""

    spot: Spot
    is_object: bool
    pending: Spot | None = None
    """The member whose value comes next."""


def scan(text: str, decode_string: Callable[[str], str]) -> Spot:
    """The tree of spots of a valid JSON5 text.

    `decode_string` turns a quoted JSON5 string into its value; it is asked only for names with
    escapes. Time is linear in the text, and the depth of nesting costs no recursion.
    """
    root: Spot | None = None
    stack: list[_Open] = []
    for match in LEXEME.finditer(text):
        lexeme, offset = match.group(), match.start()
        if lexeme in ",:" or lexeme.startswith(("//", "/*")):
            continue
        if lexeme in "}]":
            stack.pop().spot.end = match.end()
            continue
        top = stack[-1] if stack else None
        if top is not None and top.is_object and top.pending is None:
            top.pending = _add_member(top.spot, _name(lexeme, decode_string), offset)
            continue
        spot = _value_spot(top, offset)
        spot.value, spot.end = offset, match.end()
        root = root or spot
        if lexeme in "{[":
            stack.append(_Open(spot, is_object=lexeme == "{"))
    return root or Spot(0)


def _value_spot(top: _Open | None, offset: int) -> Spot:
    if top is None:
        return Spot(offset)
    if top.pending is not None:
        spot, top.pending = top.pending, None
        return spot
    top.spot.items.append(Spot(offset))
    return top.spot.items[-1]


def _add_member(parent: Spot, name: str, offset: int) -> Spot:
    earlier = parent.members.get(name)
    parent.members[name] = Spot(offset, shadowed=earlier.offset if earlier else None)
    return parent.members[name]


def _name(lexeme: str, decode_string: Callable[[str], str]) -> str:
    if lexeme[0] not in "\"'":
        return decode_string(f'"{lexeme}"') if "\\" in lexeme else lexeme
    return decode_string(lexeme) if "\\" in lexeme else lexeme[1:-1]
