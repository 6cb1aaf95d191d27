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
    Completeness,
)
from backends.ranking.lanes import Background, Lanes
from backends.ranking.passages import File
from backends.ranking.units import Chunk
from backends.ranking.weights import Weights

_MARGIN: Final = 1 + 1e-9
"""Bounds are computed in another order than what they bound."""
_UTF16_UNITS: Final = 2
"""Of a character, at most."""
_NORM: Final = 1 / (1 - LENGTH_EXPONENT)


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
    complete: Completeness,
    *,
    max_chars: int,
) -> Bounds:
    """Each line beside all that its file holds, with the best vector of the file.

    The odds of a line grow with its length to the power of `e`. By Hoelder's inequality those of lines
    which together are no longer than a snippet add up to at most the norm of their odds in the space of
    the power `1 / (1 - e)`; of one that is longer, to its odds times its length.
    """
    coverage = weights.coverage
    held = reduce(or_, [concepts for chunk in chunks for concepts in chunk.held], 0)
    cosine = max(
        [excerpt.cosine for chunk in chunks for excerpt in chunk.candidate.excerpts], default=0.0
    )
    deviations = max(0.0, background.place(cosine)) if background else 0.0
    by_vector = lanes.vector * VECTOR_WEIGHT * deviations * (1 + NOTE_SHARE)
    highest = norm = 0.0
    for _, score, concepts_by_line, context in chunks:
        around = NEIGHBOUR_WEIGHT * coverage(held | context) + CHUNK_WEIGHT * score
        for concepts in set(concepts_by_line):
            text = LINE_WEIGHT * coverage(concepts | context) + around
            highest = max(highest, text)
            odds = math.expm1(lanes.text * text + by_vector)
            norm += concepts_by_line.count(concepts) * odds**_NORM
    length = _UTF16_UNITS * sum(len(chunk.candidate.text) for chunk in chunks)
    longest = math.expm1(lanes.text * highest + by_vector) * (length / max_chars) ** LENGTH_EXPONENT
    mass = max(norm ** (1 / _NORM), longest) * complete(held)
    return Bounds(highest / TEXT_WEIGHT * _MARGIN, max(0.0, cosine), mass * _MARGIN)


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
