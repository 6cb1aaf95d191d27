"""Keeping the user's own texts out of error messages: hosts like to repeat what they refused.

Pure. Memory is private, and errors end up in logs and tool results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_WINDOW = 16
"""So many characters in common with a sent text are no coincidence."""
_NOT_TEXTS = frozenset({"model", "taskType", "input_type", "encoding_format"})


def without_echo(message: str, request: bytes) -> str:
    """The message up to where it begins to repeat a text of the request's JSON body."""
    try:
        sent = "\n".join(_strings(msgspec.json.decode(request)))
    except (msgspec.DecodeError, RecursionError):
        return message
    for at in range(len(message) - _WINDOW + 1):
        if message[at : at + _WINDOW] in sent:
            return f"{message[:at]}…"
    return message


def _strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for entry in node:
            yield from _strings(entry)
    elif isinstance(node, dict):
        for name, entry in node.items():
            if name not in _NOT_TEXTS:
                yield from _strings(entry)
