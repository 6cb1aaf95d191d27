"""`${NAME}` inside configuration values, as the chat gateway substitutes it.

Only upper-case names count, `$${NAME}` stands for a literal `${NAME}`, anything else stays as it is,
and a variable that is set but blank counts as missing. What a missing one means is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

_REFERENCE = r"(\$?)\$\{([A-Z_][A-Z0-9_]*)\}"


class Substituted(msgspec.Struct, frozen=True):
    text: str
    used: tuple[str, ...] = ()
    """Names of the variables that were filled in."""
    missing: tuple[str, ...] = ()
    """Names that were not set; their references stay in `text`."""


def substitute(text: str, environment: Mapping[str, str]) -> Substituted:
    """The text with every reference filled in from `environment`, in one pass."""
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
