"""What the candidates of one file can offer at most, known before they are cut into lines and weighed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from itertools import compress
from operator import or_
from typing import Final

import msgspec

from backends.ranking.evidence import (
    CHUNK_WEIGHT,
    LABEL_WEIGHT,
    LEAST_TOLD,
    LINE_WEIGHT,
    NEIGHBOUR_WEIGHT,
    NOTE_SHARE,
    QUESTION_MARKS,
    REPLY_WEIGHT,
    TEXT_WEIGHT,
    TIME_WEIGHT,
    VECTOR_WEIGHT,
    Background,
    Chunk,
    Evidence,
    FileKey,
    Lanes,
    Unit,
    aged_odds,
    around,
    text_weight,
    units_of,
    weigh_units,
    weighted_odds,
)
from backends.ranking.passages import File
from backends.ranking.query import Weights

_MARGIN: Final = 1 + 1e-9
"""Bounds are computed in another order than what they bound."""


class Outline(msgspec.Struct, frozen=True, gc=False):
    """What bounds the lines of a file, whatever the lanes count."""

    deviations: float
    """What the best of its vectors tells: 0 or more, see `Background.place`."""
    words: list[tuple[float, float, int]]
    """`Evidence.text` and `Evidence.signs`, at most, each with the number of lines it holds for."""
    information: float
    """The information content of the query, see `Weights.total`."""


def outline_of(
    chunks: Sequence[Chunk],
    weights: Weights,
    background: Background | None,
    *,
    asks_when: bool,
) -> Outline:
    """Each line beside what stands near it, with the best vector of the file."""
    coverage = weights.coverage
    cosines = [excerpt.cosine for chunk in chunks for excerpt in chunk.candidate.excerpts]
    cosine = max(cosines, default=0.0)
    words = []
    signs = TIME_WEIGHT if asks_when else 0.0
    if any(mark in chunk.candidate.text for chunk in chunks for mark in QUESTION_MARKS):
        signs += REPLY_WEIGHT
    beyond = reduce(or_, [concepts for chunk in chunks for concepts in chunk.held], 0)
    for chunk in chunks:
        context, by_chunk = chunk.context, CHUNK_WEIGHT * chunk.score
        for (own, near, is_label), lines in _lines_of(
            chunk, beyond if len(chunks) > 1 else 0
        ).items():
            told = LINE_WEIGHT * coverage(own | context) + NEIGHBOUR_WEIGHT * coverage(
                near | context
            )
            most_signs = signs + LABEL_WEIGHT if is_label else signs
            words.append(((told + by_chunk) / TEXT_WEIGHT, most_signs, lines))
    deviations = max(0.0, background.place(cosine)) if background else 0.0
    return Outline(deviations, words, weights.total)


def _lines_of(chunk: Chunk, beyond: int) -> Counter[tuple[int, int, bool]]:
    """What each line and its surroundings hold at most, and whether its label was asked for, with the number
    of such lines.

    `beyond`: what may stand before and after the chunk. Lines without terms, which may be blank, are no
    neighbours here, so that more distant ones are.
    """
    terms = chunk.candidate.terms.split("\n")
    held = list(compress(chunk.held, terms))
    labels = map(bool, compress(chunk.labels, terms))
    found = Counter(zip(held, around([beyond, *held, beyond])[1:-1], labels, strict=True))
    if len(held) < len(terms):
        lines = chunk.candidate.text.removesuffix("\n").split("\n")
        blank = lines.count("") if len(lines) == len(terms) else 0
        found[0, reduce(or_, held, beyond), False] += len(terms) - len(held) - blank
    return found


def most_mass(outline: Outline, lanes: Lanes) -> float:
    """No selection of the file's lines has more mass (`Selection.mass`): as if all of them fitted into one snippet.
    What they may cost says little more, and takes longer to know.
    """
    text = text_weight(lanes, outline.information)
    by_vector = lanes.vector * VECTOR_WEIGHT * (1 + NOTE_SHARE) * outline.deviations
    mass = sum(
        [
            lines * math.expm1(max(LEAST_TOLD, text * told + by_vector + lanes.text * signs))
            for told, signs, lines in outline.words
            if told > 0 or by_vector > 0
        ]
    )
    return mass * _MARGIN


class Weighed(msgspec.Struct, frozen=True, gc=False):
    """The units of one file and their evidence, whatever the lanes count."""

    units: Sequence[Unit]
    evidence: Sequence[Evidence]


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
        asks_when: bool,
    ) -> None:
        """`shown`: from which character to which the file was shown so far; it grows."""
        self.key = key
        self.outline = outline_of(chunks, weights, background, asks_when=asks_when)
        self._chunks = chunks
        self._weights = weights
        self._background = background
        self._shown = shown
        self._max_chars = max_chars
        self._asks_when = asks_when

    @cached_property
    def lines(self) -> Weighed:
        units = units_of(self._chunks)
        evidence = weigh_units(units, self._weights, self._background, asks_when=self._asks_when)
        return Weighed(units, evidence)

    def weighed(self, lanes: Lanes) -> File:
        odds = weighted_odds(self.lines.evidence, lanes, information=self._weights.total)
        return self.with_odds(odds)

    def with_odds(self, odds: Sequence[float]) -> File:
        units, evidence = self.lines.units, self.lines.evidence
        odds = aged_odds(units, evidence, odds)
        file = File(*self.key, units, evidence, odds, self._max_chars)
        for start, end in self._shown:
            file.take(start, end)
        return file


class Prospect:
    """A proposal under the weights of some lanes: what it offers at most, and all that it does."""

    def __init__(self, most_mass: float, weigh: Callable[[], File]) -> None:
        self.most_mass = most_mass
        self._weigh = weigh

    @cached_property
    def file(self) -> File:
        return self._weigh()
