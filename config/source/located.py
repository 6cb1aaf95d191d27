"""Values with the places they come from, and what reading a configuration collects: problems, warnings, variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from config.errors import ConfigInvalidError, ConfigProblem

KeyPath = tuple[str | int, ...]
"""Member names and list indexes from the top of the file: `("agents", "list", 0, "id")`."""

_MAX_SHOWN = 60


class SourceText(msgspec.Struct, frozen=True):
    """The decoded text of one file."""

    path: Path
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Returns line and column of a character, both counted from 1; LF, CRLF and CR end a line."""
        before = self.text[:offset]
        breaks = before.count("\n") + before.count("\r") - before.count("\r\n")
        return breaks + 1, offset - max(before.rfind("\n"), before.rfind("\r"))


class Located(msgspec.Struct, frozen=True):
    """One value. Objects hold `dict[str, Located]`, arrays `list[Located]`, the rest scalars."""

    value: Any
    source: SourceText
    offset: int
    """The start of its key; for list items and the top value, the start of the value."""
    start: int = 0
    """The start of the value in the text of its file."""
    end: int = 0
    """The position after the value."""
    shadowed: int | None = None
    """Offset of an earlier member of the same name, which is ignored."""

    @property
    def line(self) -> int:
        return self.source.position(self.offset)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.offset)[1]


class SettingOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of one effective value."""

    kind: Literal["default", "file", "environment", "command-line", "derived"]
    detail: str | None = None
    """For a file its key path and line (`agents.defaults.memorySearch.provider, line 12`)."""


def members_of(node: Located) -> dict[str | int, Located]:
    """Returns the members of an object by name, or the items of a list by index; of other values none."""
    if isinstance(node.value, list):
        return dict(enumerate(node.value))
    return node.value if isinstance(node.value, dict) else {}


def descend(node: Located, *names: str | int) -> Located | None:
    """Returns the member that `names` lead to from `node`, or None if there is none."""
    found: Located | None = node
    for name in names:
        found = members_of(found).get(name) if found is not None else None
    return found


def render_path(path: KeyPath) -> str:
    """Returns `agents.list[0].id`; names that are no identifiers are quoted: `providers["my.host"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("-", "_").isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{quote(part)}]"
    return text


def quote(text: str) -> str:
    """Returns the string in double quotes, shortened, control characters escaped."""
    shown = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown) + '"'


def type_words(value: object) -> str:
    """Returns the kind of a JSON value in words, never the value itself."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    words = {dict: "an object", list: "a list", str: "a string", int: "a number", float: "a number"}
    return words[type(value)]


def value_words(value: object) -> str:
    """Returns the value in words for messages. Not for keys whose value may be a secret."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number_words(value)
    return type_words(value)


def _number_words(number: float) -> str:
    if isinstance(number, int):
        return str(number) if abs(number) < 10**20 else "a number with more than 20 digits"
    if math.isfinite(number):
        return f"{number:.10g}"
    return "NaN" if math.isnan(number) else f"{'-' if number < 0 else ''}Infinity"


OWN_PROVIDERS = ("openai", "google", "gemini", "voyage")
"""Entries of `models.providers` that may be used without being named; in others a mistake counts only if named."""


def is_foreign(at: KeyPath, named: Iterable[str]) -> bool:
    """Returns whether the path belongs to a model provider that memory does not use."""
    is_provider = at[:2] == ("models", "providers") and len(at) > 2
    return is_provider and str(at[2]).lower() not in (*OWN_PROVIDERS, *named)


class ConfigWarning(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    """Key path, dotted, as in the file."""
    message: str
    line: int | None = None
    file: str | None = None


class Remark(msgspec.Struct, frozen=True):
    """A warning together with its path in parts, so that it can be assigned to an agent."""

    at: KeyPath
    warning: ConfigWarning


class Reading:
    """Collects problems and warnings; raises only in `raise_problems`, at the end."""

    def __init__(
        self,
        environment: Mapping[str, str],
        file: Path | None = None,
        tolerates: Callable[[KeyPath], bool] = lambda _at: False,
    ) -> None:
        """`tolerates` returns whether a problem at a path is only a warning."""
        self.environment = environment
        """The variables for `${NAME}` and for secrets that refer to one."""
        self.file = file
        """The file that is read; parts may come from files that it includes."""
        self._tolerates = tolerates
        self.problems: list[ConfigProblem] = []
        self.remarks: list[Remark] = []
        self.forgiven = 0
        """The number of problems that were tolerated and became warnings."""
        self.variables: dict[KeyPath, tuple[str, ...]] = {}
        """Names of the variables that were used for the value at a path."""

    def problem(self, at: KeyPath, node: Located, message: str) -> None:
        """Notes a value that cannot be used. If that is tolerated, it is ignored with a warning."""
        if self._tolerates(at):
            self.forgiven += 1
            self.warn(at, node, f"{message}; it is ignored")
            return
        place = ConfigProblem(
            message=message,
            file=str(node.source.path),
            line=node.line,
            column=node.column,
            path=render_path(at),
        )
        self.problems.append(place)

    def warn(self, at: KeyPath, node: Located | None, message: str) -> None:
        line, file = (node.line, str(node.source.path)) if node else (None, None)
        warning = ConfigWarning(path=render_path(at), message=message, line=line, file=file)
        self.remarks.append(Remark(at, warning))

    def place(self, at: KeyPath, node: Located) -> str:
        """Returns `agents.list[0].workspace, line 7`, with the name of an included file."""
        other = f" of {node.source.path.name}" if node.source.path != self.file else ""
        return f"{render_path(at)}, line {node.line}{other}"

    def raise_problems(self) -> None:
        """Raises `ConfigInvalidError` with every problem so far, if there is any."""
        if self.problems:
            remedy = "Correct these values, or remove them to get the defaults."
            raise ConfigInvalidError(self.problems, remedy=remedy)

    def warnings(
        self, *, except_below: Sequence[KeyPath], providers: Sequence[str]
    ) -> tuple[ConfigWarning, ...]:
        """Returns the warnings so far, without those about other agents and other providers than these."""
        return tuple(
            remark.warning
            for remark in self.remarks
            if not any(remark.at[: len(place)] == place for place in except_below)
            and not is_foreign(remark.at, providers)
        )
