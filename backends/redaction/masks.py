"""What stands in the place of a secret. Pure."""

from __future__ import annotations

import re
from typing import Final

SHORT: Final = "***"
_LEAST_SHOWN: Final = 18
_HEAD: Final = 6
_TAIL: Final = 4
_MASKED: Final = re.compile(rf"[*]+|.{{{_HEAD}}}….{{{_TAIL}}}", re.DOTALL)
MARKER: Final = "…redacted…"
"""Of a block of several lines."""


def mask(secret: str) -> str:
    """As documented: below 18 characters nothing is left, else the first six and the last four."""
    if len(secret) < _LEAST_SHOWN:
        return SHORT
    return f"{secret[:_HEAD]}…{secret[-_TAIL:]}"


def is_masked(text: str) -> bool:
    return _MASKED.fullmatch(text) is not None


def is_mask_at(text: str, start: int) -> bool:
    """Whether the mask of a long secret begins here; its ellipsis is in no pattern of a secret."""
    return text[start + _HEAD : start + _HEAD + 1] == "…"
