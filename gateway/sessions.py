"""Session keys: which agent a conversation belongs to and how public it is.

Owns the parsing, once, for everybody who needs to know: citations, scope, what a new session loads.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

ChatKind = Literal["direct", "group", "channel"]

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


def is_known_conversation(key: str) -> bool:
    """Whether anything is known of who is listening: not so for a sub-agent's own session."""
    return parse_session_key(key).rest[0] != "subagent"


def chat_type_of(key: str) -> ChatKind:
    """A token `channel` or `group` anywhere names the kind; everything else is direct."""
    tokens = parse_session_key(key).rest
    if "channel" in tokens:
        return "channel"
    return "group" if "group" in tokens else "direct"
