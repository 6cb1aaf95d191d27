"""Changes one member of a JSON text, with or without comments; everything else stays as it was written. Pure.

The caller reads the new text again, and compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.source.json5 import LEXEME, error_at, parse_json5, require_object
from config.source.located import KeyPath, Located, descend, render_path, type_words

BOM: Final = "\ufeff"


def parse_object(text: str, path: Path) -> Located:
    """Returns the object in a text. Raises ConfigInvalidError."""
    return require_object(parse_json5(text.encode(), path))


def with_member(text: str, path: Path, at: KeyPath, value: object) -> str:
    """Returns the text with this value at a path: in place of the one there, else as the first of its object.

    Missing objects on the way are created; an empty text becomes an object. Raises ConfigInvalidError.
    """
    bom, text = split_bom(text)
    if not text.strip():
        member = _member(str(at[0]), _nested(at[1:], value), "  ", "\n")
        return f"{bom}{{\n{member}\n}}\n"
    node, depth = parse_object(text, path), 0
    while depth < len(at):
        below = descend(node, at[depth])
        if below is None:
            _require_members(node, at[:depth])
            return bom + _insert(text, node, str(at[depth]), _nested(at[depth + 1 :], value))
        node, depth = below, depth + 1
        if depth < len(at) and node.value is None:
            break  # a member without a value is replaced, not written a second time
    return bom + text[: node.start] + _dumps(_nested(at[depth:], value)) + text[node.end :]


def with_item(text: str, path: Path, at: KeyPath, value: object) -> str:
    """Returns the text with another item at the start of the list at a path. Raises ConfigInvalidError."""
    bom, text = split_bom(text)
    container = parse_object(text, path)
    for name in at:
        container = container.value[name]
    return bom + _insert(text, container, None, value)


def without_member(text: str, path: Path, at: KeyPath) -> str:
    """Returns the text without a member or item that it has; comments stay. Raises ConfigInvalidError."""
    bom, text = split_bom(text)
    container = parse_object(text, path)
    for name in at[:-1]:
        container = container.value[name]
    node = container.value[at[-1]]
    start, end = node.offset, node.end
    comma = next(_lexemes(text, end))
    if comma.group() == ",":
        if (between := text[end : comma.start()]).strip():
            return bom + text[:start] + between + text[comma.end() :]
        end = comma.end()
    elif len(container.value) > 1:
        before = [one for one in _lexemes(text, 0, start) if one.group() == ","][-1]
        # Comments between the comma and the member stay.
        between = text[before.end() : start]
        kept = between if between.strip() or "\n" in between else ""
        text = text[: before.start()] + kept + text[start:]
        start, end = (one - 1 - len(between) + len(kept) for one in (start, end))
    line = text.rfind("\n", 0, start) + 1
    rest = re.compile(r"[ \t]*\r?\n").match(text, end)
    if rest and not text[line:start].strip():
        return bom + text[:line] + text[rest.end() :]
    return bom + text[:start] + text[end:].removeprefix(" ")


def member_lines(name: str, value: object) -> list[str]:
    """Returns the lines of a member as it is written where there is room."""
    return _member(name, value, "", "\n").split("\n")


def split_bom(text: str) -> tuple[str, str]:
    """Returns a byte order mark, if the text begins with one, and the rest."""
    return (BOM, text[1:]) if text.startswith(BOM) else ("", text)


def _require_members(node: Located, at: KeyPath) -> None:
    if not isinstance(node.value, dict):
        found = f"{render_path(at)}: found {type_words(node.value)}, allowed is an object"
        raise error_at(
            node.source, node.offset, found, "Nothing was written; correct it there first."
        )


def _nested(at: KeyPath, value: object) -> object:
    for name in reversed(at):
        value = {name: value}
    return value


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


_REST_OF_LINE: Final = re.compile(r"[ \t]*(?://[^\n]*)?\r?\n")


def _insert(text: str, container: Located, name: str | None, value: object) -> str:
    """Inserts the first member, without a name the first item; everything after it, commas and comments included, stays
    as it is.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    position = container.start + 1
    outer = _indent_at(text, container.offset)
    inner = outer + _unit(text)
    rest = _REST_OF_LINE.match(text, position)
    if rest is None and container.value:
        key = "" if name is None else f"{_dumps(name)}: "
        return f"{text[:position]}{key}{_dumps(value)}, {text[position:]}"
    if name is None:
        lines = newline.join(f"{inner}{line}" for line in _lines(value, inner))
    else:
        first = next(iter(container.value.values()), None)
        inner = _indent_at(text, first.offset) if first else inner
        lines = _member(name, value, inner, newline)
    if rest is not None:
        comma = "," if container.value else ""
        return f"{text[: rest.end()]}{lines}{comma}{newline}{text[rest.end() :]}"
    return f"{text[:position]}{newline}{lines}{newline}{outer}" + text[position:].lstrip(" \t")


def _member(name: str, value: object, indent: str, newline: str) -> str:
    lines = _lines({name: value}, indent)[1:-1]
    inner = len(lines[0]) - len(lines[0].lstrip())
    return newline.join(f"{indent}{line[inner:]}" for line in lines)


def _lines(value: object, indent: str) -> list[str]:
    """Returns the lines of a value, indented in themselves as the text around them."""
    step = "\t" if "\t" in indent else 2
    return json.dumps(value, indent=step, ensure_ascii=False).split("\n")


def _indent_at(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return "\t" if found and found[1].startswith("\t") else (found[1] if found else "  ")


def _lexemes(text: str, start: int, end: int | None = None) -> Iterator[re.Match[str]]:
    found = LEXEME.finditer(text, start, len(text) if end is None else end)
    return (one for one in found if not one.group().startswith(("//", "/*")))
