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
from config.source.editing import (
    BOM,
    member_lines,
    parse_object,
    split_bom,
    with_item,
    with_member,
    without_member,
)
from gateway.connect.clients import Client, Entry, hook_name

_BY_HAND: Final = "Correct it, or connect by hand: --print shows what belongs there."

Servers = dict[str, Any]


def has_place(client: Client, text: str, path: Path) -> bool:
    """Whether the file has something of its own where ours would stand. Raises ConfigInvalidError."""
    if client.is_hooks:
        return client.key in _read(client, text, path)
    return bool(servers_in(client, text, path))


def servers_in(client: Client, text: str, path: Path) -> Servers:
    """The servers of a file, by name. Raises ConfigInvalidError where it cannot be read."""
    found = _read(client, text, path).get(client.key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _invalid(
            path, f"{client.key} holds no {'hooks' if client.is_hooks else 'servers'}", _BY_HAND
        )
    return _hooks_by_name(found) if client.is_hooks else found


def with_server(client: Client, text: str, path: Path, name: str, entry: Entry) -> str:
    """The text with one server more; it has none of that name. Raises ConfigInvalidError."""
    wanted = _read(client, text, path)
    if client.is_hooks:
        return _with_hooks(client, text, path, entry, wanted)
    wanted[client.key] = {**servers_in(client, text, path), name: entry}
    if client.form == "toml":
        text = _add_to_toml(client.key, text, name, entry)
    else:
        text = with_member(text, path, (client.key, name), entry)
    return _checked(client, text, path, wanted)


def without_server(client: Client, text: str, path: Path, name: str, *, bare: bool) -> str:
    """The text without a server that it has. `bare`: nor with what held the servers, when that is empty.

    Raises ConfigInvalidError.
    """
    wanted = _read(client, text, path)
    if client.is_hooks:
        return _without_hooks(client, text, path, name, bare=bare)
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
    return _checked(client, without_member(text, path, at), path, wanted)


def entry_lines(client: Client, name: str, entry: Entry) -> list[str]:
    """An entry as it is written where there is room, for people."""
    if client.form == "toml":
        return list(_toml_lines(client.key, name, entry))
    return member_lines(name, entry)


def _checked(client: Client, text: str, path: Path, wanted: dict[str, object]) -> str:
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
            return tomllib.loads(text.removeprefix(BOM))
        except tomllib.TOMLDecodeError as error:
            raise _invalid(path, f"is no valid TOML: {error}", "Correct it first.") from None
    if not text.removeprefix(BOM).strip():
        return {}
    values: dict[str, object] = plain(parse_object(text, path))
    return values


def _invalid(path: Path, message: str, remedy: str) -> ConfigInvalidError:
    return ConfigInvalidError([ConfigProblem(message=message, file=str(path))], remedy=remedy)


# Hooks: below each event a list, in which ours stand beside those of others.


def _hooks_by_name(found: dict[str, object]) -> Servers:
    """Our hooks by the name of the server that they belong to; each as `{event: [group]}`."""
    ours: Servers = {}
    for event, groups in found.items():
        for group in groups if isinstance(groups, list) else ():
            if (name := hook_name(group)) is not None:
                ours.setdefault(name, {}).setdefault(event, []).append(group)
    return ours


def _with_hooks(client: Client, text: str, path: Path, entry: Entry, wanted: dict[str, Any]) -> str:
    hooks = wanted.get(client.key) or {}
    wanted[client.key] = hooks
    for event, groups in reversed(entry.items()):  # each is put first
        text = _add_hook(client.key, text, path, event, groups)
        if not isinstance(hooks.setdefault(event, []), list):
            raise _invalid(path, f"{client.key}.{event} is no list", _BY_HAND)
        hooks[event] = [*groups, *hooks[event]]
    return _checked(client, text, path, wanted)


def _add_hook(key: str, text: str, path: Path, event: str, groups: list[object]) -> str:
    _, bare = split_bom(text)
    hooks = parse_object(bare, path).value.get(key) if bare.strip() else None
    if hooks is None or hooks.value is None or hooks.value.get(event) is None:
        return with_member(text, path, (key, event), groups)
    for group in reversed(groups):
        text = with_item(text, path, (key, event), group)
    return text


def _without_hooks(client: Client, text: str, path: Path, name: str, *, bare: bool) -> str:
    """Nor with a list that is empty then; `bare`: nor with what held the lists."""
    wanted = _read(client, text, path)
    hooks = wanted[client.key]
    for event in list(hooks):
        groups = hooks[event] if isinstance(hooks[event], list) else []
        for at in reversed(range(len(groups))):
            if hook_name(groups[at]) == name:
                text = without_member(text, path, (client.key, event, at))
                del groups[at]
                if not groups:
                    text = without_member(text, path, (client.key, event))
                    del hooks[event]
    if bare and not hooks:
        text = without_member(text, path, (client.key,))
        del wanted[client.key]
    return _checked(client, text, path, wanted)


# TOML.


def _add_to_toml(key: str, text: str, name: str, entry: Entry) -> str:
    """As the last table: what stands above means the same, whatever it is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join((*_toml_lines(key, name, entry), ""))
    if not text.removeprefix(BOM):
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


def _toml(value: object) -> str:
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
