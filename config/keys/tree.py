"""The tree of known keys, reading a configuration file along it (known, retired and unknown names), and declaring a
setting: its kind, its meaning and its default in one place, as the value of a typed field. At the end, the kinds that
are made of other kinds, or read along a tree of their own.

mypy compares the kind and the default with the field's type. The key in a file follows from the field's name and from
the group that the field is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    dataclass_transform,
    overload,
)

import msgspec
from msgspec import NODEFAULT, UNSET, UnsetType

from config.keys.kinds import FreeText, Kind, OneOf, PathText, TextKind, ValueT
from config.paths import Directories
from config.runtime.decoding import prepared
from config.source.located import KeyPath, Located, Reading, descend, type_words

ANY_NAME = "*"
ANY_ITEM = "[]"

OWN_ENTRY = "plugins.entries.memory-gateway.config"
"""The place of settings that OpenClaw has no key for, in a file that it accepts."""

Unknown = Literal["ignore", "warn", "refuse"]
"""The meaning of an unknown name in an object: a key of another program, a typing error, or too dangerous to skip."""


class Key(msgspec.Struct, frozen=True):
    """One documented key."""

    path: str
    """Dotted, below its section; `*` stands for any name, `[]` for any item of a list."""
    kind: Kind[Any]
    meaning: str
    """One sentence for the reference."""
    field: str = ""
    """Dotted path, below the settings, of the attribute that it fills; empty: none of its own."""
    merge: Literal["replace", "concatenate"] = "replace"
    required: bool = False
    aliases: tuple[str, ...] = ()
    """Other paths in the same section that mean the same; `path` wins."""


class Section(msgspec.Struct, frozen=True):
    """Keys that belong together, and the places where they may be written."""

    name: str
    """Its title."""
    places: tuple[str, ...]
    """Dotted paths. If two of them give a value on the same level, the earlier one wins."""
    keys: tuple[Key, ...]
    unknown: Unknown = "warn"
    retired: tuple[tuple[str, str], ...] = ()
    """Paths that other releases know and that have no effect here, each with the reason why."""
    foreign: tuple[str, ...] = ()
    """Paths that another program reads; they are skipped without a warning."""
    unreadable: Mapping[str, tuple[object, str]] = {}
    """The value of a key that cannot be read, and that value in words, where the default would be unsafe.
    Only for keys whose mistakes are tolerated."""

    prefix: str | None = None
    """The prefix of a key's path in documents, messages and origins; None: the name."""

    def documented(self, path: str) -> str:
        """Returns the one documented spelling of a key's path."""
        prefix = self.name if self.prefix is None else self.prefix
        return f"{prefix}.{path}" if prefix else path


class Leaf(msgspec.Struct, frozen=True):
    section: Section
    key: Key
    rank: tuple[int, int]
    """(number of the place, number of the alias); the place with the lowest rank wins."""


class Retired(msgspec.Struct, frozen=True):
    reason: str


class Foreign(msgspec.Struct, frozen=True):
    """A key of another program."""


class Branch(msgspec.Struct):
    children: dict[str, Child] = msgspec.field(default_factory=dict)
    unknown: Unknown = "ignore"

    def below(self, path: str) -> Branch:
        """Returns the branch at a dotted path. A missing one is created, as strict as its parent."""
        branch = self
        for name in path.split(".") if path else ():
            child = branch.children.get(name)
            if child is None:
                child = branch.children[name] = Branch(unknown=branch.unknown)
            assert isinstance(child, Branch), path
            branch = child
        return branch


Child: TypeAlias = Branch | Leaf | Retired | Foreign


def build_tree(sections: Iterable[Section]) -> Branch:
    """Builds the tree, outer places first, so that objects between outer and inner ones are as strict as the outer."""
    root = Branch()
    places = [
        (place, rank, section) for section in sections for rank, place in enumerate(section.places)
    ]
    for place, place_rank, section in sorted(places, key=lambda one: one[0].count(".")):
        branch = root.below(place)
        branch.unknown = section.unknown
        for path in section.foreign:
            _plant(branch, path, Foreign())
        for path, reason in section.retired:
            _plant(branch, path, Retired(reason))
        for key in section.keys:
            for alias_rank, path in enumerate((key.path, *key.aliases)):
                _plant(branch, path, Leaf(section, key, (place_rank, alias_rank)))
    return root


def _plant(branch: Branch, path: str, child: Leaf | Retired | Foreign) -> None:
    parent, _, name = path.rpartition(".")
    children = branch.below(parent).children
    assert name not in children, path
    children[name] = child


class Given(msgspec.Struct, frozen=True):
    """A valid value that a file gives for a key."""

    leaf: Leaf
    at: KeyPath
    node: Located
    value: Any


def walk(branch: Branch, node: Located, at: KeyPath, reading: Reading) -> Iterator[Given]:
    """Yields every valid value below `node` for a known key; problems are noted in `reading`.

    A `null` counts as no value everywhere.
    """
    if ANY_ITEM in branch.children:
        if not isinstance(node.value, list):
            reading.problem(at, node, f"found {type_words(node.value)}, allowed is a list")
            return
        for index, item in enumerate(node.value):
            yield from _visit(branch.children[ANY_ITEM], item, (*at, index), reading)
        return
    if not isinstance(node.value, dict):
        reading.problem(at, node, f"found {type_words(node.value)}, allowed is an object")
        return
    _check_required(branch, node, at, reading)
    for name, member in node.value.items():
        child = branch.children.get(name) or branch.children.get(ANY_NAME)
        path = (*at, name)
        if child is None:
            _report_unknown(branch, name, member, path, reading)
        else:
            _warn_shadowed(member, path, reading)
            yield from _visit(child, member, path, reading)


def _visit(child: Child, node: Located, at: KeyPath, reading: Reading) -> Iterator[Given]:
    if node.value is None or isinstance(child, Foreign):
        return
    if isinstance(child, Branch):
        yield from walk(child, node, at, reading)
    elif isinstance(child, Retired):
        reading.warn(at, node, f"has no effect here: {child.reason}")
    else:
        forgiven = reading.forgiven
        value = child.key.kind.read(node, at, reading)
        if value is UNSET and reading.forgiven > forgiven:
            value, so = child.section.unreadable.get(child.key.path, (UNSET, ""))
            if so:
                reading.warn(at, node, f"until it is corrected, {so}")
        if value is not UNSET:
            yield Given(child, at, node, value)


def _check_required(branch: Branch, node: Located, at: KeyPath, reading: Reading) -> None:
    for name, child in branch.children.items():
        if isinstance(child, Leaf) and child.key.required:
            member = node.value.get(name)
            if member is None or member.value is None:
                reading.problem(at, node, f"{name} is missing, allowed is {child.key.kind.allowed}")


def _warn_shadowed(node: Located, at: KeyPath, reading: Reading) -> None:
    if node.shadowed is not None:
        line = node.source.position(node.shadowed)[0]
        reading.warn(at, node, f"appears twice; the one in line {line} is ignored")


def _report_unknown(
    branch: Branch, name: str, node: Located, at: KeyPath, reading: Reading
) -> None:
    if branch.unknown == "ignore":
        if meant := _sibling(branch, name, _SLIP):
            reading.warn(at, node, f'is not a known key and is ignored; did you mean "{meant}"?')
        return

    proposal = nearest(branch, name)
    hint = f'; did you mean "{proposal}"?' if proposal else ""
    if branch.unknown == "warn":
        reading.warn(at, node, f"is not a known key and is ignored{hint}")
    else:
        reading.problem(at, node, f"is not a known key here{hint}")


_LIKENESS = 0.6
_SLIP = 0.8
"""Among keys of other programs a name must be nearly the same: one letter missing, or two swapped."""


def nearest(branch: Branch, name: str) -> str | None:
    """Returns a sibling with a similar name, else the same name further down, else None."""
    similar = _sibling(branch, name, _LIKENESS)
    if similar:
        return similar
    return next((path for path in _paths(branch) if path.rpartition(".")[2] == name), None)


def _sibling(branch: Branch, name: str, likeness: float) -> str | None:
    siblings = {
        known.lower(): known
        for known, child in branch.children.items()
        if isinstance(child, Leaf | Branch) and known not in (ANY_ITEM, ANY_NAME)
    }
    import difflib  # noqa: PLC0415 - only for a message

    similar = difflib.get_close_matches(name.lower(), siblings, n=1, cutoff=likeness)
    return siblings[similar[0]] if similar else None


def _paths(branch: Branch, prefix: str = "") -> Iterator[str]:
    for name, child in branch.children.items():
        if isinstance(child, Leaf):
            yield prefix + name
        elif isinstance(child, Branch):
            yield from _paths(child, f"{prefix}{name}.")


# --- Declaring settings ---------------------------------------------------------------------------

GroupT = TypeVar("GroupT", bound="SettingsGroup")


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of one field: a setting if it has a kind, else a group of settings."""

    default: object
    path: str | None = None
    """Dotted, below the path of the field's group; None: the field's name in camel case."""
    section: str | None = None
    """None: the section of the field's group."""
    kind: Kind[object] | None = None
    group: type[SettingsGroup] | None = None
    meaning: str = ""
    merge: Literal["replace", "concatenate"] = "replace"
    aliases: tuple[str, ...] = ()
    """Further paths of the same section."""


class _Options(TypedDict, total=False):
    """The further members of a declaration that a setting may have."""

    path: str
    section: str
    merge: Literal["replace", "concatenate"]
    aliases: tuple[str, ...]


@overload
def setting(
    kind: Kind[ValueT], meaning: str, *, default: None, **options: Unpack[_Options]
) -> ValueT | None: ...


@overload
def setting(
    kind: Kind[ValueT], meaning: str, *, default: ValueT = ..., **options: Unpack[_Options]
) -> ValueT: ...


def setting(
    kind: Kind[Any], meaning: str, *, default: object = NODEFAULT, **options: Unpack[_Options]
) -> object:
    """Declares a field that a file may fill. Without a default it depends on the agent (`loading.build`)."""
    return Declared(kind=kind, meaning=meaning, default=default, **options)


def group(
    settings: type[GroupT],
    *,
    default: GroupT | None = None,
    path: str | None = None,
    section: str | None = None,
) -> Any:
    """Declares a field that contains further settings."""
    given = NODEFAULT if default is None else default
    return Declared(group=settings, default=given, path=path, section=section)


class _GroupMeta(msgspec.StructMeta):
    """Keeps the declarations of the fields, and gives each field its default."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Any:
        declared = {
            field: value for field, value in namespace.items() if isinstance(value, Declared)
        }
        kept = {field: value for field, value in namespace.items() if field not in declared}
        kept |= {f: one.default for f, one in declared.items() if one.default is not NODEFAULT}
        made: Any = super().__new__(
            cls, name, bases, kept, **{"frozen": True, "kw_only": True, **options}
        )
        made.declared = declared
        return made


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field, setting, group)
)
class SettingsGroup(msgspec.Struct, frozen=True, metaclass=_GroupMeta):
    """Settings that belong together: immutable, filled by name."""

    declared: ClassVar[Mapping[str, Declared]]


def keys_of(
    settings: type[SettingsGroup], section: str = "", path: str = "", field: str = ""
) -> Iterator[tuple[str, Key]]:
    """Yields every key that is declared in a group or below it, with the name of its section."""
    for name, one in settings.declared.items():
        own = camel_case(name) if one.path is None else one.path
        inside = one.section or section
        below = own if one.section else ".".join(filter(None, (path, own)))
        attribute = f"{field}.{name}" if field else name
        if one.group is not None:
            yield from keys_of(one.group, inside, below, attribute)
        elif one.kind is not None:
            yield (
                inside,
                Key(below, one.kind, one.meaning, attribute, one.merge, aliases=one.aliases),
            )


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


# --- Lists and records: extra paths, the collections of QMD, the scope policy ---------------------

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
