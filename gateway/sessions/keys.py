"""Session keys: whose conversation it is, how public, and who may search. Pure but for what it has seen."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from config.agents import normalize_agent_id
from config.settings import ScopeMatch, ScopePolicy, Settings

ChatKind = Literal["direct", "group", "channel"]

_NO_PERSON = frozenset({"subagent", "cron", "hook", "heartbeat"})
"""Sessions that an agent or a timer has with itself."""
_AGENT_KEY = re.compile(r"agent:(?P<agent>[^:]*):(?P<rest>.+)", re.IGNORECASE | re.DOTALL)


class SessionKey(msgspec.Struct, frozen=True, gc=False):
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


MAX_SESSIONS: Final = 1024


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


class Verdict(msgspec.Struct, frozen=True, gc=False):
    allowed: bool
    reason: str
    """Which rule decided, in words that help to change it."""


def judge_scope(policy: ScopePolicy, session_key: str | None) -> Verdict:
    """A conversation without a key is no chat of any type: only the default can allow it."""
    for number, rule in enumerate(policy.rules):
        if _matches(rule.match, session_key):
            return Verdict(rule.action == "allow", f"rules[{number}] says {rule.action}")
    if session_key is None and policy.default == "deny":
        return Verdict(False, "the default is deny, and the request names no sessionKey")
    return Verdict(
        policy.default == "allow", f"no rule matches and the default is {policy.default}"
    )


def judge_session(
    settings: Settings, policy: ScopePolicy | None, session_key: str | None
) -> Verdict:
    """Whether this session may use the agent's memory: never one of another agent.

    Without a policy every session of the agent may.
    """
    agent = agent_of(session_key) if session_key else None
    if agent is not None and agent != settings.agent_id:
        return Verdict(
            False, f"the session belongs to agent {agent}, this memory to agent {settings.agent_id}"
        )
    return judge_scope(policy, session_key) if policy else Verdict(True, "no scope is configured")


def _matches(match: ScopeMatch, session_key: str | None) -> bool:
    if match == ScopeMatch():
        return True
    if session_key is None:
        return False
    key = session_key.strip().lower()
    bare = ":".join(parse_session_key(session_key).rest)
    conditions = [
        match.channel is None or _channel(bare) == _plain(match.channel),
        match.chat_type is None
        or (
            is_known_conversation(session_key)
            and chat_type_of(session_key) == _plain(match.chat_type).replace("dm", "direct")
        ),
        match.key_prefix is None
        or bare.startswith(_plain(match.key_prefix))
        or key.startswith(_plain(match.key_prefix)),
        match.raw_key_prefix is None or key.startswith(_plain(match.raw_key_prefix)),
    ]
    return all(conditions)


def _channel(bare: str) -> str | None:
    """`telegram:group:-1` and `telegram:account:direct:anna` are conversations on telegram."""
    first, _, rest = bare.partition(":")
    kinds = {"group", "channel", "direct", "dm"}
    return first if kinds.intersection(rest.split(":")) else None


def _plain(value: str) -> str:
    return value.strip().lower()
