"""The events of clients, and answers in their form. Pure.

Claude Code 2.1, Codex 0.169 and Gemini CLI 0.61 name the event and take `additionalContext` beside its name. Copilot
CLI 1.0 names none: a prompt is known by its `prompt`, a beginning by its `source`, a compaction by its `trigger`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec

from gateway.tools.search import MAX_KEY_CHARS

HookClient = Literal["claude-code", "codex", "gemini", "copilot"]
HOOK_CLIENTS: Final[tuple[HookClient, ...]] = get_args(HookClient)

HOOK_METHOD: Final = "$/hook"
"""By which our own command hands on an event. No client calls it, so it is not in the list of methods."""

EventKind = Literal["prompt", "start", "compaction", "other"]
_KINDS: Final[Mapping[str, EventKind]] = {
    "UserPromptSubmit": "prompt",
    "BeforeAgent": "prompt",
    "SessionStart": "start",
    "PreCompress": "compaction",
}
_GOES_ON: Final = frozenset({"resume", "fork"})
"""How a conversation starts that has its beginning already."""
_EMPTIED: Final = frozenset({"clear", "compact"})
"""How one starts whose model knows nothing any more of what it was told."""
_ASKED_FOR: Final = "manual"
"""Gemini CLI announces a compression in every turn, before it looks whether one is due: only one asked for is real."""


class HookParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    client: HookClient
    event: dict[str, Any]
    processes: tuple[int, ...] = ()
    """Who runs the hook, the nearest first."""


class HookEvent(msgspec.Struct, frozen=True):
    kind: EventKind
    name: str
    conversation: str
    prompt: str = ""
    goes_on: bool = False
    """Whether a conversation that starts was there before, and knows how it began."""
    is_emptied: bool = False
    own_transcript: str | None = None
    """A glob of what the client itself writes down of this conversation."""


def read_event(params: HookParams) -> HookEvent:
    """What a client did not say, or said in another form, is as if it were nothing."""
    event = params.event
    name = _text(event, "hook_event_name")
    kind = _KINDS.get(name, "other") if name else _unnamed(event)
    if name == "PreCompress" and _text(event, "trigger") != _ASKED_FOR:
        kind = "other"
    session = (_text(event, "session_id") or _text(event, "sessionId"))[: MAX_KEY_CHARS // 2]
    return HookEvent(
        kind=kind,
        name=name,
        conversation=f"{params.client} {session or _text(event, 'cwd')[: MAX_KEY_CHARS // 2]}",
        prompt=_text(event, "prompt"),
        goes_on=_text(event, "source") in _GOES_ON,
        is_emptied=_text(event, "source") in _EMPTIED,
        own_transcript=f"sessions/*{session}*" if session.replace("-", "").isalnum() else None,
    )


def _unnamed(event: Mapping[str, Any]) -> EventKind:
    if "prompt" in event:
        return "prompt"
    if "trigger" in event:
        return "compaction"
    return "start" if "source" in event else "other"


def _text(event: Mapping[str, Any], name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def in_form(client: HookClient, event: HookEvent, text: str) -> dict[str, Any] | None:
    """The text as this client takes it; None where there is nothing to say."""
    if not text:
        return None
    if client == "copilot":
        return {"additionalContext": text}
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}
