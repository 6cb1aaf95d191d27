"""From one line of a transcript to one line of text: who said what, without secrets.

Owns which entries are turns and how a turn is rendered. A turn is always exactly one line, so that the
lines of the text can be counted against the lines of the file. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from backends.redaction import REDACTION_VERSION, redact

RENDERING_VERSION: Final = f"turns 1, redaction {REDACTION_VERSION}"
"""Changes whenever the same transcript gives other text, so that indexes are built anew."""

_SPEAKERS: Final = {"user": "User", "assistant": "Assistant"}
# What JavaScript calls white space, for so the documented format does.
_SPACE: Final = re.compile("[\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")


class _Message(msgspec.Struct):
    role: Any = None
    content: msgspec.Raw = msgspec.Raw()


class _Entry(msgspec.Struct):
    type: Any = None
    message: msgspec.Raw = msgspec.Raw()


_entries: Final = msgspec.json.Decoder(_Entry)
_messages: Final = msgspec.json.Decoder(_Message)


def render_turn(line: bytes) -> str | None:
    """`User: ...` or `Assistant: ...` for a line that is such a turn; None for every other line.

    Tool calls and results, thinking, images, other entries and lines that are no JSON give None, and
    so does a turn without text.
    """
    try:
        role, content = _read(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        role, content = _read_leniently(line)
    speaker = _speaker(role)
    text = _text(content) if speaker else ""
    return f"{speaker}: {text}" if text else None


def _read(line: bytes) -> tuple[Any, Any]:
    """Role and content; what is no message is passed over without being decoded."""
    entry = _entries.decode(line)
    if entry.type != "message":
        return None, None
    message = _messages.decode(entry.message)
    if _speaker(message.role) is None:
        return None, None
    return message.role, msgspec.json.decode(message.content)


def _speaker(role: Any) -> str | None:
    return _SPEAKERS.get(role) if isinstance(role, str) else None


def _read_leniently(line: bytes) -> tuple[Any, Any]:
    """Lone surrogates and broken UTF-8 spoil some characters, not the turn."""
    try:
        entry = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None, None
    message = entry.get("message") if isinstance(entry, dict) else None
    if not isinstance(message, dict) or entry.get("type") != "message":
        return None, None
    return message.get("role"), message.get("content")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return _normal(content)
    if not isinstance(content, list):
        return ""
    texts = (
        _normal(block["text"])
        for block in content
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    )
    return " ".join(filter(None, texts))


def _normal(text: str) -> str:
    """One line. Secrets go first: where lines end helps to tell them from prose."""
    valid = text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return _SPACE.sub(" ", redact(valid)).strip(" ")
