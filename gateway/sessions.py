"""What the key of a conversation says of it, and which conversations were seen."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from config.agents import normalize_agent_id

ChatKind = Literal["direct", "group", "channel"]

_NO_PERSON = frozenset({"subagent", "cron", "hook", "heartbeat"})
"""Sessions that an agent or a timer has with itself."""
_AGENT_KEY: Final = r"(?is)agent:(?P<agent>[^:]*):(?P<rest>.+)"
MAX_SESSIONS: Final = 1024


class SessionKey(msgspec.Struct, frozen=True, gc=False):
    """`agent:<id>:<rest>`; `agent` is None for a key of another form."""

    agent: str | None
    rest: tuple[str, ...]
    """The tokens after the agent, lower case."""


def parse_session_key(key: str) -> SessionKey:
    key = key.strip()
    match = re.fullmatch(_AGENT_KEY, key)
    if match is None:
        return SessionKey(None, tuple(key.lower().split(":")))
    return SessionKey(match["agent"].lower(), tuple(match["rest"].lower().split(":")))


def agent_of(key: str) -> str | None:
    """The agent that a key belongs to, as an id; None when the key does not say."""
    agent = parse_session_key(key).agent
    return normalize_agent_id(agent) if agent else None


def is_main_session(key: str) -> bool:
    """Whether this is the person's own conversation with the agent, or a thread of it."""
    tokens = parse_session_key(key).rest
    return tokens[0] == "main" and chat_type_of(key) == "direct" and not {*tokens} & _NO_PERSON


def is_heartbeat(key: str) -> bool:
    return "heartbeat" in parse_session_key(key).rest


def is_known_conversation(key: str) -> bool:
    """Whether anything is known of who is listening: not so for a sub-agent's own session."""
    return parse_session_key(key).rest[0] != "subagent"


def chat_type_of(key: str) -> ChatKind:
    """A token `channel` or `group` anywhere names the kind; everything else is direct."""
    tokens = parse_session_key(key).rest
    if "channel" in tokens:
        return "channel"
    return "group" if "group" in tokens else "direct"


class KnownSessions:
    """Session keys, the least recently seen first, each with a count that somebody keeps of it."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def is_new(self, key: str | None) -> bool:
        """Whether this is the first sign of the session. Without a key there is no session."""
        return bool((key or "").strip()) and self.put(key or "", 0) is None

    def put(self, key: str, count: int) -> int | None:
        """Notes the count of a session; answers the one before, None for the first."""
        key = key.strip().lower()
        before = self._counts.pop(key, None)
        self._counts[key] = count
        if len(self._counts) > MAX_SESSIONS:
            del self._counts[next(iter(self._counts))]
        return before
