"""`health`: one word and the reasons for it, for probes. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from backends.interface import BackendStatus

HealthState = Literal["ok", "degraded", "failing"]


class Health(msgspec.Struct, frozen=True):
    """`ok`: everything works; `degraded`: it answers, but weaker; `failing`: it cannot answer."""

    status: HealthState
    reasons: tuple[str, ...] = ()


def judge_health(
    status: BackendStatus | None = None,
    *,
    disabled: str | None = None,
    failure: str | None = None,
    sync_error: str | None = None,
) -> Health:
    """A memory that is switched off on purpose is healthy."""
    if failure is not None:
        return Health("failing", (failure,))
    if status is None:
        return Health("ok", (disabled,) if disabled else ())
    reasons = []
    if sync_error is not None:
        reasons.append(f"The last background sync failed: {sync_error}")
    reasons += status.weaknesses
    return Health("degraded" if reasons else "ok", tuple(reasons))
