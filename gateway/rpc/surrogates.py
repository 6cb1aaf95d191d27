r"""Replaces lone surrogates, which JSON can spell (`\ud83d`) and UTF-8 cannot carry. Pure.

A client that cuts a text in the middle of an emoji sends one; a path that is not UTF-8 yields one.
Neither should cost the request, so both directions get U+FFFD, the replacement character, instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_HIGH = frozenset({b"d8", b"d9", b"da", b"db"})
_LOW = frozenset({b"dc", b"dd", b"de", b"df"})
MOST_ESCAPES = 20_000
"""In one line that is repaired; the event loop waits for that."""


def replace_lone_escapes(line: bytes) -> bytes:
    """Rewrite the lone surrogate escapes of a JSON text; pairs stay.

    Linear in its length. A text with more than `MOST_ESCAPES` escapes of any kind stays as it is.
    """
    if line.count(b"\\") > MOST_ESCAPES:
        return line
    pieces: list[bytes] = []
    copied = 0
    for lone in _lone(line):
        pieces += (line[copied : lone.start()], rb"\ufffd")
        copied = lone.end()
    return b"".join((*pieces, line[copied:]))


def _lone(line: bytes) -> Iterator[re.Match[bytes]]:
    high: re.Match[bytes] | None = None
    for escape in _ESCAPE.finditer(line):
        kind = escape[0][2:4].lower()
        if high is not None and kind in _LOW and escape.start() == high.end():
            high = None
            continue
        if high is not None:
            yield high
        high = escape if kind in _HIGH else None
        if kind in _LOW:
            yield escape
    if high is not None:
        yield high


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
