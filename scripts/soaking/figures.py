"""Whether samples grow: a slope with its confidence, and medians that single spikes do not move. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Final, NamedTuple

_HOUR_S: Final = 3600.0
_NORMAL_95: Final = 1.96


class Slope(NamedTuple):
    """Per hour, with the bounds of its 95 % confidence interval."""

    value: float
    low: float
    high: float


def slope(seconds: Sequence[float], values: Sequence[float]) -> Slope:
    """Ordinary least squares. Needs three points at least.

    Neighbouring samples resemble each other, so there are fewer independent ones than samples; their
    number is corrected by the residuals' first autocorrelation r: n (1 - r) / (1 + r)
    (G. V. Bayley and J. M. Hammersley, 1946).
    """
    hours = [at / _HOUR_S for at in seconds]
    centre, level = fmean(hours), fmean(values)
    spread = sum((hour - centre) ** 2 for hour in hours)
    value = sum((h - centre) * (v - level) for h, v in zip(hours, values, strict=True)) / spread
    rest = [v - level - value * (h - centre) for h, v in zip(hours, values, strict=True)]
    squares = sum(one * one for one in rest)
    if squares == 0:
        return Slope(value, value, value)
    likeness = max(0.0, sum(a * b for a, b in pairwise(rest)) / squares)
    independent = max(3.0, len(rest) * (1 - likeness) / (1 + likeness))
    error = math.sqrt(squares / (independent - 2) / spread)
    return Slope(value, value - _NORMAL_95 * error, value + _NORMAL_95 * error)


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first and of the last quarter."""
    size = max(1, len(values) // 4)
    return median(values[:size]), median(values[-size:])
