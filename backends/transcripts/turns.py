"""From one line of a transcript to one line of text. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from backends.redaction import REDACTION_VERSION, redact

RENDERING_VERSION: Final = f"turns 1, redaction {REDACTION_VERSION}"
"""Changes whenever the same transcript gives other text, so that indexes are built anew."""
HOST_RENDERING_VERSION: Final = f"events 1, {RENDERING_VERSION}"
"""The same for the host's database."""

_SPEAKERS: Final = {"user": "User", "assistant": "Assistant"}
# White space as JavaScript defines it, as in the documented format.
_SPACE: Final = re.compile("[\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")


_NOT_SAID: Final = frozenset({"internal_system", "inter_session"})
"""The origins of user messages that no user wrote: timers, and other sessions of the agent."""
_SILENT: Final = frozenset({"NO_REPLY", "HEARTBEAT_OK"})
"""The answers that mean that the assistant says nothing."""
_MARK: Final = "\u27e6openclaw:ctx\u27e7"
"""Ends the first line of every block that the host puts into a user's message."""
_BLOCK: Final = re.compile(
    rf"^[^\n]+{_MARK}[ \t]*\n(?:```json[^\n]*\n.*?(?:^```[ \t]*$|\Z)|(?:[^\n]*\S[^\n]*(?:\n|\Z))*)",
    re.MULTILINE | re.DOTALL,
)
_INTERNAL: Final = re.compile(
    r"^<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>.*?(?:^<<<END_OPENCLAW_INTERNAL_CONTEXT>>>|\Z)",
    re.MULTILINE | re.DOTALL,
)


_RECALLED: Final = re.compile(r"^<recalled>\n.*?^</recalled>[ \t]*\n?", re.MULTILINE | re.DOTALL)


class _Message(msgspec.Struct):
    role: object = None
    provenance: object = None
    content: msgspec.Raw = msgspec.Raw()


class _Entry(msgspec.Struct):
    type: object = None
    message: msgspec.Raw = msgspec.Raw()


_entries: Final = msgspec.json.Decoder(_Entry)
_messages: Final = msgspec.json.Decoder(_Message)


def render_turn(line: bytes) -> str | None:
    """Returns `User: ...` or `Assistant: ...` for a line that is such a turn; None for every other line.

    Tool calls and results, thinking, images, other entries and lines that are not JSON give None, and
    so does a turn without text.
    """
    speaker, content, _ = _said(line)
    text = joined(texts_of(content)) if speaker else ""
    return f"{speaker}: {text}" if text else None


def render_event(line: bytes) -> str | None:
    """Returns the same for an event of the host's database, without what the host itself put into it.

    A question of a timer or of another session is not a turn, nor is an answer that means silence.
    """
    speaker, content, source = _said(line)
    if speaker is None or (isinstance(source, dict) and source.get("kind") in _NOT_SAID):
        return None
    text = joined(map(_own, texts_of(content)))
    return f"{speaker}: {text}" if text and text not in _SILENT else None


def _own(text: str) -> str:
    """Removes the blocks of the host."""
    if _MARK in text:
        text = _BLOCK.sub("", text)
    return _INTERNAL.sub("", text) if "<<<BEGIN_OPENCLAW" in text else text


def _said(line: bytes) -> tuple[str | None, object, object]:
    """Returns speaker, content and provenance; no speaker for other entries, which are not decoded further."""
    try:
        entry = _entries.decode(line)
        if entry.type != "message":
            return None, None, None
        message = _messages.decode(entry.message)
        speaker = speaker_of(message.role)
        content = msgspec.json.decode(message.content) if speaker else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = decoded_leniently(line)
        said = found.get("message") if isinstance(found, dict) else None
        if not isinstance(said, dict) or found.get("type") != "message":
            return None, None, None
        return speaker_of(said.get("role")), said.get("content"), said.get("provenance")
    return speaker, content, message.provenance


def decoded_leniently(line: bytes) -> Any:
    """Decodes a line of which lone surrogates and broken UTF-8 spoil some characters; None if it is no JSON."""
    try:
        return json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def speaker_of(role: object) -> str | None:
    """Returns the name shown for a role; None for one that says nothing to remember."""
    return _SPEAKERS.get(role) if isinstance(role, str) else None


def joined(texts: Iterable[str]) -> str:
    """Returns the texts of a turn as one line, without secrets."""
    return " ".join(filter(None, map(_normal, texts)))


def texts_of(content: object) -> list[str]:
    """Returns the texts in the content of a message, without recalled notes."""
    if isinstance(content, str):
        return [_without_recalled(content)]
    if not isinstance(content, list):
        return []
    return [
        _without_recalled(block["text"])
        for block in content
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    ]


def _without_recalled(text: str) -> str:
    """Removes notes recalled before a prompt: nobody said them, and remembered they would return as news."""
    return _RECALLED.sub("", text) if "<recalled>" in text else text


def _normal(text: str) -> str:
    """Returns one line. Secrets are removed first: line ends help to distinguish them from prose."""
    valid = text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return _SPACE.sub(" ", redact(valid)).strip(" ")
