"""What the gateway did since it started, in a few numbers for `status`. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Activity(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    uptime_s: float
    requests: int
    failed_requests: int
    searches: Mapping[str, int]
    """By mode."""
    search_ms_median: float | None = None
    search_ms_p95: float | None = None
    syncs: int
