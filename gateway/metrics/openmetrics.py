"""Families as text for a monitoring system, by the library of Prometheus.

Owns the prefix of the names and the two formats: OpenMetrics, and the older text format that the
textfile collector of the node exporter reads. Imported only where such a text is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from gateway.metrics.instruments import SECONDS, Family, Sample

PREFIX: Final = "memory_gateway_"
_BOUNDS: Final = (*map(str, SECONDS), "+Inf")


def openmetrics_text(families: Sequence[Family]) -> str:
    """In the OpenMetrics format, which ends with `# EOF`."""
    text: bytes = generate_latest(_registry(families))  # type: ignore[no-untyped-call]
    return text.decode()


def write_textfile(path: Path, families: Sequence[Family]) -> None:
    """Replaces the file in one step, so that nobody reads half of it. Raises OSError."""
    write_to_textfile(str(path), _registry(families))


class _Families(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return map(_metric, self._families)


def _registry(families: Sequence[Family]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return registry


def _metric(family: Family) -> Metric:
    name, meaning, labels = PREFIX + family.name, family.help, family.labels
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(name, meaning, labels=labels)
        for sample in family.samples:
            histogram.add_metric(sample.labels, _buckets(sample), sample.value)
        return histogram
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    plain = kind(name, meaning, labels=labels)
    for sample in family.samples:
        plain.add_metric(sample.labels, sample.value)
    return plain


def _buckets(sample: Sample) -> list[tuple[str, float]]:
    return [(bound, float(count)) for bound, count in zip(_BOUNDS, sample.buckets, strict=True)]
