"""The environment variables that are read, the credentials among them, and replacing `${NAME}` in values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from config.errors import ConfigInvalidError
from config.runtime.files import SilentFileError, read_file
from config.source.located import Located, SettingOrigin, descend
from config.vendors import KEY_VARIABLES

MAX_DOTENV_BYTES = 1024 * 1024
"""A longer file is an error: cut off, it would silently lack keys."""


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


class Variables(msgspec.Struct, frozen=True):
    """The environment for reading one agent's settings."""

    values: Mapping[str, str]
    added: Mapping[str, SettingOrigin]
    """Origins of the variables that the process itself does not have."""

    def origin(self, name: str) -> SettingOrigin:
        return self.added.get(name) or SettingOrigin(kind="environment", detail=name)

    def keys(self) -> dict[str, Secret]:
        """Returns the API keys among the variables, by name, without white space."""
        found = {name: self.values.get(name, "").strip() for name in KEY_VARIABLES}
        return {name: Secret("".join(text.split())) for name, text in found.items() if text}


class AnyVariable(dict[str, str]):
    """An environment in which every variable is set: a file may name some that are set only where the gateway runs."""

    def get(self, key: str, _default: object = None) -> Any:
        return super().get(key, "").strip() or "variable"


def gather_variables(process: Mapping[str, str], state: Path, root: Located | None) -> Variables:
    """Returns the process's variables and those of other places. A blank variable counts as not set.

    Raises ConfigInvalidError for a file that is too large or a pipe that does not deliver.
    """
    values, added = dict(process), dict[str, SettingOrigin]()
    places = (_from_credentials(process), _from_file(state / ".env"), _from_block(root))
    for name, value, origin in chain.from_iterable(places):
        if not values.get(name, "").strip() and value.strip():
            values[name] = value
            added[name] = origin
    return Variables(values, added)


def parse_dotenv(text: str) -> dict[str, str]:
    """Reads `NAME=value` lines, with `export`, quotes and comments allowed. Other lines are skipped."""
    assignments = (_assignment(line.strip()) for line in text.splitlines())
    return dict(assignment for assignment in assignments if assignment)


_QUOTED = re.compile(r"""((["'])(?:\\\2|(?!\2).)*\2)[ \t]*(?:#.*)?""")
"""A value in quotation marks, with a comment after it that may contain further ones."""


def _assignment(line: str) -> tuple[str, str] | None:
    name, equals, value = line.removeprefix("export ").partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not _is_name(name):
        return None
    if quoted := _QUOTED.fullmatch(value):
        value = quoted[1]
    end = value.rfind(value[0], 1) if value[:1] in ("'", '"') else -1
    if end > 0:
        return name, value[1:end].replace("\\n", "\n") if value[0] == '"' else value[1:end]
    return name, "" if value.startswith("#") else value.partition(" #")[0].strip()


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier()


def _from_credentials(process: Mapping[str, str]) -> Iterator[tuple[str, str, SettingOrigin]]:
    """Yields systemd credentials, each as the variable of its name; no child process inherits them."""
    directory = process.get("CREDENTIALS_DIRECTORY", "")
    for name in KEY_VARIABLES if directory.startswith("/") else ():
        try:
            data = _read(Path(directory) / name)
        except OSError:
            continue
        value = data.decode("utf-8", errors="replace")
        yield name, value, SettingOrigin(kind="environment", detail=f"the credential {name}")


def _from_file(file: Path) -> Iterator[tuple[str, str, SettingOrigin]]:
    try:
        data = _read(file)
    except OSError:
        return
    text = data.decode("utf-8-sig", errors="replace")
    for name, value in parse_dotenv(text).items():
        yield name, value, SettingOrigin(kind="environment", detail=f"{name} in {file}")


def _read(file: Path) -> bytes:
    """Raises OSError for a file that counts as missing, ConfigInvalidError for one that cannot be used."""
    try:
        data = read_file(file, MAX_DOTENV_BYTES)
    except SilentFileError as error:
        remedy = "Start the program that writes to it, or replace it by a file."
        raise ConfigInvalidError.of(file, f"cannot be read: {error.strerror}", remedy) from None
    if len(data) > MAX_DOTENV_BYTES:
        message = f"is larger than {MAX_DOTENV_BYTES:,} bytes"
        raise ConfigInvalidError.of(file, message, "It should hold only NAME=value lines.")
    return data


def _from_block(root: Located | None) -> Iterator[tuple[str, str, SettingOrigin]]:
    """Yields the variables of the `env` block; those directly in `env` win over those in `env.vars`."""
    for path in (("env",), ("env", "vars")):
        block = descend(root, *path) if root else None
        members = block.value if block and isinstance(block.value, dict) else {}
        for name, node in members.items():
            if isinstance(node.value, str) and _is_name(name):
                detail = f"{'.'.join(path)}.{name}, line {node.line}"
                yield name, node.value, SettingOrigin(kind="file", detail=detail)


_REFERENCE = r"(\$?)\$\{([A-Z_][A-Z0-9_]*)\}"


class Substituted(msgspec.Struct, frozen=True):
    text: str
    used: tuple[str, ...] = ()
    """Names of the variables that were replaced."""
    missing: tuple[str, ...] = ()
    """Names of variables that are not set; their references stay in `text`."""


def substitute(text: str, environment: Mapping[str, str]) -> Substituted:
    """Returns the text with every reference replaced from `environment`, in one pass."""
    used: list[str] = []
    missing: list[str] = []

    def fill(match: re.Match[str]) -> str:
        name = match.group(2)
        if match.group(1):
            return match.group()[1:]
        value = environment.get(name, "")
        found = bool(value.strip())
        (used if found else missing).append(name)
        return value if found else match.group()

    filled = re.sub(_REFERENCE, fill, text) if "$" in text else text
    return Substituted(filled, tuple(used), tuple(missing))
