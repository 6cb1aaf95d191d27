"""`health`: one word and the reasons for it, for probes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

HealthState = Literal["ok", "degraded", "failing"]


class Health(msgspec.Struct, frozen=True):
    """`ok`: everything works; `degraded`: it answers, but weaker; `failing`: it cannot answer."""

    status: HealthState
    reasons: tuple[str, ...] = ()


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
