"""Who may search: the rules of a scope policy against a session key. Pure.

Owns the evaluation, and that a session of another agent is never served. The first matching rule decides, else the policy's default. Values are compared
without case and surrounding space, and `dm` means `direct`, in rules and keys alike.
"""

from __future__ import annotations

from typing import NamedTuple

from config.settings import ScopeMatch, ScopePolicy, Settings
from gateway.sessions.keys import agent_of, chat_type_of, is_known_conversation, parse_session_key


class Verdict(NamedTuple):
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
