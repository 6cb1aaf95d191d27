"""Maximal marginal relevance over what the gateway returns: an experiment that the ranking has to beat.

Carbonell and Goldstein, 1998: the next result is the one with the highest
`l * relevance - (1 - l) * similarity` to those before it. Relevance is the place of a result's `fused` value
on a logarithmic scale from the weakest (0) to the strongest (1), similarity the share of common words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

POOL: Final = 30
"""Results that are put in a new order."""
_WORD: Final = re.compile(r"\w+")


def diversified(
    results: Sequence[dict[str, Any]], wanted: int, relevance_share: float
) -> list[dict[str, Any]]:
    """The `wanted` best of explained results; `relevance_share` 1 keeps their order."""
    relevance = _relevance([max(1e-9, hit["explain"]["fused"]) for hit in results])
    words = [frozenset(_WORD.findall(hit["snippet"].casefold())) for hit in results]
    nearest = [0.0] * len(results)
    rest = list(range(len(results)))
    chosen = []
    while rest and len(chosen) < wanted:
        worth = {
            number: relevance_share * relevance[number] - (1 - relevance_share) * nearest[number]
            for number in rest
        }
        best = max(rest, key=worth.__getitem__)
        rest.remove(best)
        chosen.append(results[best])
        for number in rest:
            nearest[number] = max(nearest[number], _overlap(words[number], words[best]))
    return chosen


def _relevance(fused: Sequence[float]) -> list[float]:
    logarithms = [math.log(value) for value in fused]
    low, high = min(logarithms, default=0.0), max(logarithms, default=0.0)
    return [(value - low) / ((high - low) or 1.0) for value in logarithms]


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))
