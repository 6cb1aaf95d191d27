"""Kinds of single values: what is allowed for a key, and how a value from a file becomes ours.

Owns the checks, clamps and conversions that need nothing but the value itself. A kind never raises:
it reports to the `Reading` and answers `UNSET`, so that the default applies and reading goes on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from config.durations import format_duration, parse_duration
from config.paths import Directories
from config.source.located import KeyPath, Located, quote, type_words, value_words
from config.source.reading import Reading
from config.source.substitute import substitute

MAX_SAFE_INTEGER = 2**53 - 1
"""Beyond it the chat gateway's own reader no longer tells neighbouring whole numbers apart."""
MAX_TIMER_MS = 2**31 - 1
"""About 24.8 days: the chat gateway's timers overflow above it, so longer waits are cut to it."""


class Kind(msgspec.Struct, frozen=True):
    """What a key may hold. `read` checks one value; `settle` finishes it once paths are known."""

    @property
    def allowed(self) -> str:
        """For messages and the reference: "a whole number of at least 1"."""
        raise NotImplementedError

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        """The value, or `UNSET` after a problem or where the documentation makes it no value."""
        raise NotImplementedError

    def settle(self, value: Any, dirs: Directories) -> Any:  # noqa: ARG002 - for kinds of paths
        """The value as it stands in the settings."""
        return value

    def render(self, value: Any) -> Any:
        """The settings' value as one would write it in the file."""
        return value

    def mismatch(self, node: Located, at: KeyPath, reading: Reading, found: str) -> Any:
        reading.problem(at, node, f"found {found}, allowed is {self.allowed}")
        return UNSET


class Flag(Kind, frozen=True):
    @property
    def allowed(self) -> str:
        return "true or false"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        if isinstance(node.value, bool):
            return node.value
        return self.mismatch(node, at, reading, value_words(node.value))


class Whole(Kind, frozen=True):
    """A whole number; `6.0` is one. Outside `minimum` is a problem, above `ceiling` is cut."""

    minimum: int = 0
    ceiling: int | None = None
    unit: str | None = None
    floors: bool = False
    """Whether a fraction is documented to be cut off; otherwise it is a problem."""
    zero: Literal["number", "default", "none"] = "number"
    """What 0 means: itself, the default (with a warning), or that there is no value."""

    @property
    def allowed(self) -> str:
        unit = f" of {self.unit}" if self.unit else ""
        return f"a whole number{unit}, at least {self.minimum}"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        number = self._whole(node.value)
        if number is None or number < self.minimum:
            return self.mismatch(node, at, reading, value_words(node.value))
        if number != node.value:
            reading.warn(at, node, f"{value_words(node.value)} is cut to {number}")
        if number == 0 and self.zero == "default":
            reading.warn(at, node, "0 has no meaning here; the default applies")
            return UNSET
        if self.ceiling is not None and number > self.ceiling:
            reading.warn(at, node, f"is above the highest value; {self.ceiling} applies")
            return self.ceiling
        if number > MAX_SAFE_INTEGER:
            return self.mismatch(node, at, reading, "a number that is too large")
        return number

    def settle(self, value: Any, dirs: Directories) -> Any:  # noqa: ARG002 - as every kind
        return None if value == 0 and self.zero == "none" else value

    def _whole(self, value: object) -> int | None:
        if isinstance(value, float) and math.isfinite(value):
            return math.floor(value) if self.floors or value.is_integer() else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None


class Real(Kind, frozen=True):
    """A finite number. Outside the range it is cut where `clamps`, else a problem."""

    minimum: float
    maximum: float = math.inf
    clamps: bool = False
    unit: str | None = None

    @property
    def allowed(self) -> str:
        unit = f" of {self.unit}" if self.unit else ""
        upper = f" and at most {self.maximum:g}" if math.isfinite(self.maximum) else ""
        return f"a number{unit}, at least {self.minimum:g}{upper}"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            return self.mismatch(node, at, reading, value_words(value))
        inside = min(max(float(value), self.minimum), self.maximum)
        if inside == value:
            return inside
        if not self.clamps:
            return self.mismatch(node, at, reading, value_words(value))
        reading.warn(at, node, f"{value_words(value)} is out of range; {inside:g} applies")
        return inside


def _finite(value: float) -> bool:
    return abs(value) <= MAX_SAFE_INTEGER


class Text(Kind, frozen=True):
    """A string, `${NAME}` filled in and outer blanks removed; a blank one is no value."""

    @property
    def allowed(self) -> str:
        return "a string"

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
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
        return filled.text.strip() or UNSET


class Choice(Text, frozen=True):
    """One of a few words."""

    values: tuple[str, ...]
    hints: Mapping[str, str] = {}
    """What to write instead of words that are known elsewhere but mean nothing here."""

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(quote(value) for value in self.values)

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        text = Text.read(self, node, at, reading)
        if text is UNSET or text in self.values:
            return text
        from config.secrets import redact  # noqa: PLC0415 - only for a message

        hint = self.hints.get(text)
        # The text as written: what a variable holds is nobody else's business.
        found = redact(quote(node.value)) + (f" ({hint})" if hint else "")
        return self.mismatch(node, at, reading, found)


class Duration(Kind, frozen=True):
    """A duration string or a number of minutes, in milliseconds; unreadable means the default."""

    @property
    def allowed(self) -> str:
        return 'a duration such as "5m" or "90s"; without a unit, minutes'

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        value = node.value
        if isinstance(value, str):
            value = Text().read(node, at, reading)
            milliseconds = _parsed(value) if value is not UNSET else UNSET
        elif isinstance(value, int | float) and not isinstance(value, bool):
            milliseconds = round(value * 60_000) if _finite(value) and value >= 0 else None
        else:
            return self.mismatch(node, at, reading, type_words(value))
        if milliseconds is None:
            found = value_words(node.value)
            reading.warn(at, node, f"found {found}, allowed is {self.allowed}; the default applies")
            return UNSET
        return UNSET if milliseconds is UNSET else self._cut(milliseconds, node, at, reading)

    def _cut(self, milliseconds: int, node: Located, at: KeyPath, reading: Reading) -> int:
        if milliseconds > MAX_TIMER_MS:
            reading.warn(at, node, "is longer than a timer can run; about 24.8 days apply")
        return min(milliseconds, MAX_TIMER_MS)

    def render(self, value: Any) -> Any:
        return format_duration(value)


def _parsed(text: str) -> int | None:
    try:
        return parse_duration(text, "m")
    except ValueError:
        return None


class ByteSize(Kind, frozen=True):
    """A number of bytes, or a string such as `2mb` (units of 1024); unreadable means the default."""

    @property
    def allowed(self) -> str:
        return 'a number of bytes, or a size such as "512kb" or "2mb"'

    def read(self, node: Located, at: KeyPath, reading: Reading) -> Any:
        value = node.value
        if isinstance(value, str):
            value = Text().read(node, at, reading)
            size = _bytes(value) if value is not UNSET else UNSET
        elif isinstance(value, int | float) and not isinstance(value, bool):
            size = math.floor(value) if _finite(value) and value >= 0 else None
        else:
            return self.mismatch(node, at, reading, type_words(value))
        if size is None or (size is not UNSET and size > MAX_SAFE_INTEGER):
            return self.mismatch(node, at, reading, value_words(node.value))
        return size


_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kmgt]?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def _bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    return round(float(match[1]) * 1024 ** _POWERS[match[2].lower()]) if match else None
