"""`health`: one word and the reasons for it, for probes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from backends.interface import Trial

HealthState = Literal["ok", "degraded", "failing"]


class Health(msgspec.Struct, frozen=True):
    """`ok`: everything works; `degraded`: it answers, but weaker; `failing`: it cannot answer."""

    status: HealthState
    reasons: tuple[str, ...] = ()
    trials: tuple[Trial, ...] | msgspec.UnsetType = msgspec.UNSET
    """Of a deep look: what each part did when it was asked."""


class HealthParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    deep: bool = False
    """Also ask provider, vector engine and QMD to do their work; this takes seconds, and network."""


def judge_health(
    weaknesses: Sequence[str] = (),
    *,
    disabled: str | None = None,
    failure: str | None = None,
    sync_error: str | None = None,
    config_error: str | None = None,
) -> Health:
    """A memory that is switched off on purpose is healthy."""
    if failure is not None:
        return Health("failing", (failure,))
    reasons = []
    if config_error is not None:
        reasons.append(f"The configuration in force is an older one: {config_error}")
    if sync_error is not None:
        reasons.append(f"The last background sync failed: {sync_error}")
    reasons += weaknesses
    return Health("degraded" if reasons else "ok", (*reasons, *([disabled] if disabled else ())))


def judge_trials(health: Health, trials: Sequence[Trial]) -> Health:
    """The same health in the light of what was tried: a part that failed degrades it."""
    reasons = (*health.reasons, *_failures(trials, health.reasons))
    degraded = health.status == "ok" and any(one.outcome == "failed" for one in trials)
    return Health("degraded" if degraded else health.status, reasons, tuple(trials))


def _failures(trials: Sequence[Trial], known: Sequence[str]) -> Iterator[str]:
    """One sentence for each failure that no reason tells of already."""
    for one in trials:
        if one.outcome == "failed" and not any(one.detail in reason for reason in known):
            remedy = f" {one.remedy}" if one.remedy else ""
            yield f"Tried {one.part}: {one.detail}{remedy}"
