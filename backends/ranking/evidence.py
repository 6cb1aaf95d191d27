"""How much a line speaks for being the answer, from its words, its surroundings and its vector.

Each line gets the logarithm of its odds against an unrelated line: a linear model with round weights;
recall is flat around them, and `docs/benchmarks.md` says how they were chosen. The odds of lines add up, so
a passage is worth the sum over its lines: several half answers can outweigh a whole one, most of all where
they answer different halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from operator import or_
from typing import Final, Literal

import msgspec

from backends.ranking.lanes import Background, Lanes
from backends.ranking.units import Unit
from backends.ranking.weights import Weights

LINE_WEIGHT: Final = 3.0
"""For a line that holds all of the query's information content."""
NEIGHBOUR_WEIGHT: Final = 2.5
"""For a line that holds it together with the `NEIGHBOURS` lines before and after."""
NEIGHBOURS: Final = 2
FULL_COVERAGE: Final = 1.0 - 1e-9
CHUNK_WEIGHT: Final = 10.0
"""For a chunk with the highest BM25 that the query could reach."""
TEXT_WEIGHT: Final = LINE_WEIGHT + NEIGHBOUR_WEIGHT + CHUNK_WEIGHT
LENGTH_EXPONENT: Final = 0.25
"""A line twice as long answers more often, but by far not twice as often."""
VECTOR_WEIGHT: Final = 1.0
"""For each standard deviation of the query's cosines, of a model that is wholly trusted."""
NOTE_SHARE: Final = 0.25
"""How much of what the vector of a note's best excerpt tells holds for every line of it."""
PASSAGE_WEIGHT: Final = 1.0
"""For a passage whose lines together hold all of the query's information content."""
RRF_K: Final = 2
"""Constant of reciprocal rank fusion (Cormack et al., 2009); small, since only the top counts."""

Strategy = Literal["weighted", "rrf"]
Completeness = Callable[[int], float]
"""By the set of concepts that a passage holds, the share of its odds that it keeps: 1 for all."""


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """Of one unit."""

    text: float
    """The share of what words could tell at most: 0..1."""
    vector: float
    """Standard deviations, see `Background.place`."""
    is_full: bool = False
    """Whether the line and its neighbours hold everything that was asked for: age does not touch it."""


NO_EVIDENCE: Final = Evidence(0.0, 0.0)


def weigh_units(
    units: Sequence[Unit], weights: Weights, background: Background | None
) -> list[Evidence]:
    """The evidence of each unit of one file, in order; blank ones have none and lie between none.

    What stands in path, title, date and headings is said of every line below them.
    """
    found = [NO_EVIDENCE] * len(units)
    lines = [at for at, unit in enumerate(units) if unit.text and not unit.text.isspace()]
    held = [units[at].concepts for at in lines]
    coverage = weights.coverage
    place = _places(units, background)
    for at, own, around in zip(lines, held, _around(held), strict=True):
        unit = units[at]
        covered = coverage(around | unit.context)
        text = 0.0
        if around or unit.is_named:
            text = (
                LINE_WEIGHT * coverage(own | unit.context)
                + NEIGHBOUR_WEIGHT * covered
                + CHUNK_WEIGHT * unit.chunk_score
            ) / TEXT_WEIGHT
        is_full = around > 0 and covered >= FULL_COVERAGE
        found[at] = Evidence(text, place[unit.cosine], is_full)
    return found


def _around(held: Sequence[int]) -> list[int]:
    """What each line holds together with the `NEIGHBOURS` before and after it."""
    padding = [0] * NEIGHBOURS
    padded = [*padding, *held, *padding]
    around = list(held)
    for shift in range(2 * NEIGHBOURS + 1):
        around = list(map(or_, around, islice(padded, shift, None)))
    return around


def _places(units: Sequence[Unit], background: Background | None) -> dict[float | None, float]:
    """By cosine, of which many lines have the same, what it tells."""
    cosines = {unit.cosine for unit in units if unit.cosine is not None}
    if background is None or not cosines:
        return {unit.cosine: 0.0 for unit in units}
    of_note = NOTE_SHARE * background.place(max(cosines))
    return {cosine: background.place(cosine) + of_note for cosine in (None, *cosines)}


def weighted_odds(
    units: Sequence[Unit], evidence: Sequence[Evidence], lanes: Lanes, *, max_chars: int
) -> list[float]:
    """The odds of each unit above those of an unrelated one; 0 where nothing speaks for it."""
    text, vector = lanes.text * TEXT_WEIGHT, lanes.vector * VECTOR_WEIGHT
    return [
        math.expm1(told) * (unit.length / max_chars) ** LENGTH_EXPONENT
        if (told := text * one.text + vector * one.vector) > 0
        else 0.0
        for unit, one in zip(units, evidence, strict=True)
    ]


def ranked_odds(files: Sequence[Sequence[Evidence]], lanes: Lanes) -> list[list[float]]:
    """The same from the units' ranks in either lane, over all files: reciprocal rank fusion."""
    every = [one for file in files for one in file]
    text = _reciprocal_ranks([one.text for one in every])
    vector = _reciprocal_ranks([one.vector for one in every])
    return [
        [lanes.text * text[one.text] + lanes.vector * vector[one.vector] for one in file]
        for file in files
    ]


def completeness(weights: Weights, lanes: Lanes) -> Completeness:
    weight = lanes.text * PASSAGE_WEIGHT
    return cache(lambda concepts: math.exp(weight * (weights.coverage(concepts) - 1.0)))


def aged_odds(
    units: Sequence[Unit], evidence: Sequence[Evidence], odds: Sequence[float]
) -> Sequence[float]:
    """What age leaves of the odds; all of them where everything that was asked for is found."""
    if {unit.freshness for unit in units} <= {1.0}:
        return odds
    return [
        value if one.is_full else value * unit.freshness
        for unit, one, value in zip(units, evidence, odds, strict=True)
    ]


def _reciprocal_ranks(scores: Sequence[float]) -> dict[float, float]:
    """`(k + 1) / (k + rank)` by score, equal scores share a rank; nothing for a score of 0 or less."""
    ordered = sorted(set(scores), reverse=True)
    return {
        score: (RRF_K + 1) / (RRF_K + rank) if score > 0 else 0.0
        for rank, score in enumerate(ordered, 1)
    }
