"""One server added to, or removed from, the text of a client's configuration; all else stays as it is. Pure.

The new text is read again before it is handed out: it must say what it said, and the one thing more or less.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from config.errors import ConfigInvalidError, ConfigProblem
from config.host_keys import plain
from config.source.json5 import LEXEME, parse_json5, require_object
from config.source.located import Located
from gateway.connect.clients import Client, Entry

_BOM: Final = "\ufeff"
_BY_HAND: Final = "Correct it, or connect by hand: --print shows what belongs there."

Servers = dict[str, Any]


def servers_in(client: Client, text: str, path: Path) -> Servers:
    """The servers of a file, by name. Raises ConfigInvalidError where it cannot be read."""
    found = _read(client, text, path).get(client.key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _invalid(path, f"{client.key} holds no servers", _BY_HAND)
    return found


def with_server(client: Client, text: str, path: Path, name: str, entry: Entry) -> str:
    """The text with one server more; it has none of that name. Raises ConfigInvalidError."""
    wanted = _read(client, text, path)
    wanted[client.key] = {**servers_in(client, text, path), name: entry}
    add = _add_to_toml if client.form == "toml" else _add_to_json
    return _checked(client, add(client.key, text, path, name, entry), path, wanted)


def without_server(client: Client, text: str, path: Path, name: str, *, bare: bool) -> str:
    """The text without a server that it has. `bare`: nor with what held the servers, when that is empty.

    Raises ConfigInvalidError.
    """
    wanted = _read(client, text, path)
    left = {one: value for one, value in servers_in(client, text, path).items() if one != name}
    wanted[client.key] = left
    if client.form == "toml":
        if not left:
            del wanted[client.key]  # a table is there while something is in it
        return _checked(client, _cut_from_toml(client.key, text, name), path, wanted)
    at: tuple[str, ...] = (client.key, name)
    if bare and not left:
        at = (client.key,)
        del wanted[client.key]
    return _checked(client, _cut_from_json(text, path, at), path, wanted)


def entry_lines(client: Client, name: str, entry: Entry) -> list[str]:
    """An entry as it is written where there is room, for people."""
    if client.form == "toml":
        return list(_toml_lines(client.key, name, entry))
    return _json_member(name, entry, "", "\n").split("\n")


def _checked(client: Client, text: str, path: Path, wanted: dict[str, Any]) -> str:
    try:
        found = _read(client, text, path)
    except ConfigInvalidError:
        found = {}
    if found != wanted:
        raise _invalid(path, f"{client.key} is written in a way that cannot be edited", _BY_HAND)
    return text


def _read(client: Client, text: str, path: Path) -> dict[str, Any]:
    if client.form == "toml":
        try:
            return tomllib.loads(text.removeprefix(_BOM))
        except tomllib.TOMLDecodeError as error:
            raise _invalid(path, f"is no valid TOML: {error}", "Correct it first.") from None
    if not text.removeprefix(_BOM).strip():
        return {}
    values: dict[str, Any] = plain(_parse(text, path))
    return values


def _invalid(path: Path, message: str, remedy: str) -> ConfigInvalidError:
    return ConfigInvalidError([ConfigProblem(message=message, file=str(path))], remedy=remedy)


def _parse(text: str, path: Path) -> Located:
    return require_object(parse_json5(text.encode(), path))


# JSON, with or without comments.


def _add_to_json(key: str, text: str, path: Path, name: str, entry: Entry) -> str:
    bom, text = _split_bom(text)
    if not text.strip():
        return f"{bom}{{\n{_json_member(key, {name: entry}, '  ', chr(10))}\n}}\n"
    root = _parse(text, path)
    servers = root.value.get(key)
    if servers is None or servers.value is None:
        # A member without a value is replaced, not written a second time.
        if servers is not None:
            value = json.dumps({name: entry}, ensure_ascii=False)
            return bom + text[: servers.start] + value + text[servers.end :]
        return bom + _insert(text, root, key, {name: entry})
    return bom + _insert(text, servers, name, entry)


def _split_bom(text: str) -> tuple[str, str]:
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


_REST_OF_LINE: Final = re.compile(r"[ \t]*(?://[^\n]*)?\r?\n")


def _insert(text: str, container: Located, name: str, value: Any) -> str:
    """As the first member: whatever follows, commas and comments included, stays as it is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    position = container.start + 1
    comma = "," if container.value else ""
    outer = _indent_at(text, container.offset)
    rest = _REST_OF_LINE.match(text, position)
    if rest is not None:
        first = next(iter(container.value.values()), None)
        inner = _indent_at(text, first.offset) if first else outer + _unit(text)
        lines = f"{_json_member(name, value, inner, newline)}{comma}{newline}"
        return text[: rest.end()] + lines + text[rest.end() :]
    if container.value:
        member = f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}, "
        return text[:position] + member + text[position:]
    member = _json_member(name, value, outer + _unit(text), newline)
    return text[:position] + f"{newline}{member}{newline}{outer}" + text[position:].lstrip(" \t")


def _json_member(name: str, value: Any, indent: str, newline: str) -> str:
    step = "\t" if "\t" in indent else 2
    lines = json.dumps({name: value}, indent=step, ensure_ascii=False).split("\n")[1:-1]
    inner = len(lines[0]) - len(lines[0].lstrip())
    return newline.join(f"{indent}{line[inner:]}" for line in lines)


def _indent_at(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return "\t" if found and found[1].startswith("\t") else (found[1] if found else "  ")


def _cut_from_json(text: str, path: Path, at: tuple[str, ...]) -> str:
    bom, text = _split_bom(text)
    container = _parse(text, path)
    for name in at[:-1]:
        container = container.value[name]
    node = container.value[at[-1]]
    start, end = node.offset, node.end
    comma = next(_lexemes(text, end))
    if comma.group() == ",":
        end = comma.end()
    elif len(container.value) > 1:
        before = [one for one in _lexemes(text, 0, start) if one.group() == ","][-1]
        # Comments between the comma and the member are somebody's.
        between = text[before.end() : start]
        kept = between if between.strip() or "\n" in between else ""
        text = text[: before.start()] + kept + text[start:]
        start, end = (one - 1 - len(between) + len(kept) for one in (start, end))
    line = text.rfind("\n", 0, start) + 1
    rest = re.compile(r"[ \t]*\r?\n").match(text, end)
    if rest and not text[line:start].strip():
        return bom + text[:line] + text[rest.end() :]
    return bom + text[:start] + text[end:].removeprefix(" ")


def _lexemes(text: str, start: int, end: int | None = None) -> Iterator[re.Match[str]]:
    found = LEXEME.finditer(text, start, len(text) if end is None else end)
    return (one for one in found if not one.group().startswith(("//", "/*")))


# TOML.


def _add_to_toml(key: str, text: str, _path: Path, name: str, entry: Entry) -> str:
    """As the last table: what stands above means the same, whatever it is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join((*_toml_lines(key, name, entry), ""))
    if not text.removeprefix(_BOM):
        return text + block
    return text + ("" if text.endswith("\n") else newline) + newline + block


def _toml_lines(key: str, name: str, entry: Entry) -> Iterator[str]:
    yield f"[{key}.{_toml_key(name)}]"
    tables = {k: v for k, v in entry.items() if isinstance(v, dict)}
    yield from (f"{_toml_key(k)} = {_toml(v)}" for k, v in entry.items() if k not in tables)
    for inner, value in tables.items():
        yield ""
        yield from _toml_lines(f"{key}.{_toml_key(name)}", inner, value)


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    """Strings, numbers, booleans and lists of these are written as in JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _cut_from_toml(key: str, text: str, name: str) -> str:
    """Without the table and those below it, and the blank line before each; comments are not ours."""
    names = rf"""(?:{re.escape(name)}|"{re.escape(name)}"|'{re.escape(name)}')"""
    table = re.compile(
        rf"(?:^[ \t]*\r?\n)?^[ \t]*\[[ \t]*{key}[ \t]*\.[ \t]*{names}[ \t]*(?:\.[^\n]*)?\][^\n]*(?:\n|\Z)"
        r"(?:[ \t]*[^\s\[#][^\n]*(?:\n|\Z))*",
        re.MULTILINE,
    )
    return table.sub("", text)
