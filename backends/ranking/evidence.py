"""How much a line speaks for being the answer: its words, its surroundings, its vector."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache, cached_property
from itertools import islice
from operator import or_
from typing import Final, Literal

import msgspec

from backends.ranking import learnt
from backends.ranking.lines import Unit
from backends.ranking.names import MOST_TITLE, NAMING, Names
from backends.ranking.query import Weights
from backends.text.frontmatter import is_field
from backends.text.times import tells_time

NOISE: Final = 2.0
"""The variance of cosines, in units of what random directions have, up to which a model tells nothing;
that texts share words widens it a little even for hashed words."""
LEAST_TRUST: Final = 0.001
"""What a model gets that tells nothing: enough to show its finds where words find none, too little to
change the order of what words find."""

NEAR: Final = 3.7
"""How many times as far from texts at large as from the query a text is that means the same as often as not."""
MOST_DEVIATIONS: Final = 100.0
"""No model that tells anything apart comes near. Where nearly all texts have one vector, the distance of
another one would be beyond floats once it is an exponent."""


class Background(msgspec.Struct, frozen=True, dict=True):
    """The cosines that a query has to texts at large: what is high for this query and this model."""

    mean: float
    deviation: float
    dimensions: int

    @cached_property
    def trust(self) -> float:
        """`LEAST_TRUST` to 1: the share of the variance that is no noise.

        The cosine of independent random directions has the variance 1/dimensions. A model that tells
        meanings apart spreads its cosines wider; hashed words hardly do.
        """
        noise, variance = NOISE / self.dimensions, self.deviation**2
        return max(LEAST_TRUST, 1.0 - noise / variance) if variance > noise else LEAST_TRUST

    def place(self, cosine: float | None) -> float:
        """In standard deviations above the mean, trusted as far as the model is; 0 if unknown.

        At most `MOST_DEVIATIONS`.
        """
        if cosine is None or not self.deviation:
            return 0.0
        return min(MOST_DEVIATIONS, self.trust * (cosine - self.mean) / self.deviation)

    def nearness(self, cosine: float | None) -> float:
        """Odds of meaning the same, from how much of the way from texts at large to the query is covered: next to
        nothing at half of it, even at four fifths; 0 if unknown.
        """
        if cosine is None or cosine <= self.mean:
            return 0.0
        left = max(1e-3, 1 - cosine)
        return self.trust * ((cosine - self.mean) / left / NEAR) ** 3


class Lanes(msgspec.Struct, frozen=True, gc=False):
    """How much each lane counts; the stronger one counts whole."""

    text: float
    vector: float

    @classmethod
    def of(cls, text_weight: float, vector_weight: float) -> Lanes:
        """From the documented weights, whose defaults 0.3 and 0.7 give the measured balance."""
        text, vector = text_weight / 0.3, vector_weight / 0.7
        highest = max(text, vector)
        return cls(text / highest, vector / highest) if highest else cls(1.0, 0.0)


KEYWORDS_ONLY: Final = Lanes(1.0, 0.0)


FULL_COVERAGE: Final = 1.0 - 1e-9
USUAL_INFORMATION: Final = 20.0
"""Nats that a question asks for. One that asks for less, or more, counts as its geometric mean with that: a long
prompt, and the pairs of characters of a script without word spaces, say much beside what is asked.
"""
LEAST_INFORMATION: Final = 9.0
"""Nats: a single word that is found counts more than a vector that stands out."""
AROUND_LINES: Final = 1
"""Lines before, and after, that are around one."""
SHORTEST: Final = 16
LONGEST: Final = 700
_USUAL: Final = 80
"""UTF-16 units: the lengths between which length counts, and that of a line that it leaves as it is."""


@cache
def _of_length(power: float) -> Sequence[float]:
    """What the length of a line tells, up to `LONGEST`."""
    return [power * math.log(max(length, SHORTEST) / _USUAL) for length in range(LONGEST + 1)]


RRF_K: Final = 2
"""Constant of reciprocal rank fusion (Cormack et al., 2009); small, since only the top counts."""

Strategy = Literal["weighted", "rrf"]


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """What speaks for one unit."""

    text: float
    """The share of what words could tell at most: 0..1."""
    vector: float
    """What vectors tell, in nats."""
    prior: float = 0.0
    """What the line itself tells whatever was asked, in nats, if anything above does."""
    is_full: bool = False
    """Whether the line and those around it hold everything that was asked for: age does not touch it."""


NO_EVIDENCE: Final = Evidence(0.0, 0.0)


QUESTION_MARKS: Final = ("?", "？", "؟")


def weigh_units(
    units: Sequence[Unit],
    weights: Weights,
    background: Background | None,
    *,
    names: Sequence[str] = (),
    asks_when: bool = False,
) -> list[Evidence]:
    """The evidence of each unit of the file with these names, in order; what says nothing has none, nor neighbours."""
    found = [NO_EVIDENCE] * len(units)
    lines = [at for at, unit in enumerate(units) if unit.text.strip(_SIGNS).strip()]
    held = [units[at].concepts for at in lines]
    told = _meanings(units, background)
    coverage = weights.coverage
    of_file = learnt.FILE * max([unit.chunk_score for unit in units], default=0.0)
    of_line, of_around, of_chunk = learnt.LINE, learnt.AROUND, learnt.CHUNK
    of_length, most = _of_length(learnt.LENGTH), learnt.text()
    # A model that is trusted tells the same by itself.
    of_concept = learnt.HELD * (1 - background.trust if background else 1)
    named = Names(weights, names, units, lines)
    for number, (at, own, near) in enumerate(zip(lines, held, _around(held), strict=True)):
        unit = units[at]
        line = unit.text
        begins = not number or unit.start - units[at - 1].end > 1
        may_name = begins or named.is_in_item or unit.length <= MOST_TITLE or line[0] in NAMING
        is_named = may_name and named.read(number, begins=begins)
        meaning = told[unit.cosine]
        if not (near or unit.context or meaning > 0):
            continue
        # What front matter says of the note names it, but for a field that was asked for.
        in_front = at < named.text_start and not (unit.is_labelled and is_field(line))
        names_subject = in_front or is_named
        names_subject = names_subject or (
            "[[" in line and re.fullmatch(_LINKS_ONLY, line) is not None
        )
        # Below a heading, or front matter, that says nothing of what was asked, lines answer; the heading does not.
        around = own and own | unit.context if names_subject else near | unit.context
        if not (around or meaning > 0):
            continue
        text = covered = 0.0
        if around:
            covered = coverage(around)
            words = of_line * coverage(own) + of_around * covered + of_chunk * unit.chunk_score
            text = (words + of_file) / most
        prior = of_length[min(unit.length, LONGEST)] + of_concept * own.bit_count()
        prior += learnt.HEADING if names_subject else learnt.NAMED * named.fit
        if unit.is_labelled:
            prior += learnt.LABEL
        if number and units[lines[number - 1]].text.rstrip().endswith(QUESTION_MARKS):
            prior += learnt.REPLY
        if asks_when and tells_time(line):
            prior += learnt.TIME
        found[at] = Evidence(text, meaning, prior, near > 0 and covered >= FULL_COVERAGE)
    return found


_SIGNS: Final = " \t\r-=*_+>|:."
"""A line of these alone says nothing."""
_LINKS_ONLY: Final = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:[^\[\]:\n]{1,40}:[ \t]+)?(?:!?\[\[[^\[\]\n]*\]\][\s,·|]*)+"
"""A line of a contents page: it names notes, and these answer."""


def _around(held: Sequence[int]) -> list[int]:
    """What each line holds together with the `AROUND_LINES` before and after it."""
    padding = [0] * AROUND_LINES
    padded = [*padding, *held, *padding]
    found = list(held)
    for shift in range(2 * AROUND_LINES + 1):
        found = list(map(or_, found, islice(padded, shift, None)))
    return found


def _meanings(units: Sequence[Unit], background: Background | None) -> dict[float | None, float]:
    """By cosine, of which many lines have the same, what it tells in nats."""
    cosines = {unit.cosine for unit in units if unit.cosine is not None}
    if background is None or not cosines:
        return {unit.cosine: 0.0 for unit in units}
    best = background.place(max(cosines))
    return {one: learnt.MEANING * (background.place(one) + best) for one in (None, *cosines)}


def weighted_odds(evidence: Sequence[Evidence], lanes: Lanes, *, information: float) -> list[float]:
    """The odds of each line above those of an unrelated one; 0 where nothing speaks for it.

    `information`: how much the query asks for, in nats: `Weights.total`. A question that says more is answered by
    what holds more of it.
    """
    nats = (
        lanes.text
        * learnt.text()
        * math.sqrt(USUAL_INFORMATION * max(LEAST_INFORMATION, information))
    )
    return [
        math.expm1(told) * math.exp(one.prior)
        if (told := nats * one.text + lanes.vector * one.vector) > 0
        else 0.0
        for one in evidence
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


def aged_odds(
    units: Sequence[Unit],
    evidence: Sequence[Evidence],
    odds: Sequence[float],
    *,
    asks_last: bool = False,
) -> Sequence[float]:
    """What age leaves of the odds; all of them where everything that was asked for is found, and not the last time."""
    if {unit.freshness for unit in units} <= {1.0}:
        return odds
    return [
        value if one.is_full and not asks_last else value * unit.freshness
        for unit, one, value in zip(units, evidence, odds, strict=True)
    ]


def _reciprocal_ranks(scores: Sequence[float]) -> dict[float, float]:
    """`(k + 1) / (k + rank)` by score, equal scores share a rank; nothing for a score of 0 or less."""
    ordered = sorted(set(scores), reverse=True)
    return {
        score: (RRF_K + 1) / (RRF_K + rank) if score > 0 else 0.0
        for rank, score in enumerate(ordered, 1)
    }
