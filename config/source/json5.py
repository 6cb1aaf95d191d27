"""Reads a JSON5 file into values with their line and column; syntax errors say what was found and where."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from config.errors import ConfigInvalidError, ConfigProblem
from config.runtime.files import denial_of, read_file
from config.source.located import Located, SourceText, type_words

LEXEME = re.compile(
    r"""
    "[^"\\]*+(?:\\.[^"\\]*+)*"         # a string; a backslash may stand before a line break
    | '[^'\\]*+(?:\\.[^'\\]*+)*'
    | //[^\n\r\u2028\u2029]*+
    | /\*.*?\*/
    | [{}\[\],:]
    | [^\s\ufeff"'{}\[\],:/]++         # an identifier, a number, a literal
    """,
    re.VERBOSE | re.DOTALL,
)


class Spot(msgspec.Struct):
    """The position of one value, with those of its members or items."""

    offset: int
    """The start of a member's name; elsewhere, the start of the value."""
    value: int = 0
    """The start of the value."""
    end: int = 0
    """The position after the value."""
    members: dict[str, Spot] = msgspec.field(default_factory=dict)
    items: list[Spot] = msgspec.field(default_factory=list)
    shadowed: int | None = None


class _Open(msgspec.Struct):
    """An object or array that is not closed yet."""

    spot: Spot
    is_object: bool
    pending: Spot | None = None
    """The member whose value comes next."""


def scan(text: str) -> Spot:
    """Returns the tree of spots of a valid JSON5 text.

    Time is linear in the text, and the depth of nesting costs no recursion.
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
            name, members = _name(lexeme), top.spot.members
            earlier = members[name].offset if name in members else None
            top.pending = members[name] = Spot(offset, shadowed=earlier)
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


def _name(lexeme: str) -> str:
    if lexeme[0] not in "\"'":
        return _decode_string(f'"{lexeme}"') if "\\" in lexeme else lexeme
    return _decode_string(lexeme) if "\\" in lexeme else lexeme[1:-1]


_PLACE = r" (?:found |starting )?near (\d+)"
_TERM = r"b'([^']*)'|U\+([0-9a-fA-F]+)"
_REMEDY = (
    "Correct the file there; JSON5 allows comments, trailing commas and names without quotes, "
    "and an empty file needs at least {}."
)


def error_at(source: SourceText, offset: int, message: str, remedy: str) -> ConfigInvalidError:
    """Returns an error with one problem at one character of a file."""
    line, column = source.position(offset)
    problem = ConfigProblem(message=message, file=str(source.path), line=line, column=column)
    return ConfigInvalidError([problem], remedy=remedy)


def parser_error(source: SourceText, complaint: str) -> ConfigInvalidError:
    """Returns the parser's own error message, with line and column for its count of characters (from 1)."""
    place = re.search(_PLACE, complaint)
    # For extra data the count is that of the last character before it.
    offset = int(place[1]) - (not complaint.startswith("Extra data")) if place else 0
    reason = re.sub(_TERM, _term_words, re.sub(_PLACE, "", complaint))
    return error_at(source, max(0, offset), f"{reason[:1].lower()}{reason[1:]}", _REMEDY)


def _term_words(term: re.Match[str]) -> str:
    """Returns words for what the parser writes as `b'comma'` or `U+007d`."""
    name, code = term.groups()
    if name is not None:
        return str(name)
    character = chr(int(code, 16))
    if character == '"':
        return "a quotation mark"
    return f'"{character}"' if character.isprintable() else f"U+{code.upper()}"


MAX_BYTES = 4 * 1024 * 1024
"""More than any configuration needs; keeps a wrong path (a log, a disk image) from being read."""
MAX_DEPTH = 200


def read_json5(path: Path) -> Located:
    """Returns the value in the file at `path`.

    Raises `FileNotFoundError` when there is no such file, `ConfigInvalidError` for everything else.
    """
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise
    except OSError as error:
        denial = denial_of(path) if isinstance(error, PermissionError) else None
        cause = f"{error.strerror}: {denial}" if denial else error.strerror
        remedy = "Name a file that this user may read."
        if denial:
            remedy = f"Give this user access ({denial.remedy}), or name another file with --config."
        raise ConfigInvalidError.of(path, f"cannot be read: {cause}", remedy) from error
    return parse_json5(data, path)


def parse_json5(data: bytes, path: Path) -> Located:
    """Returns the value in `data`; `path` is for messages. Raises `ConfigInvalidError`."""
    source = SourceText(path, _decode(data, path))
    return _locate(_parse(source), scan(source.text), source)


def require_object(root: Located) -> Located:
    """Returns the value itself, if it is an object. Raises `ConfigInvalidError` otherwise."""
    if not isinstance(root.value, dict):
        message = f"found {type_words(root.value)} at the top, allowed is an object"
        raise error_at(root.source, root.offset, message, "Put the settings between { and }.")
    return root


def _decode(data: bytes, path: Path) -> str:
    if len(data) > MAX_BYTES:
        remedy = "Name another file, or make this one smaller: large parts may be in a file that it includes."
        raise ConfigInvalidError.of(path, f"is larger than {MAX_BYTES >> 20} MiB", remedy)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _encoding_error(b"", "the text is UTF-16", path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from the end of the byte order mark, which it skips.
        before = bytes(error.object[: error.start])
        found = f"the byte 0x{error.object[error.start]:02x} is not valid UTF-8"
        raise _encoding_error(before, found, path) from error


def _encoding_error(before: bytes, message: str, path: Path) -> ConfigInvalidError:
    text = before.decode("utf-8")
    remedy = "Save the file in the encoding UTF-8."
    return error_at(SourceText(path, text), len(text), message, remedy)


def _parse(source: SourceText) -> object:
    import pyjson5  # noqa: PLC0415 - costs start-up time that a start without a file need not pay

    try:
        return pyjson5.decode(source.text, maxdepth=MAX_DEPTH)
    except pyjson5.Json5DecoderException as error:
        raise parser_error(source, str(error.args[0])) from error


def _decode_string(quoted: str) -> str:
    import pyjson5  # noqa: PLC0415 - already loaded by `_parse`

    text: str = pyjson5.decode(quoted)
    return text


def _locate(value: object, spot: Spot, source: SourceText) -> Located:
    """Joins values and spots in one tree; recursion is bounded by `MAX_DEPTH`."""
    if isinstance(value, dict):
        members = spot.members
        value = {name: _locate(part, members[name], source) for name, part in value.items()}
    elif isinstance(value, list):
        pairs = zip(value, spot.items, strict=True)
        value = [_locate(part, below, source) for part, below in pairs]
    return Located(value, source, spot.offset, spot.value, spot.end, spot.shadowed)
