"""The kinds of values: flags, numbers, durations, words, paths, addresses, model references, credentials.

A kind never raises: it reports to the `Reading` and returns `UNSET`, so that the default applies and reading goes on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeGuard, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from config.paths import AGENT_PLACEHOLDER, Directories
from config.source.environment import Secret, substitute
from config.source.located import KeyPath, Located, Reading, descend, quote, type_words, value_words

ValueT = TypeVar("ValueT")

DurationUnit = Literal["ms", "s", "m", "h", "d"]

MILLISECONDS: dict[str, int] = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_PATTERN = r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?"
_MAX_LENGTH = 64


def parse_duration(text: str, default_unit: DurationUnit) -> int:
    """Returns whole milliseconds, rounded half up. Case and outer blanks do not matter.

    Raises `ValueError` for anything that is not a duration.
    """
    match = re.fullmatch(_PATTERN, text.strip().lower()) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(f"not a duration: {text[:_MAX_LENGTH]!r}")
    whole, _, decimals = match.group(1).partition(".")
    scale: int = 10 ** len(decimals)
    scaled = int(whole + decimals) * MILLISECONDS[match.group(2) or default_unit]
    return (2 * scaled + scale) // (2 * scale)


def format_duration(milliseconds: int) -> str:
    """Returns the shortest duration string of that length: `300000` is `"5m"`, `1500` is `"1500ms"`."""
    for unit in ("d", "h", "m", "s"):
        if milliseconds and milliseconds % MILLISECONDS[unit] == 0:
            return f"{milliseconds // MILLISECONDS[unit]}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0"


MAX_SAFE_INTEGER = 2**53 - 1
"""Above it the chat gateway's own reader no longer distinguishes neighbouring whole numbers."""
MAX_TIMER_MS = 2**31 - 1
"""About 24.8 days. The chat gateway's timers overflow above it, so longer waits are shortened to it."""


class Kind(msgspec.Struct, Generic[ValueT], frozen=True):
    """The kind of values that a key may have. `read` checks one value; `settle` turns it into the type of the setting
    once paths are known.
    """

    @property
    def allowed(self) -> str:
        """The allowed values, for messages and the reference: "a whole number of at least 1"."""
        raise NotImplementedError

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        """Returns the value, or `UNSET` after a problem and for a value that means none."""
        raise NotImplementedError

    def settle(self, value: object, dirs: Directories) -> Any:  # noqa: ARG002 - for kinds of paths
        """Returns the value as it is in the settings."""
        return value

    def render(self, value: ValueT | None) -> object:
        """Returns the value of the settings as it would be written in the file."""
        return value

    def mismatch(self, node: Located, at: KeyPath, reading: Reading, found: str) -> UnsetType:
        reading.problem(at, node, f"found {found}, allowed is {self.allowed}")
        return UNSET


class Flag(Kind[bool], frozen=True):
    allowed: ClassVar[str] = "true or false"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        if isinstance(node.value, bool):
            return node.value
        return self.mismatch(node, at, reading, value_words(node.value))


class Whole(Kind[int], frozen=True):
    """A whole number; `6.0` is one. One below `minimum` is a problem, one above `ceiling` is lowered to it."""

    minimum: int = 0
    ceiling: int | None = None
    unit: str | None = None
    floors: bool = False
    """True if a fraction is dropped, as documented; otherwise it is a problem."""
    zero: Literal["number", "default", "none"] = "number"
    """The meaning of 0: itself, the default (with a warning), or that there is no value."""

    @property
    def allowed(self) -> str:
        unit = f" of {self.unit}" if self.unit else ""
        return f"a whole number{unit}, at least {self.minimum}"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        number = self._whole(node.value)
        if number is None or number < self.minimum:
            return self.mismatch(node, at, reading, value_words(node.value))
        if number != node.value:
            reading.warn(at, node, f"{value_words(node.value)} is rounded down to {number}")
        if number == 0 and self.zero == "default":
            reading.warn(at, node, "0 has no meaning here, so the default applies")
            return UNSET
        if self.ceiling is not None and number > self.ceiling:
            reading.warn(
                at, node, f"is above the highest value, {self.ceiling}, which is used instead"
            )
            return self.ceiling
        if number > MAX_SAFE_INTEGER:
            return self.mismatch(node, at, reading, "a number that is too large")
        return number

    def settle(self, value: object, dirs: Directories) -> object:  # noqa: ARG002 - as every kind
        return None if value == 0 and self.zero == "none" else value

    def _whole(self, value: object) -> int | None:
        if isinstance(value, float) and math.isfinite(value):
            return math.floor(value) if self.floors or value.is_integer() else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None


class Real(Kind[float], frozen=True):
    """A finite number. One out of range is moved to the nearest bound if `clamps`, else it is a problem."""

    minimum: float
    maximum: float = math.inf
    clamps: bool = False
    unit: str | None = None

    @property
    def allowed(self) -> str:
        unit = f" of {self.unit}" if self.unit else ""
        upper = f" and at most {self.maximum:g}" if math.isfinite(self.maximum) else ""
        return f"a number{unit}, at least {self.minimum:g}{upper}"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            return self.mismatch(node, at, reading, value_words(value))
        inside = min(max(float(value), self.minimum), self.maximum)
        if inside == value:
            return inside
        if not self.clamps:
            return self.mismatch(node, at, reading, value_words(value))
        reading.warn(at, node, f"{value_words(value)} is out of range; {inside:g} is used instead")
        return inside


def _finite(value: float) -> bool:
    return abs(value) <= MAX_SAFE_INTEGER


class TextKind(Kind[ValueT], Generic[ValueT], frozen=True):
    """A string, with `${NAME}` replaced and outer blanks removed; a blank one counts as no value."""

    @property
    def allowed(self) -> str:
        return "a string"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> str | UnsetType:
        if not isinstance(node.value, str):
            return self.mismatch(node, at, reading, type_words(node.value))
        filled = substitute(node.value, reading.environment)
        if filled.missing:
            names = " and ".join(dict.fromkeys(filled.missing))
            reading.problem(at, node, f"refers to {names}, which the environment does not set")
            return UNSET
        if "\0" in filled.text:
            return self.mismatch(node, at, reading, "a string with a NUL character")
        if filled.used:
            reading.variables[at] = filled.used
        text = filled.text.strip()
        return self.check(text, node, at, reading) if text else UNSET

    def check(self, text: str, _node: Located, _at: KeyPath, _reading: Reading) -> str | UnsetType:
        """Returns the value that this text means, or `UNSET` as `read` does."""
        return text


class FreeText(TextKind[str], frozen=True):
    pass


class Name(FreeText, frozen=True):
    """A string that goes into rows or names of a database, which limits its length."""

    most_bytes: int

    @property
    def allowed(self) -> str:
        return f"a string of at most {self.most_bytes} bytes"

    def check(self, text: str, node: Located, at: KeyPath, reading: Reading) -> str | UnsetType:
        if (size := len(text.encode(errors="surrogatepass"))) > self.most_bytes:
            return self.mismatch(node, at, reading, f"one of {size:,} bytes")
        return text


class OneOf(TextKind[ValueT], Generic[ValueT], frozen=True):
    """One of a few words."""

    values: tuple[ValueT, ...]
    hints: Mapping[str, str] = {}
    """Words of other programs that mean nothing here, each with what to write instead."""

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(quote(str(value)) for value in self.values)

    def check(self, text: str, node: Located, at: KeyPath, reading: Reading) -> str | UnsetType:
        if text in self.values:
            return text
        from config.secrets import redact  # noqa: PLC0415 - only for a message

        hint = self.hints.get(text)
        # Quoted as written, so that no content of a variable is shown.
        found = redact(quote(node.value)) + (f" ({hint})" if hint else "")
        return self.mismatch(node, at, reading, found)


class Amount(Kind[int], frozen=True):
    """A number, or a string with a unit."""

    def amount(self, node: Located, at: KeyPath, reading: Reading) -> int | UnsetType | None:
        """Returns the amount, `UNSET` after a problem and for a blank string, None for any other value."""
        value = node.value
        if isinstance(value, str):
            text = FreeText().read(node, at, reading)
            return text if text is UNSET else self.parsed(text)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self.counted(value) if _finite(value) and value >= 0 else None
        return self.mismatch(node, at, reading, type_words(value))

    def parsed(self, text: str) -> int | None:
        raise NotImplementedError

    def counted(self, number: float) -> int:
        raise NotImplementedError


class Duration(Amount, frozen=True):
    """A duration string or a number of minutes, in milliseconds; unreadable means the default."""

    allowed: ClassVar[str] = 'a duration such as "5m" or "90s"; without a unit, minutes'

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        milliseconds = self.amount(node, at, reading)
        if milliseconds is None:
            found = value_words(node.value)
            reading.warn(at, node, f"found {found}, allowed is {self.allowed}; the default applies")
            return UNSET
        if milliseconds is UNSET or milliseconds <= MAX_TIMER_MS:
            return milliseconds
        reading.warn(at, node, "is longer than a timer can run; about 24.8 days are used instead")
        return MAX_TIMER_MS

    def parsed(self, text: str) -> int | None:
        try:
            return parse_duration(text, "m")
        except ValueError:
            return None

    def counted(self, number: float) -> int:
        return round(number * 60_000)

    def render(self, value: Any) -> object:
        return format_duration(value)


class ByteSize(Amount, frozen=True):
    """A number of bytes, or a string such as `2mb` (units of 1024); unreadable means the default."""

    allowed: ClassVar[str] = 'a number of bytes, or a size such as "512kb" or "2mb"'

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        size = self.amount(node, at, reading)
        if size is None or (size is not UNSET and size > MAX_SAFE_INTEGER):
            return self.mismatch(node, at, reading, value_words(node.value))
        return size

    def parsed(self, text: str) -> int | None:
        match = re.fullmatch(_SIZE, text)
        size = float(match[1]) * 1024 ** _POWERS[match[2].lower()] if match else math.inf
        return round(size) if math.isfinite(size) else None

    def counted(self, number: float) -> int:
        return math.floor(number)


_SIZE = r"(?i)(\d+(?:\.\d+)?)([kmgt]?)b?"
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


_URI_PREFIXES = ("hf:", "http://", "https://")


class CommandLine(FreeText, frozen=True):
    """A program with its arguments, split as a shell would split them; no shell is run."""

    allowed: ClassVar[str] = "the name or path of a program, and its arguments if it has any"

    def check(self, text: str, node: Located, at: KeyPath, reading: Reading) -> str | UnsetType:
        import shlex  # noqa: PLC0415 - only when the key is set

        try:
            words = shlex.split(text)
        except ValueError:
            return self.mismatch(node, at, reading, "a string with an open quotation mark")
        return shlex.join(words) if words and words[0] else UNSET

    def settle(self, value: Any, dirs: Directories) -> object:
        if "~/" not in value:
            return value
        import shlex  # noqa: PLC0415 - only when the key is set

        program, *arguments = shlex.split(value)
        if program.startswith("~/"):
            program = str(dirs.resolve(program))
        return shlex.join((program, *arguments))


class WebAddress(FreeText, frozen=True):
    """An http(s) address; a password in it is never shown."""

    checked: bool = True

    allowed: ClassVar[str] = "an address that starts with http:// or https://"

    def check(self, text: str, node: Located, at: KeyPath, reading: Reading) -> str | UnsetType:
        if not self.checked:
            return text
        if not text.lower().startswith(("http://", "https://")):
            return self.mismatch(node, at, reading, "another string")
        fault = address_fault(text)
        if fault is not None:
            # The value is kept: otherwise this address's key would be sent to the default address.
            reading.warn(at, node, f"{fault}, so no request can be sent there")
        return text

    def render(self, value: str | None) -> object:
        if value is None:
            return None
        from config.secrets import redact  # noqa: PLC0415 - only for output

        return redact(value)


def address_fault(text: str) -> str | None:
    """Returns why this is not a plain http(s) address; None if it is one. Never repeats the address."""
    if not text.isprintable() or " " in text:
        return "the address holds a space or a control character"
    from urllib.parse import urlsplit  # noqa: PLC0415 - only when an address is given

    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        return "the address has an unclosed bracket, or its brackets hold no address"
    if "@" in parts.netloc:
        return "the address holds a user name or password"
    if parts.scheme.lower() not in ("http", "https") or not host:
        return "it is not an http or https address"
    if parts.query or parts.fragment:
        return "the address carries a query or fragment"
    try:
        return None if parts.port != 0 else "the address has no valid port"
    except ValueError:
        return "the address has no valid port"


class ProviderId(FreeText, frozen=True):
    """The id of a provider of embeddings, in lower case.

    Every id is accepted here; only the providers know which of them can be used.
    """

    known: tuple[str, ...]
    """The known ids, for messages and the reference."""

    @property
    def allowed(self) -> str:
        known = ", ".join(quote(one) for one in self.known)
        return f"one of {known}, or the id of an entry of models.providers"

    def check(self, text: str, node: Located, at: KeyPath, reading: Reading) -> str | UnsetType:
        if text.lower() not in self.known:
            from config.secrets import redact  # noqa: PLC0415 - only for an id that is not known here

            # Quoted as written, so that no content of a variable is shown.
            if redact(text) != text or not text.isprintable():
                return self.mismatch(node, at, reading, redact(quote(node.value)))
        return text.lower()


class PathText(TextKind[Path], frozen=True):
    """A path; `~` is the home directory, a relative one is taken from `base`."""

    base: Literal["cwd", "workspace"] = "cwd"

    allowed: ClassVar[str] = "a path as a string"

    def settle(self, value: Any, dirs: Directories) -> Path:
        return dirs.resolve(value, dirs.workspace if self.base == "workspace" else dirs.cwd)

    def render(self, value: object) -> object:
        return None if value is None else str(value)


class IndexPath(PathText, frozen=True):
    """A path in which every `{agentId}` stands for the agent."""

    def settle(self, value: Any, dirs: Directories) -> Path:
        return PathText.settle(self, value.replace(AGENT_PLACEHOLDER, dirs.agent_id), dirs)


class ModelPath(FreeText, frozen=True):
    """A model file, or an `hf:` or http(s) URI, which stays as it is."""

    allowed: ClassVar[str] = "a path, an hf: URI or an http(s) URI, as a string"

    def settle(self, value: Any, dirs: Directories) -> object:
        return value if value.startswith(_URI_PREFIXES) else str(dirs.resolve(value))

    def render(self, value: str | None) -> object:
        if value is None or not value.startswith(_URI_PREFIXES):
            return value
        from config.secrets import redact  # noqa: PLC0415 - only for output

        return redact(value)


class TimeZoneName(FreeText, frozen=True):
    """An IANA name; one that this machine does not know is ignored."""

    allowed: ClassVar[str] = 'the name of a time zone, such as "Europe/Vienna"'

    def check(self, text: str, node: Located, at: KeyPath, reading: Reading) -> str | UnsetType:
        import zoneinfo  # noqa: PLC0415 - only when the key is set

        try:
            zoneinfo.ZoneInfo(text)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            reading.warn(
                at, node, f"is ignored: {quote(text)} is not a time zone that this machine knows"
            )
            return UNSET
        return text


class Unresolved(msgspec.Struct, frozen=True):
    """A key that is configured but cannot be read, with the reason."""

    reason: str


class ApiKey(Kind[Secret], frozen=True):
    """A string, `${NAME}` filled in, or a reference `{source: "env", id: "NAME"}`."""

    allowed: ClassVar[str] = 'a string, or {source: "env", id: "NAME"}'

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        if isinstance(node.value, dict):
            return self._reference(node, at, reading)
        if not isinstance(node.value, str):
            return self.mismatch(node, at, reading, type_words(node.value))
        filled = substitute(node.value, reading.environment)
        if filled.missing:
            return _variable_missing(filled.missing[0], node, at, reading)
        if filled.used:
            reading.variables[at] = filled.used
        return self._secret(filled.text, node, at, reading)

    def _secret(self, text: str, node: Located, at: KeyPath, reading: Reading) -> object:
        # Keys are often pasted with a line break.
        text = text.strip()
        if not text.isprintable():
            return self.mismatch(node, at, reading, "a string with control characters")
        return Secret(text) if text else UNSET

    def _reference(self, node: Located, at: KeyPath, reading: Reading) -> object:
        source, name = descend(node, "source"), descend(node, "id")
        if not _is_text(source) or not _is_text(name):
            found = "an object without the strings source and id"
            return self.mismatch(node, at, reading, found)
        if source.value != "env":
            reason = f'refers to a secret in {quote(source.value)}; only "env" is supported'
            return _unresolved(reason, node, at, reading)
        value = reading.environment.get(name.value.strip(), "")
        if not value.strip():
            return _variable_missing(name.value.strip(), node, at, reading)
        reading.variables[at] = (name.value.strip(),)
        return self._secret(value, node, at, reading)

    def render(self, value: object) -> object:
        return None if value is None else "***"


class Headers(Kind[Mapping[str, str]], frozen=True):
    """HTTP headers: a map of names to strings, `${NAME}` filled in."""

    allowed: ClassVar[str] = "an object of strings"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> object:
        if not isinstance(node.value, dict):
            return self.mismatch(node, at, reading, type_words(node.value))
        headers: dict[str, str] = {}
        for name, member in node.value.items():
            value = self._header(name, member, (*at, name), reading)
            if value is not UNSET:
                headers[name] = value
        return headers

    def _header(self, name: str, node: Located, at: KeyPath, reading: Reading) -> str | UnsetType:
        secret = ApiKey().read(node, at, reading) if isinstance(node.value, str | dict) else None
        if secret is None or not name.isprintable() or not name.strip():
            found = (
                "a name that no header can have" if secret is not None else type_words(node.value)
            )
            return self.mismatch(node, at, reading, found)
        return secret.reveal() if isinstance(secret, Secret) else UNSET

    def render(self, value: Any) -> object:
        return dict.fromkeys(value, "***")


def _is_text(node: Located | None) -> TypeGuard[Located]:
    return node is not None and isinstance(node.value, str) and bool(node.value.strip())


def _variable_missing(name: str, node: Located, at: KeyPath, reading: Reading) -> Unresolved:
    reason = f"refers to the environment variable {name}, which is not set"
    return _unresolved(reason, node, at, reading)


def _unresolved(reason: str, node: Located, at: KeyPath, reading: Reading) -> Unresolved:
    reading.warn(at, node, f"{reason}; the key has no value")
    return Unresolved(reason)
