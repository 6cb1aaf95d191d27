"""Session keys: which agent a conversation belongs to and how public it is.

Owns the parsing, once, for everybody who needs to know: citations, scope, what a new session loads.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from config.agents import normalize_agent_id

ChatKind = Literal["direct", "group", "channel"]

_NO_PERSON = frozenset({"subagent", "cron", "hook", "heartbeat"})
"""Sessions that an agent or a timer has with itself."""
_AGENT_KEY = re.compile(r"agent:(?P<agent>[^:]*):(?P<rest>.+)", re.IGNORECASE | re.DOTALL)


class SessionKey(NamedTuple):
    """`agent:<id>:<rest>`; `agent` is None for a key of another form."""

    agent: str | None
    rest: tuple[str, ...]
    """The tokens after the agent, lower case."""


def parse_session_key(key: str) -> SessionKey:
    key = key.strip()
    match = _AGENT_KEY.fullmatch(key)
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
