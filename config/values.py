"""Values of settings that are more than a word or a number, and where a value comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NoReturn

import msgspec

Source = Literal["memory", "sessions"]
ChatType = Literal["direct", "group", "channel", "dm"]


class Secret:
    """A credential. `reveal()` is the only way to read it; immutable, compared by value.

    No part of it appears in `repr`, in formatted text, in a rich traceback or table, and encoders
    refuse it, since it is neither a record nor a mapping.
    """

    __slots__ = ("value",)

    value: str

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "value", value)

    def reveal(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.value == other.value

    def __hash__(self) -> int:
        return hash((Secret, self.value))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a secret is immutable: {name}")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not copied into other processes or files")


class ExtraPath(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    """Absolute, `~` expanded, lexically normalised; it need not exist."""
    pattern: str | None = None
    exclude: tuple[str, ...] = ()
    """Patterns of what is left out below it, as in a `.gitignore`."""
    raw: str
    """As written in the configuration, for messages."""
    is_optional: bool = False
    """The user did not name it, so nothing is said if it is missing."""


class QmdPath(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    name: str
    pattern: str = "**/*.md"


class ScopeMatch(msgspec.Struct, frozen=True, kw_only=True):
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


class SettingOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where one effective value came from."""

    kind: Literal["default", "file", "environment", "command-line", "derived"]
    detail: str | None = None
    """For a file its key path and line (`agents.defaults.memorySearch.provider, line 12`)."""


class ConfigWarning(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    """Key path, dotted, as in the file."""
    message: str
    line: int | None = None
    file: str | None = None
