"""What the candidates of one file can offer at most, known before they are cut into lines and weighed.

Owns these bounds. Of the files that a query proposes only a few reach its results; the others are never
weighed, and the results are the same. The bounds follow from the formulas in `evidence`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from operator import or_
from typing import Final, NamedTuple

from backends.ranking.evidence import (
    CHUNK_WEIGHT,
    LENGTH_EXPONENT,
    LINE_WEIGHT,
    NEIGHBOUR_WEIGHT,
    NOTE_SHARE,
    TEXT_WEIGHT,
    VECTOR_WEIGHT,
)
from backends.ranking.lanes import Background, Lanes
from backends.ranking.passages import File
from backends.ranking.units import Chunk
from backends.ranking.weights import Weights

_MARGIN: Final = 1 + 1e-9
"""Bounds are computed in another order than what they bound."""
_UTF16_UNITS: Final = 2
"""Of a character, at most."""


class Bounds(NamedTuple):
    """No line, and no window of lines, of the file has more than this."""

    text: float
    """`Evidence.text`"""
    cosine: float
    mass: float
    """Of a window, see `Window.mass`."""


UNBOUNDED: Final = Bounds(1.0, 1.0, math.inf)


def bounds_of(
    chunks: Sequence[Chunk],
    weights: Weights,
    lanes: Lanes,
    background: Background | None,
    *,
    max_chars: int,
) -> Bounds:
    """The best line of each kind, all in one place, with every line of the file beside it.

    The odds of a line grow with its length to the power of `e`, so those of `n` lines, which together
    are no longer than a snippet, add up to at most the best times `n` to the power of `1 - e`.
    """
    held = [concepts | chunk.context for chunk in chunks for concepts in chunk.held]
    together = reduce(or_, held, 0)
    best = max(map(weights.coverage, set(held)), default=0.0)
    text = (
        LINE_WEIGHT * best
        + NEIGHBOUR_WEIGHT * weights.coverage(together)
        + CHUNK_WEIGHT * max(chunk.score for chunk in chunks)
    ) / TEXT_WEIGHT
    cosines = [excerpt.cosine for chunk in chunks for excerpt in chunk.candidate.excerpts]
    cosine = max((0.0, *cosines))
    deviations = max(0.0, background.place(cosine)) if background and cosines else 0.0
    deviations *= 1 + NOTE_SHARE
    odds = math.expm1(lanes.text * TEXT_WEIGHT * text + lanes.vector * VECTOR_WEIGHT * deviations)
    length = _UTF16_UNITS * sum(len(chunk.candidate.text) for chunk in chunks)
    longest = max(
        float(len(held)) ** (1 - LENGTH_EXPONENT), (length / max_chars) ** LENGTH_EXPONENT
    )
    return Bounds(text * _MARGIN, cosine, odds * longest * _MARGIN)


class Prospect:
    """A file that may have a place among the results; weighed when it is asked for."""

    def __init__(self, bounds: Bounds, weigh: Callable[[], File]) -> None:
        self.bounds = bounds
        self._weigh = weigh

    @property
    def most_mass(self) -> float:
        return self.bounds.mass

    @cached_property
    def file(self) -> File:
        return self._weigh()
