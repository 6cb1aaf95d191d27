"""Kinds made of other kinds, and their values: lists, extra paths, QMD collections, the scope policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Generic, Literal

import msgspec
from msgspec import UNSET, UnsetType

from config.keys.kinds import FreeText, Kind, OneOf, PathText, TextKind, ValueT
from config.keys.tree import Branch, Key, Section, Unknown, build_tree, walk
from config.paths import Directories
from config.runtime.decoding import prepared
from config.source.located import KeyPath, Located, Reading, descend, type_words

ChatType = Literal["direct", "group", "channel", "dm"]


class ExtraPath(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    """Absolute, `~` expanded, lexically normalised; it need not exist."""
    pattern: str | None = None
    exclude: tuple[str, ...] = ()
    """Patterns of files that are left out below it, as in a `.gitignore`."""
    raw: str
    """The path as written in the configuration, for messages."""
    is_optional: bool = False
    """The user did not name it, so nothing is said if it is missing."""


class QmdPath(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    name: str
    pattern: str = "**/*.md"


class ScopeMatch(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    channel: str | None = None
    chat_type: ChatType | None = None
    key_prefix: str | None = None
    raw_key_prefix: str | None = None


class ScopeRule(msgspec.Struct, frozen=True, kw_only=True):
    action: Literal["allow", "deny"]
    match: ScopeMatch = ScopeMatch()


class ScopePolicy(msgspec.Struct, frozen=True, kw_only=True):
    default: Literal["allow", "deny"] = "allow"
    rules: tuple[ScopeRule, ...] = ()


class ListOf(Kind[tuple[ValueT, ...]], Generic[ValueT], frozen=True):
    """A list of values of one kind; a blank or wrong item is left out."""

    item: Kind[ValueT]

    @property
    def allowed(self) -> str:
        return f"a list, each item {self.item.allowed}"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        if not isinstance(node.value, list):
            return self.mismatch(node, at, reading, type_words(node.value))
        read = [
            self.item.read(item, (*at, index), reading) for index, item in enumerate(node.value)
        ]
        return tuple(value for value in read if value is not UNSET)

    def settle(self, value: Any, dirs: Directories) -> object:
        return tuple(dict.fromkeys(self.item.settle(item, dirs) for item in value))

    def render(self, value: Any) -> object:
        return [self.item.render(item) for item in value]


class Record(Kind[ValueT], Generic[ValueT], frozen=True):
    """An object with known members; the value is a dict of their dotted paths."""

    members: tuple[Key, ...]
    unknown: Unknown = "warn"

    @property
    def allowed(self) -> str:
        names = ", ".join(key.path + ("" if key.required else "?") for key in self.members)
        return "{" + names + "}"

    def tree(self) -> Branch:
        return build_tree([Section("", ("",), self.members, self.unknown)])

    def read(self, node: Located, at: KeyPath, reading: Reading) -> dict[str, object] | UnsetType:
        if not isinstance(node.value, dict):
            return self.mismatch(node, at, reading, type_words(node.value))
        return {given.leaf.key.path: given.value for given in walk(self.tree(), node, at, reading)}


_EXTRA_PATH: Record[object] = Record(
    (
        Key("path", PathText(), "A file or directory.", required=True),
        Key("pattern", FreeText(), "Which files below it, as a glob."),
        Key("exclude", ListOf(FreeText()), "What is left out below it, as in a .gitignore."),
    )
)
_QMD_PATH: Record[Any] = Record(
    (
        Key("path", PathText(), "A directory, relative to the workspace.", required=True),
        Key("name", FreeText(), "Name of the collection; custom-<number> without one."),
        Key("pattern", FreeText(), "Which files below it, as a glob."),
    )
)


class _Name(FreeText, frozen=True):
    """A string that may not be blank: a blank condition would silently match every session."""

    allowed: ClassVar[str] = "a string that is not blank"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> str | UnsetType:
        if isinstance(node.value, str) and not node.value.strip():
            return self.mismatch(node, at, reading, "a blank string")
        return TextKind.read(self, node, at, reading)


_ACTION = OneOf(("allow", "deny"))
_CHAT_TYPE = OneOf(("direct", "group", "channel", "dm"))
# A condition that is not understood would widen what a rule allows, so unknown members are refused.
_RULE: Record[object] = Record(
    (
        Key("action", _ACTION, "What the rule does.", required=True),
        Key("match.channel", _Name(), "Channel of the session."),
        Key("match.chatType", _CHAT_TYPE, "Kind of chat; dm is direct."),
        Key("match.keyPrefix", _Name(), "Start of the session key."),
        Key("match.rawKeyPrefix", _Name(), "Start of the session key with its agent part."),
    ),
    unknown="refuse",
)
_SCOPE: Record[object] = Record(
    (
        Key("default", _ACTION, "What holds when no rule matches; allow without it."),
        Key("rules", ListOf(_RULE), "Rules in order; the first that matches wins."),
    ),
    unknown="refuse",
)


class ExtraPathItem(Kind[ExtraPath], frozen=True):
    """A path as a string, or `{path, pattern}` as later releases write it."""

    @property
    def allowed(self) -> str:
        return f"a path as a string, or {_EXTRA_PATH.allowed}"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        if isinstance(node.value, str):
            text = PathText().read(node, at, reading)
            return UNSET if text is UNSET else {"path": text}
        if not isinstance(node.value, dict):
            return self.mismatch(node, at, reading, type_words(node.value))
        record = _EXTRA_PATH.read(node, at, reading)
        return UNSET if record is UNSET or "path" not in record else record

    def settle(self, value: Any, dirs: Directories) -> ExtraPath:
        path = dirs.resolve(value["path"], dirs.workspace)
        return ExtraPath(
            path=path,
            pattern=value.get("pattern"),
            exclude=tuple(value.get("exclude", ())),
            raw=value["path"],
        )

    def render(self, value: Any) -> object:
        path = str(value.path)
        limits: dict[str, object] = {"pattern": value.pattern} if value.pattern else {}
        if value.exclude:
            limits["exclude"] = list(value.exclude)
        return {"path": path, **limits} if limits else path


class ExtraPaths(ListOf[ExtraPath], frozen=True):
    """Extra paths; if a path is listed more than once, the first spelling counts."""

    item: Kind[ExtraPath] = ExtraPathItem()

    def settle(self, value: Any, dirs: Directories) -> tuple[ExtraPath, ...]:
        settled = [self.item.settle(item, dirs) for item in value]
        distinct = {_limits(extra): extra for extra in reversed(settled)}
        return tuple(extra for extra in settled if distinct[_limits(extra)] is extra)


def _limits(extra: ExtraPath) -> tuple[object, ...]:
    """Returns everything that distinguishes an extra path from others: all but its spelling."""
    return extra.path, extra.pattern, extra.exclude


class QmdPaths(ListOf[QmdPath], frozen=True):
    """Directories for QMD; an entry with a blank path is left out."""

    item: Kind[QmdPath] = _QMD_PATH

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        entries = ListOf.read(self, node, at, reading)
        for index, item in enumerate(node.value if isinstance(node.value, list) else ()):
            path = descend(item, "path")
            if path is not None and isinstance(path.value, str) and not path.value.strip():
                reading.warn((*at, index), item, "is left out: its path is blank")
        return entries

    def settle(self, value: Any, dirs: Directories) -> tuple[QmdPath, ...]:
        return tuple(
            QmdPath(
                path=dirs.resolve(entry["path"], dirs.workspace),
                name=entry.get("name", f"custom-{number}"),
                **({"pattern": entry["pattern"]} if "pattern" in entry else {}),
            )
            for number, entry in enumerate(value, start=1)
            if "path" in entry
        )

    def render(self, value: Any) -> Any:
        return [{"path": str(p.path), "name": p.name, "pattern": p.pattern} for p in value]


class Scope(Record[ScopePolicy], frozen=True):
    """The policy on who may search; giving the key at all replaces the whole default policy."""

    members: tuple[Key, ...] = _SCOPE.members
    unknown: Unknown = "refuse"

    def settle(self, value: Any, dirs: Directories) -> ScopePolicy:  # noqa: ARG002 - as every kind
        rules = tuple(_rule(rule) for rule in value.get("rules", ()))
        return ScopePolicy(default=value.get("default", "allow"), rules=rules)

    def render(self, value: Any) -> Any:
        if value is None:
            return None
        return {"default": value.default, "rules": msgspec.to_builtins(list(value.rules))}


def _rule(rule: dict[str, Any]) -> ScopeRule:
    match = {name.removeprefix("match."): value for name, value in rule.items() if name != "action"}
    return ScopeRule(action=rule["action"], match=msgspec.convert(match, prepared(ScopeMatch)))
