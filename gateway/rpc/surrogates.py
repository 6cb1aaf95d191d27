r"""Replaces lone surrogates, which JSON can spell (`\ud83d`) and UTF-8 cannot carry. Pure.

A client that cuts a text in the middle of an emoji sends one; a path that is not UTF-8 yields one.
Neither should cost the request, so both directions get U+FFFD, the replacement character, instead.
"""

from __future__ import annotations

import re
from typing import Any

_SURROGATE = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_RUN = re.compile(rb"(?<!\\)((?:\\\\)*+)((?:" + _SURROGATE + rb")++)")
"""Consecutive surrogate escapes after an even number of backslashes (which escape one another)."""

_PAIR_OR_LONE = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|" + _SURROGATE
)


def replace_lone_escapes(line: bytes) -> bytes:
    """Rewrite the lone surrogate escapes of a JSON text; pairs stay. Linear in its length."""
    return _RUN.sub(lambda run: run[1] + _PAIR_OR_LONE.sub(_keep_pair, run[2]), line)


def _keep_pair(match: re.Match[bytes]) -> bytes:
    return match[1] or rb"\ufffd"


def replace_lone_surrogates(value: Any) -> Any:
    """Return plain data (`dict`, `list`, `str`, ...) with every string fit for UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {
            replace_lone_surrogates(key): replace_lone_surrogates(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [replace_lone_surrogates(item) for item in value]
    return value
