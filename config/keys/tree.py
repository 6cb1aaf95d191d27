"""The tree of known keys, reading a configuration file along it (known, retired and unknown names), and declaring a
setting: its kind, its meaning and its default in one place, as the value of a typed field.

mypy compares the kind and the default with the field's type. The key in a file follows from the field's name and from
the group that the field is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import (
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    dataclass_transform,
    overload,
)

import msgspec
from msgspec import NODEFAULT, UNSET

from config.keys.kinds import Kind
from config.source.located import KeyPath, Located, Reading, type_words

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

ValueT = TypeVar("ValueT")
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
