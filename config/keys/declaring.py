"""The declaring of a setting: its kind, its meaning and its default in one place, as the value of a typed field.

mypy compares the kind and the default with the field's type. The key in a file follows from the field's name and from
the group that the field is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import (
    Any,
    ClassVar,
    Literal,
    TypedDict,
    TypeVar,
    Unpack,
    dataclass_transform,
    overload,
)

import msgspec
from msgspec import NODEFAULT

from config.keys.kinds import Kind
from config.keys.tree import Key

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
