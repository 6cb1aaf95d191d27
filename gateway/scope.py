"""Who may use the memory: by the scope of its configuration, and for a guest's client by that of its own, too."""

from __future__ import annotations

from typing import Final

import msgspec

from backends.errors import IndexUnavailableError
from config.settings import ScopeMatch, ScopePolicy, Settings
from gateway.sessions import agent_of, chat_type_of, is_known_conversation, parse_session_key

GREETING: Final = "$/guest"
"""The method by which a bridge tells its terms. No client calls it, so it is not in the list of methods."""

WITHOUT_CLAUDE_CODE: Final = (
    "What Claude Code remembers is left out: the gateway that owns the index runs without it. Start that "
    "one with --claude-code, or set claudeCode in its configuration and run `memory-gateway reload`."
)


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


class Terms(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one configuration permits.

    A process that finds another one at its index has read a configuration of its own, and whoever wrote that
    relies on it. So a bridge tells the owner its terms, and its client is answered under the stricter ones.
    """

    scope: ScopePolicy | None
    search_scope: ScopePolicy | None
    """For searches: that of QMD where QMD is the backend."""
    sources: tuple[str, ...]
    extra_paths: tuple[str, ...]
    append: bool
    config: str | None
    """The file that says so."""
    claude_code: bool = False
    """Whether it asks for what Claude Code remembers; older releases did not tell."""
    process: int | None = None
    """The program that started the bridge."""
    writes: bool = False
    """Whether the command line of the bridge lets its client append, whatever the owner's configuration says."""

    @property
    def may_deny(self) -> bool:
        """Whether there is a conversation that these terms refuse."""
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
    """A client that another process carries to us."""

    terms: Terms
    seen: Settings
    """Our settings when the guest told its terms."""

    def terms_beside(self, settings: Settings) -> Terms | None:
        """None where ours are newer: the same file, read again since the guest read it."""
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
        """What the guest asks for that this index does not hold, for people; empty where there is nothing."""
        asks = self.terms.claude_code and not settings.search.claude_code
        return WITHOUT_CLAUDE_CODE if asks else ""

    def may_append(self, settings: Settings) -> bool:
        terms = self.terms_beside(settings)
        return terms is None or terms.append


def may_append(settings: Settings, guest: Guest | None) -> bool:
    """Whether agents may append by this configuration, and a guest's client by its own."""
    if guest is not None and guest.terms.writes:
        return True
    return settings.append_enabled and (guest is None or guest.may_append(settings))


def judge_request(
    settings: Settings, guest: Guest | None, session_key: str | None, *, searches: bool = False
) -> Verdict:
    """As the scope says; for a guest's client as that of its own configuration says, too.

    `searches`: by the scope of QMD where QMD is the backend.
    """
    policy = settings.qmd.scope if searches and settings.backend == "qmd" else settings.scope
    verdict = judge_session(settings, policy, session_key)
    if guest is None or not verdict.allowed:
        return verdict
    return guest.judge(settings, session_key, searches=searches)
