"""Counters and histograms with labels, and their snapshot as plain data. Pure.

Owns the arithmetic. Kept in the event loop of one process, so nothing is locked; the form for a
monitoring system is made elsewhere, by whoever asks. The library of Prometheus would bring a web server
along and lock every count, and knows no quantiles, which `status` tells.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate
from typing import Final, Literal

import msgspec

SECONDS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    60.0,
)
"""Upper bounds of the buckets of every duration."""

Labels = tuple[str, ...]


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value of a family. `buckets` of a histogram are cumulative, one a bound and one above all."""

    labels: tuple[str, ...] = ()
    value: float = 0.0
    """Of a histogram: the sum of what was observed."""
    buckets: tuple[int, ...] = ()


class Family(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All samples of one name. `labels` names what the labels of each sample mean, in their order."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()


class Counter:
    """Goes up only."""

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        self._name, self._meaning, self._labels = name, meaning, labels
        self.values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, amount: float = 1.0) -> None:
        self.values[labels] = self.values.get(labels, 0.0) + amount

    def total(self) -> int:
        return int(sum(self.values.values()))

    def family(self) -> Family:
        samples = (
            Sample(labels=labels, value=value) for labels, value in sorted(self.values.items())
        )
        return Family(
            name=self._name,
            kind="counter",
            help=self._meaning,
            labels=self._labels,
            samples=tuple(samples),
        )


class Histogram:
    """Durations in seconds, counted by `SECONDS`."""

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        self._name, self._meaning, self._labels = name, meaning, labels
        self._counts: dict[Labels, list[int]] = defaultdict(lambda: [0] * (len(SECONDS) + 1))
        self._sums: dict[Labels, float] = defaultdict(float)

    def observe(self, seconds: float, *labels: str) -> None:
        self._counts[labels][bisect_left(SECONDS, seconds)] += 1
        self._sums[labels] += seconds

    def quantile(self, share: float, *labels: str) -> float | None:
        """The value below which this share of the observations lies; None without any.

        Interpolated within its bucket, as Prometheus' `histogram_quantile` does; what is above all
        bounds counts as the highest bound.
        """
        cumulative = list(accumulate(self._counts[labels])) if labels in self._counts else [0]
        if not cumulative[-1]:
            return None
        rank = share * cumulative[-1]
        index = bisect_left(cumulative, rank)
        if index >= len(SECONDS):
            return SECONDS[-1]
        lower = SECONDS[index - 1] if index else 0.0
        before = cumulative[index - 1] if index else 0
        return lower + (SECONDS[index] - lower) * (rank - before) / (cumulative[index] - before)

    def family(self) -> Family:
        samples = (
            Sample(
                labels=labels,
                value=round(self._sums[labels], 6),
                buckets=tuple(accumulate(self._counts[labels])),
            )
            for labels in sorted(self._counts)
        )
        return Family(
            name=self._name,
            kind="histogram",
            help=self._meaning,
            labels=self._labels,
            samples=tuple(samples),
        )
