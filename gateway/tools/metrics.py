"""`metrics`: what is counted, as plain data; its form for a monitoring system is made by who asks."""

from __future__ import annotations

import msgspec

from gateway.metrics.instruments import Family, Sample
from gateway.metrics.measures import Metrics
from gateway.tools.gauges import families_of
from gateway.tools.status import StatusResult


class MetricsResult(msgspec.Struct, frozen=True):
    families: tuple[Family, ...]


def write_metrics(metrics: Metrics, status: StatusResult) -> MetricsResult:
    """Counts of the process and, from a status of the same moment, of index and providers."""
    start = Family(
        name="start_time_seconds",
        kind="gauge",
        help="When the process began to serve, in seconds since 1970.",
        samples=(Sample(value=round(metrics.started_at, 3)),),
    )
    return MetricsResult((start, *families_of(status), *metrics.families()))
