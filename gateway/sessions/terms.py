"""Under which terms a guest's client is answered: the stricter of the guest's configuration and the owner's.

A process that finds another one at its index has read a configuration of its own, and whoever wrote that
relies on it. So a bridge tells the owner what its own configuration permits. Pure.
"""

from __future__ import annotations

from typing import Final

import msgspec

from backends.errors import IndexUnavailableError
from config.settings import ScopePolicy, Settings
from gateway.sessions.keys import Verdict, judge_scope

GREETING: Final = "$/guest"
"""The method by which a bridge tells its terms. No client calls it, so it is not in the list of methods."""

WITHOUT_CLAUDE_CODE: Final = (
    "What Claude Code remembers is left out: the gateway that owns the index runs without it. Start that "
    "one with --claude-code, or set claudeCode in its configuration and run `memory-gateway reload`."
)


class Terms(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one configuration permits."""

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

    @property
    def may_deny(self) -> bool:
        """Whether there is a conversation that these terms refuse."""
        policies = [policy for policy in (self.scope, self.search_scope) if policy is not None]
        return any(
            policy.default == "deny" or any(rule.action == "deny" for rule in policy.rules)
            for policy in policies
        )


def terms_of(settings: Settings) -> Terms:
    search = settings.search
    return Terms(
        scope=settings.scope,
        search_scope=settings.qmd.scope if settings.backend == "qmd" else settings.scope,
        sources=tuple(sorted(search.sources)),
        extra_paths=tuple(sorted(f"{one.path}:{one.pattern or ''}" for one in search.extra_paths)),
        append=settings.append_enabled,
        config=str(settings.config_path) if settings.config_path else None,
        claude_code=settings.search.claude_code,
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

    def judge_search(self, settings: Settings, session_key: str | None) -> Verdict:
        terms = self.terms_beside(settings)
        return _judge(terms.search_scope if terms else None, session_key)

    def judge(self, settings: Settings, session_key: str | None) -> Verdict:
        terms = self.terms_beside(settings)
        return _judge(terms.scope if terms else None, session_key)

    def check_reach(self, settings: Settings) -> None:
        """Raises IndexUnavailableError where this index holds what the guest's configuration leaves out."""
        terms, ours = self.terms_beside(settings), terms_of(settings)
        if terms is None:
            return
        for name, own, more in (
            ("memorySearch.sources", ours.sources, set(ours.sources) - set(terms.sources)),
            ("memorySearch.extraPaths", ours.extra_paths, set(ours.extra_paths) - set(terms.extra_paths)),
        ):  # fmt: skip
            if more:
                raise IndexUnavailableError(
                    f"{name} of this gateway permits less than the index holds: the process that owns "
                    f"it has {', '.join(own)}.",
                    remedy="Give both the same configuration, or this one an index of its own "
                    "(memorySearch.store.path); then start the two again.",
                )

    def missed(self, settings: Settings) -> str:
        """What the guest asks for that this index does not hold, for people; empty where there is nothing."""
        asks = self.terms.claude_code and not settings.search.claude_code
        return WITHOUT_CLAUDE_CODE if asks else ""

    def may_append(self, settings: Settings) -> bool:
        terms = self.terms_beside(settings)
        return terms is None or terms.append


def _judge(policy: ScopePolicy | None, session_key: str | None) -> Verdict:
    if policy is None:
        return Verdict(True, "no scope is configured")
    verdict = judge_scope(policy, session_key)
    return Verdict(
        verdict.allowed, f"in the configuration of this client's gateway, {verdict.reason}"
    )
