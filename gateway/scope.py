"""Conversations: what the key of one says, and whether it may use the memory.

The scope of the configuration decides, and for the client of a guest the scope of its own configuration, too.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from backends.interface import IndexUnavailableError
from config.loading import normalize_agent_id
from config.settings import ScopeMatch, ScopePolicy, Settings

ChatKind = Literal["direct", "group", "channel"]

_NO_PERSON = frozenset({"subagent", "cron", "hook", "heartbeat"})
"""Sessions that an agent or a timer has with itself."""
_AGENT_KEY: Final = r"(?is)agent:(?P<agent>[^:]*):(?P<rest>.+)"
MAX_SESSIONS: Final = 1024


GREETING: Final = "$/guest"
"""The method by which a bridge sends its terms. No client calls it, so it is not in the list of methods."""
WITHOUT_CLAUDE_CODE: Final = (
    "What Claude Code remembers is left out: the gateway that owns the index runs without it. Start that "
    "one with --claude-code, or set claudeCode in its configuration and run `memory-gateway reload`."
)


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
    """Returns the id of the agent that a key belongs to; None when the key does not say."""
    agent = parse_session_key(key).agent
    return normalize_agent_id(agent) if agent else None


def is_main_session(key: str) -> bool:
    """Returns whether this is the person's own conversation with the agent, or a thread of it."""
    tokens = parse_session_key(key).rest
    return tokens[0] == "main" and chat_type_of(key) == "direct" and not {*tokens} & _NO_PERSON


def is_heartbeat(key: str) -> bool:
    return "heartbeat" in parse_session_key(key).rest


def is_known_conversation(key: str) -> bool:
    """Returns whether it is known who listens, which it is not for a sub-agent's own session."""
    return parse_session_key(key).rest[0] != "subagent"


def chat_type_of(key: str) -> ChatKind:
    """Returns the kind, which a token `channel` or `group` names anywhere; everything else is direct."""
    tokens = parse_session_key(key).rest
    if "channel" in tokens:
        return "channel"
    return "group" if "group" in tokens else "direct"


class KnownSessions:
    """Session keys, the least recently seen first, each with a count that the caller defines."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def is_new(self, key: str | None) -> bool:
        """Notes the session; returns whether it is the first sign of it. Without a key there is no session."""
        return bool((key or "").strip()) and self.put(key or "", 0) is None

    def put(self, key: str, count: int) -> int | None:
        """Notes the count of a session; returns the one before, None for the first."""
        key = key.strip().lower()
        before = self._counts.pop(key, None)
        self._counts[key] = count
        if len(self._counts) > MAX_SESSIONS:
            del self._counts[next(iter(self._counts))]
        return before


class Verdict(msgspec.Struct, frozen=True, gc=False):
    allowed: bool
    reason: str
    """The rule that decided, in words that help to change it."""


def judge_scope(policy: ScopePolicy, session_key: str | None) -> Verdict:
    """Judges a conversation. One without a key has no type: only the default or a rule without conditions applies."""
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
    """Judges whether this session may use the agent's memory: one of another agent never may.

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
    """Returns the channel: `telegram:group:-1` and `telegram:account:direct:anna` are conversations on telegram."""
    first, _, rest = bare.partition(":")
    kinds = {"group", "channel", "direct", "dm"}
    return first if kinds.intersection(rest.split(":")) else None


def _plain(value: str) -> str:
    return value.strip().lower()


class Terms(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The permissions of one configuration.

    A process that finds another one at its index has read a configuration of its own, whose author relies on
    it. So a bridge sends the owner its terms, and its client is answered under the stricter ones.
    """

    scope: ScopePolicy | None
    search_scope: ScopePolicy | None
    """The scope of searches: that of QMD where QMD is the backend."""
    sources: tuple[str, ...]
    extra_paths: tuple[str, ...]
    append: bool
    config: str | None
    """The file of the configuration."""
    claude_code: bool = False
    """True if it asks for what Claude Code remembers; older releases did not say."""
    process: int | None = None
    """The program that started the bridge."""
    writes: bool = False
    """True if the command line of the bridge lets its client append, whatever the owner's configuration says."""

    @property
    def may_deny(self) -> bool:
        """True if there is a conversation that these terms may refuse."""
        policies = [policy for policy in (self.scope, self.search_scope) if policy is not None]
        return any(
            policy.default == "deny" or any(rule.action == "deny" for rule in policy.rules)
            for policy in policies
        )


def terms_of(settings: Settings, process: int | None = None) -> Terms:
    search = settings.search
    return Terms(
        scope=settings.scope,
        search_scope=settings.qmd.scope if settings.backend == "qmd" else settings.scope,
        sources=tuple(sorted(search.sources)),
        extra_paths=tuple(sorted(f"{one.path}:{one.pattern or ''}" for one in search.extra_paths)),
        append=settings.append_enabled,
        config=str(settings.config_path) if settings.config_path else None,
        claude_code=settings.search.claude_code,
        process=process,
        writes=settings.write_granted,
    )


class Guest(msgspec.Struct, frozen=True):
    """A client that another process connects to us."""

    terms: Terms
    seen: Settings
    """Our settings at the time when the guest sent its terms."""

    def terms_beside(self, settings: Settings) -> Terms | None:
        """Returns the guest's terms; None where ours are newer: the same file, read again since the guest read it."""
        ours = terms_of(settings)
        is_newer = settings is not self.seen and ours.config == self.terms.config
        return None if is_newer else self.terms

    def judge(self, settings: Settings, session_key: str | None, *, searches: bool) -> Verdict:
        terms = self.terms_beside(settings)
        policy = (terms.search_scope if searches else terms.scope) if terms else None
        if policy is None:
            return Verdict(True, "no scope is configured")
        verdict = judge_scope(policy, session_key)
        return Verdict(
            verdict.allowed, f"in the configuration of this client's gateway, {verdict.reason}"
        )

    def check_reach(self, settings: Settings) -> None:
        """Raises IndexUnavailableError where this index holds what the guest's configuration leaves out."""
        terms, ours = self.terms_beside(settings), terms_of(settings)
        if terms is None:
            return
        for name, own, more in (
            ("sources", ours.sources, set(ours.sources) - set(terms.sources)),
            ("extraPaths", ours.extra_paths, set(ours.extra_paths) - set(terms.extra_paths)),
        ):  # fmt: skip
            if more:
                raise IndexUnavailableError(
                    f"{name} of this gateway permits less than the index holds: the process that owns "
                    f"it has {', '.join(own)}.",
                    remedy="Give both the same configuration, or this one an index of its own "
                    "(store.path); then start the two again.",
                )

    def missed(self, settings: Settings) -> str:
        """Says to people what the guest asks for and this index does not contain; empty where that is nothing."""
        asks = self.terms.claude_code and not settings.search.claude_code
        return WITHOUT_CLAUDE_CODE if asks else ""


def may_append(settings: Settings, guest: Guest | None) -> bool:
    """Returns whether agents may append by this configuration or the command line.

    For a guest's client its own configuration has to permit it, too, or its own command line alone.
    """
    if guest is None:
        return settings.append_enabled or settings.write_granted
    terms = guest.terms_beside(settings)
    return guest.terms.writes or (settings.append_enabled and (terms is None or terms.append))


def judge_request(
    settings: Settings, guest: Guest | None, session_key: str | None, *, searches: bool = False
) -> Verdict:
    """Judges a request by the scope, and for a guest's client also by the scope of its own configuration.

    With `searches` the scope of QMD counts where QMD is the backend.
    """
    policy = settings.qmd.scope if searches and settings.backend == "qmd" else settings.scope
    verdict = judge_session(settings, policy, session_key)
    if guest is None or not verdict.allowed:
        return verdict
    return guest.judge(settings, session_key, searches=searches)
