"""Which provider of embeddings is chosen, why, and where its key comes from.

Blocks for a moment: reads the auth profiles. Whether a key is accepted only the provider knows; that is
what `health --deep` asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from config.paths import auth_profile_paths
from config.settings import Settings
from gateway.doctor.finding import Finding, Severity, sentence
from providers.choosing import Choice, choose
from providers.interface import Candidate
from providers.remote.profiles import load

_KEY: Final = "memorySearch.provider"


def check_provider(settings: Settings) -> Iterator[Finding]:
    choice = choose(settings)
    if choice.primary is None:
        yield from _without(choice)
    else:
        yield _with(choice, choice.primary)
    yield from _fallback(choice, settings.search.fallback)
    paths = dict.fromkeys(auth_profile_paths(settings.state_dir, settings.agent_dir))
    for problem in load(tuple(paths)).problems:
        yield Finding(
            check="provider",
            severity="warning",
            cause=sentence(problem),
            fix="Let the chat gateway write its auth profiles again, or fix the file.",
        )


def _without(choice: Choice) -> Iterator[Finding]:
    if choice.requested == "none":
        yield Finding(check="provider", severity="ok", cause=choice.reason, place=_KEY)
        return
    named = choice.requested != "auto"
    severity: Severity = "warning" if named or choice.keys_in_vain else "note"
    yield Finding(
        check="provider",
        severity=severity,
        cause=choice.reason,
        place=_KEY,
        fix=choice.remedy,
    )
    if not named:
        yield from (_refused(one, "warning") for one in choice.keys_in_vain)


def _with(choice: Choice, primary: Candidate) -> Finding:
    if choice.fell_back is not None:
        cause = choice.reason
        fix = choice.remedy
        return Finding(check="provider", severity="warning", cause=cause, place=_KEY, fix=fix)
    parts = (primary.provider, primary.model, primary.endpoint)
    who = ", ".join(part for part in parts if part)
    return Finding(check="provider", severity="ok", cause=f"{who}. {primary.reason}", place=_KEY)


def _fallback(choice: Choice, name: str) -> Iterator[Finding]:
    """A fallback that is configured and could not stand in."""
    for one in choice.candidates:
        if one.provider == name and not one.usable:
            yield _refused(one, "warning", "memorySearch.fallback")


def _refused(one: Candidate, severity: Severity, place: str | None = None) -> Finding:
    return Finding(
        check="provider",
        severity=severity,
        cause=f"{one.provider} cannot be used: {one.reason}",
        place=place,
        fix=one.remedy,
    )
