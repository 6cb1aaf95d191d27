"""Moves keys from places that today's OpenClaw refuses to places that it accepts, without changing their meaning.

Members are cut out and inserted as they were written, with the comments beside them, and everything else
stays as it is. The settings before and after are compared, and a file that cannot be moved without changing
them is refused. The only input besides the file is the files that it includes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from config.errors import ConfigInvalidError, ConfigProblem
from config.host_keys import (
    COMPACTION_ONLY_OURS,
    HOST_RELEASE,
    OWN_ENTRY_PATH,
    accepts,
    is_disabled,
    is_own_entry,
    plain,
    search_place,
    tolerates,
)
from config.keys.tree import (
    ANY_ITEM,
    ANY_NAME,
    Branch,
    Foreign,
    Given,
    Leaf,
    Retired,
    build_tree,
    walk,
)
from config.loading import (
    agents_in_own_entry,
    changed_keys,
    listed_agents,
    load_found,
    normalize_agent_id,
)
from config.sections import SECTIONS
from config.settings import Settings
from config.source.discover import INCLUDE, LoadRequest, discover, resolve_includes
from config.source.environment import AnyVariable
from config.source.json5 import LEXEME, parse_json5
from config.source.located import KeyPath, Located, Reading, descend, members_of, render_path

_FIRST_STRICT: Final = tuple(map(int, HOST_RELEASE.split(".")))
_AGENT_ITEM: Final = 3
"""Length of the path of an agent's own object."""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One member that today's host refuses at its present place."""

    at: KeyPath
    node: Located
    to: KeyPath | None
    """The place where the host accepts it; None if it is left out."""
    reason: str = ""
    """The reason why it is left out."""

    @property
    def place(self) -> str:
        return render_path(self.at)


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    before: str
    """The whole file as it is."""
    text: str
    """The whole file as it should be."""
    moves: tuple[Move, ...]
    elsewhere: tuple[Move, ...]
    """The moves of members in included files, which are not made."""


def find_moves(root: Located, environment: Mapping[str, str]) -> tuple[Move, ...]:
    """Returns a move for each member that the host would refuse, in the order of the file with its includes.

    Raises ConfigInvalidError for what has to be corrected before it can be moved.
    """
    reading = Reading(AnyVariable(environment), root.source.path, tolerates)
    tree = build_tree(SECTIONS)
    givens = {given.at: given for given in walk(tree, root, (), reading)}
    refused = list(_refused(tree, root, (), root))
    _refuse_unreadable(reading, refused)
    levels = _Levels(givens.values(), root)
    return tuple(_move(found, givens.get(found.at), levels) for found in refused)


def is_of_today(root: Located) -> bool:
    """Returns whether the file was written by a release of the host that refuses the older places."""
    touched = descend(root, "meta", "lastTouchedVersion")
    text = touched.value if touched and isinstance(touched.value, str) else ""
    match = re.match(r"(\d+)\.(\d+)\.", text)
    return match is not None and (int(match[1]), int(match[2])) >= _FIRST_STRICT


def migrate(data: bytes, path: Path, environment: Mapping[str, str]) -> Migration:
    """Returns the file with everything moved. Raises ConfigInvalidError."""
    own = parse_json5(data, path)
    moves = find_moves(resolve_includes(own), environment)
    ours = tuple(move for move in moves if move.node.source.path == path)
    elsewhere = tuple(move for move in moves if move.node.source.path != path)
    return Migration(
        path=path,
        before=own.source.text,
        text=_Editor(own).edited(ours),
        moves=ours,
        elsewhere=elsewhere,
    )


def migrate_in_force(request: LoadRequest) -> Migration | None:
    """Migrates the file that is in force for the request; returns None if there is no file.

    Raises ConfigInvalidError, also where a move would change what is in force for any agent, and
    ConfigNotFoundError.
    """
    found = discover(request)
    if found.root is None:
        return None
    source = found.root.source
    migration = migrate(source.text.encode(), source.path, request.environment)
    moved = resolve_includes(parse_json5(migration.text.encode(), source.path))
    after = msgspec.structs.replace(found, root=moved)
    for agent_id in _agents(found.root):
        one = msgspec.structs.replace(request, agent_id=agent_id)
        old, new = load_found(one, found), load_found(one, after)
        if _values(old) != _values(new) or _off(old) != _off(new):
            changed = ", ".join(changed_keys(old, new)) or "the settings"
            message = f"moving the keys would change {changed} for the agent {old.agent_id}"
            raise ConfigInvalidError.of(source.path, message, "Move these keys by hand.")
    return migration


def _agents(root: Located) -> list[str | None]:
    """Returns None for the default agent, then every agent that the file names anywhere."""
    reading = Reading({})
    listed = [entry.id for entry in listed_agents(root, reading)]
    return [None, *listed, *(name for name, _ in agents_in_own_entry(root))]


def _values(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, origins={}, warnings=(), enabled_key=None)


def _off(settings: Settings) -> list[bool]:
    """Returns whether memory is off for a process that obeys the host's switches, and for one that does not."""
    return [
        is_disabled(msgspec.structs.replace(settings, started_as=one))
        for one in ("sidecar", "service")
    ]


class _Found(msgspec.Struct, frozen=True):
    at: KeyPath
    node: Located
    child: Leaf | Retired | None
    """None for an unknown key."""


def _refused(tree: Branch, node: Located, at: KeyPath, root: Located) -> Iterator[_Found]:
    """Yields the innermost members that the host refuses, with what they mean here."""
    for name, member in members_of(node).items():
        child = tree.children.get(ANY_ITEM if isinstance(name, int) else name)
        child = child or tree.children.get(ANY_NAME)
        path = (*at, name)
        if name == INCLUDE or isinstance(child, Foreign) or is_own_entry(path):
            continue
        if isinstance(child, Branch) and isinstance(member.value, dict | list) and member.value:
            yield from _refused(child, member, path, root)
        elif not _hosts_accept(path) or _excludes(path, member):
            yield _Found(path, member, None if isinstance(child, Branch) else child)


def _hosts_accept(at: KeyPath) -> bool:
    place = search_place(at)
    if place is not None:
        return place[-2:] == ("memory", "search") and tolerates(at)
    if at[:3] == ("agents", "defaults", "compaction"):
        return ".".join(map(str, at[3:])) not in COMPACTION_ONLY_OURS
    return tolerates(at)


def _excludes(at: KeyPath, node: Located) -> bool:
    """Returns whether these are extra paths with `exclude`, which the host does not know."""
    is_list = at[-1] == "extraPaths" and isinstance(node.value, list)
    return is_list and any("exclude" in one for one in plain(node) if isinstance(one, dict))


def _refuse_unreadable(reading: Reading, refused: Sequence[_Found]) -> None:
    reading.raise_problems()
    paths = {render_path(found.at) for found in refused}
    bad = [
        remark.warning
        for remark in reading.remarks
        if remark.warning.message.endswith("it is ignored") and remark.warning.path in paths
    ]
    twice = [found for found in refused if found.node.shadowed is not None]
    problems = [
        *(ConfigProblem(message=w.message, file=w.file, line=w.line, path=w.path) for w in bad),
        *(_problem(found, "appears twice, and only the last one counts") for found in twice),
    ]
    if problems:
        raise ConfigInvalidError(problems, remedy="Correct this first, then migrate the file.")


def _problem(found: _Found, message: str) -> ConfigProblem:
    node = found.node
    return ConfigProblem(
        message=message, file=str(node.source.path), line=node.line, path=render_path(found.at)
    )


class _Levels:
    """Determines which of several places gives a key its value, for all agents and for each one."""

    def __init__(self, givens: Iterable[Given], root: Located) -> None:
        self._root = root
        self._by_key: dict[tuple[str, str], list[Given]] = {}
        for given in givens:
            if ANY_NAME not in given.leaf.key.path:
                self._by_key.setdefault(self._key(given), []).append(given)

    def _key(self, given: Given) -> tuple[str, str]:
        leaf = given.leaf
        return self.agent(given.at), leaf.section.documented(leaf.key.path)

    def agent(self, at: KeyPath) -> str:
        """Returns the id of the agent that a path belongs to; empty for a path that applies to all."""
        if at[:1] == ("agents",) and at[1:2] in (("list",), ("entries",)):
            name: object = at[2]
            if isinstance(name, int):
                item = self._root.value["agents"].value["list"].value[name]
                name = plain(item).get("id", "") if isinstance(item.value, dict) else ""
            return normalize_agent_id(str(name))
        home = (*OWN_ENTRY_PATH, "agents")
        return normalize_agent_id(str(at[len(home)])) if at[: len(home)] == home else ""

    def winner(self, given: Given) -> Given:
        return min(self._by_key[self._key(given)], key=lambda one: one.leaf.rank)

    def is_alone(self, given: Given) -> bool:
        """Returns whether no other place that remains gives the same key."""
        others = self._by_key[self._key(given)]
        return not any(_hosts_accept(other.at) for other in others)

    def stands(self, path: KeyPath) -> bool:
        """Returns whether the file has a member at this path, even a null."""
        return descend(self._root, *path) is not None


def _move(found: _Found, given: Given | None, levels: _Levels) -> Move:
    if isinstance(found.child, Retired):
        reason = "it has no effect"
    elif found.child is None:
        is_empty = plain(found.node) in ({}, [], None)
        reason = "it is empty" if is_empty else "it is not a known key"
    elif given is None:
        reason = "it has no value"
    elif (winner := levels.winner(given)) is not given:
        reason = f"{render_path(winner.at)} counts"
    else:
        return Move(at=found.at, node=found.node, to=_target(given, levels))
    return Move(at=found.at, node=found.node, to=None, reason=reason)


def _target(given: Given, levels: _Levels) -> KeyPath:
    section, key = given.leaf.section, given.leaf.key
    names = tuple(key.path.split("."))
    if section.name == "memory":
        return (*OWN_ENTRY_PATH, *names)
    if section.name != "memorySearch":
        return (*OWN_ENTRY_PATH, *section.name.split("."), *names)
    # The host's `enabled` switches its own memory; the older place switched ours.
    agent = levels.agent(given.at)
    own = (*given.at[:_AGENT_ITEM], "memory", "search") if agent else ("memory", "search")
    home = (*OWN_ENTRY_PATH, "agents", agent, "search") if agent else (*OWN_ENTRY_PATH, "search")
    is_hosts = (
        key.path != "enabled" and accepts(key.path, plain(given.node)) and levels.is_alone(given)
    )
    return (own if is_hosts and not levels.stands((*own, *names)) else home) + names


class _Cut(msgspec.Struct, frozen=True, order=True):
    start: int
    end: int
    instead: str = ""


_NEXT_LINE = re.compile(r"[ \t]*(?://[^\n]*)?\r?\n")
_REST_OF_LINE = re.compile(r"[ \t]*(//[^\n]*|/\*[^\n]*?\*/)?[ \t]*(?=\r?\n|$)")
_INDENT: Final = "  "


class _Piece(msgspec.Struct, frozen=True):
    """A member as it was written: comments above it, the value, a comment after it."""

    above: str
    value: str
    behind: str


class _Editor:
    """Edits the text of one file by the positions of its members."""

    def __init__(self, root: Located) -> None:
        self._root = root
        self._text = root.source.text
        self._plain_json = _is_json(self._text)

    def edited(self, moves: Sequence[Move]) -> str:
        if not moves:
            return self._text
        gone = {move.node.offset for move in moves}
        # A member that is already at the new place has no value, or it would be the one in force.
        in_own_entry = [move.to for move in moves if move.to is not None and is_own_entry(move.to)]
        gone |= {
            node.offset for to in in_own_entry if (node := descend(self._root, *to)) is not None
        }
        edits = list(self._cuts(self._root, (), gone))
        cut = [(one.start, one.end) for one in edits]
        grown: dict[int, tuple[Located, dict[str, object]]] = {}
        for move in moves:
            if move.to is not None:
                container, depth = self._container(move, cut)
                _, tree = grown.setdefault(container.start, (container, {}))
                _plant(tree, move.to[depth:], self._piece(move.node))
        edits += [self._insertion(container, tree) for container, tree in grown.values()]
        text = self._text
        newline = "\r\n" if "\r\n" in text else "\n"
        for edit in sorted(edits, key=lambda one: (one.start, one.end), reverse=True):
            instead = edit.instead.replace("\r\n", "\n").replace("\n", newline)
            text = text[: edit.start] + instead + text[edit.end :]
        return _without_last_commas(text) if self._plain_json else text

    def _cuts(self, node: Located, at: KeyPath, gone: set[int]) -> Iterator[_Cut]:
        for name, member in members_of(node).items():
            path = (*at, name)
            if isinstance(name, str) and self._vanishes(member, path, gone):
                yield self._cut(member, gone)
            elif isinstance(member.value, dict | list):
                yield from self._cuts(member, path, gone)

    def _vanishes(self, node: Located, at: KeyPath, gone: set[int]) -> bool:
        """Returns whether nothing of a member stays. An object that is not for memory alone stays, even if empty."""
        if node.offset in gone:
            return True
        if not isinstance(node.value, dict) or not node.value or not _is_memorys(at):
            return False
        return all(self._vanishes(m, (*at, n), gone) for n, m in node.value.items())

    def _cut(self, node: Located, gone: set[int]) -> _Cut:
        start = self._above(node) if node.offset in gone else node.offset
        end, _ = self._behind(node)
        kept = "" if node.offset in gone else self._comments_between(node, gone)
        before = self._text.rfind("\n", 0, start) + 1
        if not self._text[before:start].strip():
            after = re.compile(r"[ \t]*\r?\n").match(self._text, end)
            if after and not kept:
                return _Cut(before, after.end())
        return _Cut(start, end, kept)

    def _comments_between(self, node: Located, gone: set[int]) -> str:
        """Returns the comments inside a vanishing object that move with none of its members."""
        moving = [
            (self._above(one), self._behind(one)[0])
            for one in _descendants(node)
            if one.offset in gone
        ]
        kept = [
            match.group()
            for match in LEXEME.finditer(self._text, node.offset, node.end)
            if match.group().startswith(("//", "/*"))
            and not any(start <= match.start() < end for start, end in moving)
        ]
        lines = [f"{one}\n{self._indent_of(node)}" for one in kept]
        return "".join(lines)

    def _above(self, node: Located) -> int:
        """Returns where the comments in the lines above a member begin."""
        region = self._gap_before(node.offset)
        text = self._text[region : node.offset]
        newline = text.find("\n")
        if newline < 0:
            return region if not text.strip() else node.offset
        first = region + newline + 1
        # Blank lines without a comment do not belong to the member.
        return first if text[newline:].strip() else self._line_start(node.offset)

    def _line_start(self, offset: int) -> int:
        start = self._text.rfind("\n", 0, offset) + 1
        return start if not self._text[start:offset].strip() else offset

    def _gap_before(self, offset: int) -> int:
        """Returns the end of the separator before a member; between them are only blanks and comments."""
        last = 0
        for match in LEXEME.finditer(self._text, 0, offset):
            if not match.group().startswith(("//", "/*")):
                last = match.end()
        return last

    def _behind(self, node: Located) -> tuple[int, str]:
        """Returns the position after a member, its comma and the comment on its last line; and that comment."""
        end, comma = node.end, False
        for match in LEXEME.finditer(self._text, node.end):
            lexeme = match.group()
            if lexeme.startswith(("//", "/*")):
                continue
            comma = lexeme == ","
            break
        if comma:
            end = match.end()
        between = self._text[node.end : end].rstrip(",").strip()
        rest = _REST_OF_LINE.match(self._text, end)
        if rest is None:
            return end, between
        comment = (rest.group(1) or "").strip()
        return rest.end() if comment else end, "\n".join(one for one in (between, comment) if one)

    def _indent_of(self, node: Located) -> str:
        start = self._text.rfind("\n", 0, node.offset) + 1
        return re.match(r"[ \t]*", self._text[start:])[0]  # type: ignore[index]

    def _piece(self, node: Located) -> _Piece:
        above = self._text[self._above(node) : node.offset].strip()
        value = self._text[node.start : node.end]
        if "\\\n" not in value and "\\\r" not in value:  # a string over several lines
            old = self._indent_of(node)
            value = "\n".join(line.removeprefix(old) for line in value.split("\n"))
            above = "\n".join(line.strip() for line in above.split("\n"))
        return _Piece(above, value, self._behind(node)[1])

    def _container(self, move: Move, cut: Sequence[tuple[int, int]]) -> tuple[Located, int]:
        """Returns the deepest object on the way to the target that stays, and its depth."""
        assert move.to is not None
        node, depth = self._root, 0
        for name in move.to[:-1]:
            below = self._step(node, name, move)
            if below is None or any(start <= below.offset < end for start, end in cut):
                break
            node, depth = below, depth + 1
            if not isinstance(node.value, dict | list):
                what = f"{render_path(move.to[:depth])} is no object, so nothing can move there"
                raise ConfigInvalidError(
                    [_problem(_Found(move.to[:depth], node, None), what)],
                    remedy="Correct it first.",
                )
        return node, depth

    def _step(self, node: Located, name: str | int, move: Move) -> Located | None:
        if isinstance(name, int):
            # With includes the number counts other items, too: take the one that contains the member.
            items = node.value if isinstance(node.value, list) else []
            return next((i for i in items if i.offset <= move.node.offset < i.end), None)
        return descend(node, name)

    def _insertion(self, container: Located, tree: dict[str, object]) -> _Cut:
        position = container.start + 1
        line = _NEXT_LINE.match(self._text, position)
        indent = self._indent_of(container) + _INDENT
        lines = "\n".join(self._lines(tree, indent))
        if line:
            return _Cut(line.end(), line.end(), f"{lines}\n")
        return _Cut(position, position, f"\n{lines}\n{indent}")

    def _lines(self, tree: Mapping[str, Any], indent: str) -> Iterator[str]:
        for name, value in tree.items():
            key = self._name(name)
            if not isinstance(value, _Piece):
                yield f"{indent}{key}: {{"
                yield from self._lines(value, indent + _INDENT)
                yield f"{indent}}},"
                continue
            if value.above:
                yield from (f"{indent}{line}" for line in value.above.split("\n"))
            text = value.value
            if "\\\n" not in text:
                text = text.replace("\n", f"\n{indent}")
            behind = f" {value.behind}".replace("\n", f"\n{indent}") if value.behind else ""
            yield f"{indent}{key}: {text},{behind}"

    def _name(self, name: str) -> str:
        simple = re.fullmatch(r"[A-Za-z_$][\w$]*", name, re.ASCII)
        return name if simple and not self._plain_json else json.dumps(name)


def _is_memorys(at: KeyPath) -> bool:
    if at[:1] == ("memory",):
        return len(at) > 1
    return search_place(at) is not None or at[:3] == ("agents", "defaults", "compaction")


def _descendants(node: Located) -> Iterator[Located]:
    for member in members_of(node).values():
        yield member
        yield from _descendants(member)


def _plant(tree: dict[str, Any], path: KeyPath, piece: _Piece) -> None:
    *outer, name = map(str, path)
    for part in outer:
        tree = tree.setdefault(part, {})
    tree[name] = piece


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _without_last_commas(text: str) -> str:
    """Returns JSON without the commas that only JSON5 allows; the text has no comments."""
    commas: list[int] = []
    last = None
    for match in LEXEME.finditer(text):
        if match.group() in "}]" and last is not None and last.group() == ",":
            commas.append(last.start())
        last = match
    for comma in reversed(commas):
        text = text[:comma] + text[comma + 1 :]
    return text
