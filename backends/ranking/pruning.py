"""What the candidates of one file can offer at most, known before they are cut into lines and weighed."""

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
    Background,
    Chunk,
    Completeness,
    Evidence,
    FileKey,
    Lanes,
    Unit,
    aged_odds,
    units_of,
    weigh_units,
    weighted_odds,
)
from backends.ranking.passages import File, ends_of
from backends.ranking.query import Weights

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


class Outline(NamedTuple):
    """What bounds the lines of a file, whatever the lanes count."""

    held: int
    """All concepts of its lines."""
    cosine: float
    """The best of its vectors, or 0."""
    deviations: float
    """What that tells: 0 or more, see `Background.place`."""
    words: list[tuple[float, int]]
    """`Evidence.text` times `TEXT_WEIGHT`, at most, each with the number of lines it holds for."""
    length: int
    """At least that of its text, in UTF-16 units."""


def outline_of(chunks: Sequence[Chunk], weights: Weights, background: Background | None) -> Outline:
    """Each line beside all that its file holds, with the best vector of the file."""
    coverage = weights.coverage
    held = reduce(or_, [concepts for chunk in chunks for concepts in chunk.held], 0)
    cosines = [excerpt.cosine for chunk in chunks for excerpt in chunk.candidate.excerpts]
    cosine = max(cosines, default=0.0)
    words = []
    for chunk in chunks:
        context = chunk.context
        around = NEIGHBOUR_WEIGHT * coverage(held | context) + CHUNK_WEIGHT * chunk.score
        for concepts in set(chunk.held):
            told = LINE_WEIGHT * coverage(concepts | context) + around
            words.append((told, chunk.held.count(concepts)))
    return Outline(
        held,
        max(0.0, cosine),
        max(0.0, background.place(cosine)) if background else 0.0,
        words,
        _UTF16_UNITS * sum(len(chunk.candidate.text) for chunk in chunks),
    )


def bounds_of(outline: Outline, lanes: Lanes, complete: Completeness, *, max_chars: int) -> Bounds:
    """The odds of a line grow with its length to the power of `e`. By Hoelder's inequality those of lines
    which together are no longer than a snippet add up to at most the norm of their odds in the space of
    the power `1 / (1 - e)`; of one that is longer, to its odds times its length.
    """
    text = lanes.text
    by_vector = lanes.vector * VECTOR_WEIGHT * (1 + NOTE_SHARE) * outline.deviations
    norm = sum(
        [lines * math.expm1(text * told + by_vector) ** _NORM for told, lines in outline.words]
    )
    highest = max([told for told, _ in outline.words], default=0.0)
    longest = math.expm1(text * highest + by_vector)
    longest *= (outline.length / max_chars) ** LENGTH_EXPONENT
    mass = max(norm ** (1 / _NORM), longest) * complete(outline.held)
    return Bounds(highest / TEXT_WEIGHT * _MARGIN, outline.cosine, mass * _MARGIN)


class Lines(NamedTuple):
    """Of one file, whatever the lanes count."""

    units: Sequence[Unit]
    evidence: Sequence[Evidence]
    ends: Sequence[int]
    """See `ends_of`."""


class Proposal:
    """The candidates of one file; cut into lines when that is asked for, once."""

    def __init__(
        self,
        key: FileKey,
        chunks: Sequence[Chunk],
        weights: Weights,
        background: Background | None,
        shown: Sequence[tuple[int, int]],
        *,
        max_chars: int,
    ) -> None:
        """`shown`: from which character to which the file was shown so far; it grows."""
        self.key = key
        self.outline = outline_of(chunks, weights, background)
        self._chunks = chunks
        self._weights = weights
        self._background = background
        self._shown = shown
        self._max_chars = max_chars

    @cached_property
    def lines(self) -> Lines:
        units = units_of(self._chunks)
        evidence = weigh_units(units, self._weights, self._background)
        return Lines(units, evidence, ends_of(units, self._max_chars))

    def weighed(self, lanes: Lanes, complete: Completeness) -> File:
        units, evidence, _ = self.lines
        odds = weighted_odds(units, evidence, lanes, max_chars=self._max_chars)
        return self.with_odds(odds, complete)

    def with_odds(self, odds: Sequence[float], complete: Completeness) -> File:
        units, evidence, ends = self.lines
        odds = aged_odds(units, evidence, odds)
        file = File(*self.key, units, evidence, odds, complete, ends)
        for start, end in self._shown:
            file.take(start, end)
        return file


class Prospect:
    """A proposal under the weights of some lanes: what it offers at most, and all that it does."""

    def __init__(self, bounds: Bounds, weigh: Callable[[], File]) -> None:
        self.bounds = bounds
        self._weigh = weigh

    @property
    def most_mass(self) -> float:
        return self.bounds.mass

    @cached_property
    def file(self) -> File:
        return self._weigh()
