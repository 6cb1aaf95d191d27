"""Duration strings: `"5m"`, `"1.5h"`, `"300ms"`, `"45"`.

Owns the documented grammar: digits with an optional decimal part, then an optional unit of `ms`, `s`,
`m`, `h`, `d`; no sign, no inner blanks, no compound forms. What a missing unit means is the caller's.
"""

from __future__ import annotations

import re
from typing import Literal

DurationUnit = Literal["ms", "s", "m", "h", "d"]

MILLISECONDS: dict[str, int] = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_PATTERN = r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?"
_MAX_LENGTH = 64


def parse_duration(text: str, default_unit: DurationUnit) -> int:
    """Whole milliseconds, rounded half up. Upper and lower case and outer blanks do not matter.

    Raises `ValueError` for anything that is not a duration.
    """
    match = None
    if len(text) <= _MAX_LENGTH:
        match = re.fullmatch(_PATTERN, text.strip().lower())
    if match is None:
        raise ValueError(f"not a duration: {text[:_MAX_LENGTH]!r}")
    whole, _, decimals = match.group(1).partition(".")
    scale: int = 10 ** len(decimals)
    scaled = int(whole + decimals) * MILLISECONDS[match.group(2) or default_unit]
    return (2 * scaled + scale) // (2 * scale)


def format_duration(milliseconds: int) -> str:
    """The shortest duration string of that length: `300000` is `"5m"`, `1500` is `"1500ms"`."""
    for unit in ("d", "h", "m", "s"):
        if milliseconds and milliseconds % MILLISECONDS[unit] == 0:
            return f"{milliseconds // MILLISECONDS[unit]}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0"
