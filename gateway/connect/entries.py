"""A client's configuration on the disk: what it says of us, and how it is changed and put back.

One server is added to its text, or removed from it; all else stays as it is. The new text is parsed before it is
returned: it must have the same content as before, with one entry more or less. Nothing is written before it was shown,
and only over what was read. A copy of the original stays beside the file until the gateway is taken out again: if
nothing else has changed by then, the copy is restored, byte for byte. No link is followed: a file that belongs to a
dotfile manager is left to it.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from backends.interface import FileUnreadableError, FileUnwritableError
from config.errors import ConfigInvalidError
from config.host_keys import plain
from config.runtime.files import (
    copies_of,
    denial_of,
    is_copy,
    keep_copy,
    make_directories,
    replace_file,
)
from config.source.editing import (
    BOM,
    member_lines,
    parse_object,
    split_bom,
    with_item,
    with_member,
    without_member,
)
from config.source.json5 import MAX_BYTES
from gateway.connect.clients import Client, Entry, Surroundings, hook_name, hooks_in, is_ours

_CORRECT: Final = "Correct it first."
_BY_HAND: Final = "Correct it, or connect by hand: --print shows what belongs there."

Servers = dict[str, Any]

_NEW_MODE: Final = 0o600
_PUT_IN_BY_HAND: Final = "Put in by hand what `memory-gateway connect {client} --print` shows."
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def has_place(client: Client, text: str, path: Path) -> bool:
    """Returns whether the file has something of its own where ours would go. Raises ConfigInvalidError."""
    if client.is_hooks:
        return client.key in _read(client, text, path)
    return bool(servers_in(client, text, path))


def servers_in(client: Client, text: str, path: Path) -> Servers:
    """Returns the servers of a file, by name. Raises ConfigInvalidError where it cannot be read."""
    found = _read(client, text, path).get(client.key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigInvalidError.of(
            path, f"{client.key} holds no {'hooks' if client.is_hooks else 'servers'}", _CORRECT
        )
    return _hooks_by_name(found) if client.is_hooks else found


def with_server(client: Client, text: str, path: Path, name: str, entry: Entry) -> str:
    """Returns the text, which has no server of that name, with this one. Raises ConfigInvalidError."""
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
    """Returns the text without a server that it has. `bare`: also without the member of the servers, if that is empty.

    Raises ConfigInvalidError.
    """
    wanted = _read(client, text, path)
    if client.is_hooks:
        return _without_hooks(client, text, path, name, bare=bare)
    left = {one: value for one, value in servers_in(client, text, path).items() if one != name}
    wanted[client.key] = left
    if client.form == "toml":
        if not left:
            del wanted[client.key]  # a table exists only while something is in it
        text = _cut_from_toml(client.key, text, name)
        return _checked(client, text, path, wanted, _out_by_hand(client, name))
    at: tuple[str, ...] = (client.key, name)
    if bare and not left:
        at = (client.key,)
        del wanted[client.key]
    text = without_member(text, path, at)
    return _checked(client, text, path, wanted, _out_by_hand(client, name))


def entry_lines(client: Client, name: str, entry: Entry) -> list[str]:
    """Returns an entry as it is written where there is room, for people."""
    if client.form == "toml":
        return list(_toml_lines(client.key, name, entry))
    return member_lines(name, entry)


def _out_by_hand(client: Client, name: str) -> str:
    what = "the hooks that run `memory-gateway recall`" if client.is_hooks else name
    return f"Take {what} out of its {client.key} by hand."


def _checked(
    client: Client, text: str, path: Path, wanted: dict[str, object], remedy: str = _BY_HAND
) -> str:
    try:
        found = _read(client, text, path)
    except ConfigInvalidError:
        found = {}
    if found != wanted:
        raise ConfigInvalidError.of(
            path, f"{client.key} is written in a way that cannot be edited", remedy
        )
    return text


def _read(client: Client, text: str, path: Path) -> dict[str, Any]:
    if client.form == "toml":
        try:
            return tomllib.loads(text.removeprefix(BOM))
        except tomllib.TOMLDecodeError as error:
            raise ConfigInvalidError.of(path, f"is no valid TOML: {error}", _CORRECT) from None
    if not text.removeprefix(BOM).strip():
        return {}
    values: dict[str, object] = plain(parse_object(text, path))
    return values


# Hooks: a list for each event, with ours beside those of others.


def _hooks_by_name(found: dict[str, object]) -> Servers:
    """Returns our hooks by the name of their server; each as `{event: [group]}`, without the hooks of others."""
    ours: Servers = {}
    for event, groups in found.items():
        for group in groups if isinstance(groups, list) else ():
            for hook in hooks_in(group):
                if (name := hook_name(hook)) is not None:
                    alone = {**group, "hooks": [hook]}
                    ours.setdefault(name, {}).setdefault(event, []).append(alone)
    return ours


def _with_hooks(client: Client, text: str, path: Path, entry: Entry, wanted: dict[str, Any]) -> str:
    hooks = wanted.get(client.key) or {}
    wanted[client.key] = hooks
    for event, groups in reversed(entry.items()):  # each is put first
        text = _add_hook(client.key, text, path, event, groups)
        if not isinstance(hooks.setdefault(event, []), list):
            raise ConfigInvalidError.of(path, f"{client.key}.{event} is no list", _BY_HAND)
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
    """Removes our hooks, lists that are empty then and, with `bare`, the member of the lists if that is empty then."""
    wanted = _read(client, text, path)
    hooks = wanted[client.key]
    for event in list(hooks):
        groups = hooks[event] if isinstance(hooks[event], list) else []
        was_empty = not groups
        for at in reversed(range(len(groups))):
            for index, hook in reversed([*enumerate(hooks_in(groups[at]))]):
                if hook_name(hook) != name:
                    continue
                if len(groups[at]["hooks"]) > 1:
                    text = without_member(text, path, (client.key, event, at, "hooks", index))
                    del groups[at]["hooks"][index]
                    continue
                text = without_member(text, path, (client.key, event, at))
                del groups[at]
        if not groups and not was_empty:
            text = without_member(text, path, (client.key, event))
            del hooks[event]
    if bare and not hooks:
        text = without_member(text, path, (client.key,))
        del wanted[client.key]
    return _checked(client, text, path, wanted, _out_by_hand(client, name))


# TOML.


def _add_to_toml(key: str, text: str, name: str, entry: Entry) -> str:
    """Adds an entry as the last table, so that everything above keeps its meaning."""
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
    """Writes strings, numbers, booleans and lists of these as in JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _cut_from_toml(key: str, text: str, name: str) -> str:
    """Removes the table and its subtables, and the blank line before each; comments after them are not ours."""
    names = rf"""(?:{re.escape(name)}|"{re.escape(name)}"|'{re.escape(name)}')"""
    header = re.compile(rf"[ \t]*\[[ \t]*{key}[ \t]*\.[ \t]*{names}[ \t]*(?:\.[^\n]*)?\]")
    kept: list[str] = []
    table: list[str] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        is_ours = header.match(line) is not None
        may_begin = is_ours or (table and line.lstrip(" \t").startswith("["))
        if may_begin and _ends_whole("".join(table or kept)):
            kept += _after_table(table)
            table = [line] if is_ours else []
            if is_ours and kept and not kept[-1].strip():
                kept.pop()
            if is_ours:
                continue
        (table or kept).append(line)
    return "".join((*kept, *_after_table(table)))


def _ends_whole(text: str) -> bool:
    """Returns whether this text in TOML ends outside of all strings and lists."""
    try:
        tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _after_table(lines: list[str]) -> list[str]:
    """Returns the blank lines and comments at the end of a table: they belong to what follows."""
    end = len(lines)
    while (
        end
        and not lines[end - 1].split("#", 1)[0].strip()
        and _ends_whole("".join(lines[: end - 1]))
    ):
        end -= 1
    return lines[end:]


class Content(msgspec.Struct, frozen=True):
    """The content of a file; without `data` there is no file."""

    data: bytes | None
    mode: int = _NEW_MODE
    names: int = 1
    """The number of hard links."""

    @property
    def text(self) -> str:
        return (self.data or b"").decode()


class FilePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one file, not made yet."""

    client: Client
    path: Path
    name: str
    before: Content
    after: bytes | None
    """None: the file is removed, as nothing else was ever in it."""
    old: Entry | None
    new: Entry | None
    base: bytes | None = None
    """The file without us; None where there is none."""
    copy: Path | None = None
    """The copy that contains `base`, if there is one."""
    keeps_ours: bool = False
    """True if `base` has other entries of ours, and all the rest is what it was before them: it needs no copy."""

    @property
    def changes(self) -> bool:
        return self.before.data != self.after

    @property
    def warning(self) -> str | None:
        """A sentence about what the change does not keep."""
        if self.before.names < 2 or not self.changes:
            return None
        return f"{self.path} has {self.before.names} names (hard links): the others keep what it says now."


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a change."""

    copy: Path | None = None
    """The copy of what was there, if one is beside the file now."""
    lost: tuple[str, ...] = ()
    """The extended attributes that the new file could not be given."""
    restored: bool = False
    """True if the file, apart from other entries of ours, is what it was before us, or gone if there was none."""


def connected(client: Client, there: Surroundings) -> dict[str, Entry]:
    """Returns the servers of a client that are this gateway, by name. Raises as `read`."""
    path = client.file(there)
    servers = servers_in(client, read(client, there).text, path)
    if client.is_hooks:
        return servers  # only ours are looked at
    return {name: entry for name, entry in servers.items() if is_ours(entry)}


def read(client: Client, there: Surroundings, *, leaving: str | None = None) -> Content:
    """Raises FileUnreadableError, and ConfigInvalidError if it is not text. `leaving`: the server to be removed."""
    path = client.file(there)
    _refuse_links(client, path, there.home, leaving)
    try:
        found = _read_file(path)
        found.text  # noqa: B018 - no text at all is refused here
    except FileNotFoundError:
        return Content(None)
    except UnicodeDecodeError:
        remedy = "Save the file in the encoding UTF-8."
        raise ConfigInvalidError.of(path, "is not UTF-8", remedy) from None
    except OSError as error:
        denial = isinstance(error, PermissionError)
        remedy = "Make it readable for you." if denial else "Put a file of the client's own there."
        raise FileUnreadableError(
            f"{path} cannot be read: {error.strerror}.", remedy=remedy
        ) from None
    return found


def _read_file(path: Path) -> Content:
    descriptor = os.open(path, _READ)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(0, f"it is larger than {MAX_BYTES >> 20} MiB")
    return Content(data, stat.S_IMODE(status.st_mode), status.st_nlink)


def _refuse_links(client: Client, path: Path, home: Path, leaving: str | None) -> None:
    """Raises FileUnwritableError for a link: the file itself, or a directory between it and the home."""
    below = [one for one in (path, *path.parents) if home in one.parents] or [path]
    for one in below:
        if one.is_symlink():
            raise FileUnwritableError(
                f"{one} is a link, and links are not followed.",
                remedy=_PUT_IN_BY_HAND.format(client=client.name)
                if leaving is None
                else _out_by_hand(client, leaving),
            )


def plan_change(client: Client, there: Surroundings, name: str, entry: Entry | None) -> FilePlan:
    """Plans to add our entry, or without one to remove it. Anything that a person added to one of ours (variables, a
    time limit) stays in it.

    Raises as `read`, and ConfigInvalidError where another server has the name.
    """
    path = client.file(there)
    before = read(client, there, leaving=name if entry is None else None)
    old = servers_in(client, before.text, path).get(name)
    if old is not None and not (client.is_hooks or is_ours(old)):
        if entry is None:
            problem, remedy = f"{name} is another server", "It is left alone; --name names ours."
        else:
            problem = f"another server has the name {name}"
            remedy = "Give this one another name: --name NAME."
        raise ConfigInvalidError.of(path, problem, remedy)
    new = {**old, **entry} if entry and old and not client.is_hooks else entry
    plan = partial(FilePlan, client=client, path=path, name=name, before=before, old=old, new=new)
    if old == new:
        return plan(after=before.data)
    base = _without_all_but(client, path, before, name)
    keeps_ours, copy = base is not None, None
    if base is None:
        base, copy = _without(client, path, before, name, old)
    plan = partial(plan, base=base, copy=copy, keeps_ours=keeps_ours)
    if new is None:
        return plan(after=base)
    text = with_server(client, (base or b"").decode(), path, name, new)
    return plan(after=text.encode())


def _without_all_but(client: Client, path: Path, content: Content, name: str) -> bytes | None:
    """Returns the content with our other entries alone; None without any, or if anything else has changed since."""
    servers = servers_in(client, content.text, path)
    ours = {one: entry for one, entry in servers.items() if client.is_hooks or is_ours(entry)}
    others = {one: entry for one, entry in ours.items() if one != name}
    if not others:
        return None
    for copy in (None, *_copies(path)):
        try:
            text = "" if copy is None else _read_file(copy).text
            if ours.keys() & servers_in(client, text, path).keys():
                continue  # it is of a time when we were there
            if _with_all(client, text, path, ours) == content.text:
                return _with_all(client, text, path, others).encode()
        except (OSError, ValueError, ConfigInvalidError):
            continue
    return None


def _with_all(client: Client, text: str, path: Path, ours: Servers) -> str:
    """Returns the text with these entries, in the order of a file: each is put last in TOML, and first in JSON."""
    for name, entry in ours.items() if client.form == "toml" else reversed(ours.items()):
        text = with_server(client, text, path, name, entry)
    return text


def _without(
    client: Client, path: Path, content: Content, name: str, entry: Entry | None
) -> tuple[bytes | None, Path | None]:
    """Returns the content without us, and the copy that has it, if nothing else has changed since."""
    if entry is None:
        return content.data, None
    was_bare = False
    for copy in _copies(path):
        try:
            text = _read_file(copy).text
            servers = servers_in(client, text, copy)
            if name in servers:
                continue
            if with_server(client, text, copy, name, entry) == content.text:
                return text.encode(), copy
        except (OSError, ValueError, ConfigInvalidError):
            continue
        was_bare = was_bare or not has_place(client, text, copy)
    if with_server(client, "", path, name, entry) == content.text:
        return None, None
    return without_server(client, content.text, path, name, bare=was_bare).encode(), None


def _copies(path: Path) -> list[Path]:
    try:
        return copies_of(path)
    except OSError:
        return []


def carry_out(plan: FilePlan) -> Done:
    """Makes the change. Raises FileUnwritableError, and then the file is as it was."""
    copy = plan.copy
    try:
        _check_unchanged(plan)
        if plan.new is None:
            return _put_back(plan)
        make_directories(plan.path.parent)
        if copy is None and plan.base is not None and not plan.keeps_ours:
            copy = _copy(plan.path, plan.base, plan.before.mode)
        return Done(copy=copy, lost=_replace(plan, plan.after or b""))
    except OSError as error:
        denial = denial_of(plan.path.parent, os.W_OK)
        if denial is not None:
            remedy = f"Give this user access: {denial.remedy}."
        elif plan.new is not None:
            remedy = _PUT_IN_BY_HAND.format(client=plan.client.name)
        else:
            remedy = _out_by_hand(plan.client, plan.name)
        raise FileUnwritableError(
            f"{plan.path} cannot be replaced: {denial or error.strerror}.", remedy=remedy
        ) from None


def _replace(plan: FilePlan, data: bytes) -> tuple[str, ...]:
    """Replaces the file if it is still unchanged when the new content is on disk: a slow disk gives the client time."""
    return replace_file(
        plan.path, data, mode=plan.before.mode, check=partial(_check_unchanged, plan)
    )


def _copy(path: Path, data: bytes, mode: int) -> Path:
    """Returns a new copy, or the one of a run that was killed after making it."""
    there = (one for one in _copies(path) if is_copy(one, data, mode=mode))
    return next(there, None) or keep_copy(path, data, mode=mode)


def _check_unchanged(plan: FilePlan) -> None:
    """Raises OSError if the file has changed: clients write their files while they run."""
    try:
        now = _read_file(plan.path).data
    except FileNotFoundError:
        now = None
    if now != plan.before.data:
        raise OSError(0, "somebody else changed it in this moment; try again")


def _put_back(plan: FilePlan) -> Done:
    if plan.after is None:
        plan.path.unlink()
        return Done(restored=True)
    lost = _replace(plan, plan.after)
    if plan.copy is not None:
        plan.copy.unlink()
        return Done(lost=lost, restored=True)
    if plan.keeps_ours:
        return Done(lost=lost, restored=True)
    return Done(copy=next(iter(_copies(plan.path)), None), lost=lost)


def shown(entry: Mapping[str, object]) -> dict[str, object]:
    """Returns what may be printed of an entry: people keep keys in its variables."""
    return {
        name: dict.fromkeys(value, "...") if isinstance(value, Mapping) else value
        for name, value in entry.items()
    }
