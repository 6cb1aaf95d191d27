"""The evidence that a line is the answer: its words, its surroundings, its vector."""

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
from backends.ranking.lines import Unit, is_cue
from backends.ranking.names import MOST_TITLE, NAMING, Names
from backends.ranking.query import Weights
from backends.text.frontmatter import is_field
from backends.text.times import mentions_time

NOISE: Final = 2.0
"""The variance of cosines, relative to that of random directions, up to which a model distinguishes nothing; words that
texts share widen it a little even for hashed words.
"""
LEAST_TRUST: Final = 0.001
"""The trust in a model that distinguishes nothing: enough to show its results where words find none, too little to
change the order of what words find.
"""

NEAR: Final = 3.7
"""A text this many times farther from texts in general than from the query means the same as often as not."""
MOST_DEVIATIONS: Final = 100.0
"""The most standard deviations; no model that distinguishes texts comes near. Where nearly all texts have one vector,
the distance of another one would overflow as an exponent.
"""


class Background(msgspec.Struct, frozen=True, dict=True):
    """The distribution of a query's cosines with texts in general: what is high for this query and model."""

    mean: float
    deviation: float
    dimensions: int

    @cached_property
    def trust(self) -> float:
        """`LEAST_TRUST` to 1: the share of the variance that is not noise.

        The cosine of independent random directions has the variance 1/dimensions. A model that distinguishes meanings
        spreads its cosines wider; hashed words hardly do.
        """
        noise, variance = NOISE / self.dimensions, self.deviation**2
        return max(LEAST_TRUST, 1.0 - noise / variance) if variance > noise else LEAST_TRUST

    def place(self, cosine: float | None) -> float:
        """Returns a cosine in standard deviations above the mean, times the trust in the model; 0 if unknown.

        At most `MOST_DEVIATIONS`.
        """
        if cosine is None or not self.deviation:
            return 0.0
        return min(MOST_DEVIATIONS, self.trust * (cosine - self.mean) / self.deviation)

    def nearness(self, cosine: float | None) -> float:
        """Returns the odds of the same meaning, by how far a cosine is on the way from texts in general to the query:
        next to nothing halfway, even at four fifths; 0 if unknown.
        """
        if cosine is None or cosine <= self.mean:
            return 0.0
        left = max(1e-3, 1 - cosine)
        return self.trust * ((cosine - self.mean) / left / NEAR) ** 3


class LaneWeights(msgspec.Struct, frozen=True, gc=False):
    """The weight of each lane, relative to the stronger one."""

    text: float
    vector: float

    @classmethod
    def of(cls, text_weight: float, vector_weight: float) -> LaneWeights:
        """Returns the weights for those of the settings, whose defaults 0.3 and 0.7 give the measured balance."""
        text, vector = text_weight / 0.3, vector_weight / 0.7
        highest = max(text, vector)
        return cls(text / highest, vector / highest) if highest else cls(1.0, 0.0)


KEYWORDS_ONLY: Final = LaneWeights(1.0, 0.0)


FULL_COVERAGE: Final = 1.0 - 1e-9
USUAL_INFORMATION: Final = 20.0
"""The nats that a question usually asks for. One that asks for less, or more, counts as its geometric mean with this: a
long prompt, and the character bigrams of a script without word spaces, say much beside the question.
"""
LEAST_INFORMATION: Final = 9.0
"""The fewest nats that a question counts as: a single word that is found counts more than a vector that stands out."""
AROUND_LINES: Final = 1
"""The number of lines before, and after, that surround a line."""
SHORTEST: Final = 16
LONGEST: Final = 700
_USUAL: Final = 80
"""UTF-16 units: length counts between the first two, and leaves a line of `_USUAL` as it is."""


@cache
def _of_length(power: float) -> Sequence[float]:
    """Returns the evidence from the length of a line, for each length up to `LONGEST`."""
    return [power * math.log(max(length, SHORTEST) / _USUAL) for length in range(LONGEST + 1)]


RRF_K: Final = 2
"""Constant of reciprocal rank fusion (Cormack et al., 2009); small, since only the top counts."""

Strategy = Literal["weighted", "rrf"]


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """The evidence for one unit."""

    text: float
    """The share of the most that words could contribute: 0..1."""
    vector: float
    """The contribution of vectors, in nats."""
    prior: float = 0.0
    """The prior of the line for any question, in nats; it counts only with evidence from words or vectors."""
    is_full: bool = False
    """True if the line and those around it contain everything that was asked for: then age does not matter."""
    names_subject: bool = False
    """True if the line is a heading, or the like: many notes have the same, with other text below it."""


NO_EVIDENCE: Final = Evidence(0.0, 0.0)


_QUESTION_MARKS: Final = ("?", "？", "؟", "፧", "\u037e", ";")
_GREEK: Final = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")


def is_question(line: str) -> bool:
    """Returns whether a line ends with a question mark, which in Greek is mostly a semicolon."""
    end = line.rstrip()
    return end.endswith(_QUESTION_MARKS) and (end[-1] != ";" or bool(_GREEK.match(end[-2:])))


def weigh_units(
    units: Sequence[Unit],
    weights: Weights,
    background: Background | None,
    *,
    best_before: float = 0.0,
    names: Sequence[str] = (),
    asks_when: bool = False,
) -> list[Evidence]:
    """Returns the evidence of each unit of the file with these names, in order. Those that say nothing have none and
    are no neighbours. `best_before`: the score of the best of its chunks that were weighed before.
    """
    found = [NO_EVIDENCE] * len(units)
    lines = [at for at, unit in enumerate(units) if unit.text.strip(_SIGNS).strip()]
    lines = [
        at
        for at in lines
        if not units[at].text[0].isdigit() or units[at].concepts or not is_cue(units, at)
    ]
    by_line = [units[at].concepts for at in lines]
    meanings = _meanings(units, background)
    coverage = weights.coverage
    of_file = learnt.FILE * max([best_before, *(unit.chunk_score for unit in units)])
    of_line, of_around, of_chunk = learnt.LINE, learnt.AROUND, learnt.CHUNK
    of_length, most = _of_length(learnt.LENGTH), learnt.text()
    # A trusted model shows the same by itself.
    of_concept = learnt.HELD * (1 - background.trust if background else 1)
    named = Names(weights, names, units, lines)
    for number, (at, own, near) in enumerate(
        zip(lines, by_line, _around_fences(units, lines, by_line), strict=True)
    ):
        unit = units[at]
        line = unit.text
        begins = not number or unit.start - units[at - 1].end > 1
        may_name = begins or named.is_in_item or unit.length <= MOST_TITLE or line[0] in NAMING
        is_named = may_name and named.read(number, begins=begins)
        meaning = meanings[unit.cosine]
        if not (near or unit.context or meaning > 0):
            continue
        # Front matter names the note, except for a field that was asked for.
        in_front = at < named.text_start and not (unit.is_labelled and is_field(line))
        names_subject = in_front or is_named
        names_subject = names_subject or (
            ("[[" in line or ".md)" in line) and re.fullmatch(_LINKS, line) is not None
        )
        # Under a heading, or front matter, without a word of the question, lines may answer; the heading does not.
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
        if number and is_question(units[lines[number - 1]].text):
            prior += learnt.REPLY
        if asks_when and mentions_time(line):
            prior += learnt.TIME
        is_full = near > 0 and covered >= FULL_COVERAGE
        found[at] = Evidence(text, meaning, prior, is_full, bool(is_named))
    return found


_SIGNS: Final = " \t\r-=*_+>|:."
"""A line that consists of these alone says nothing."""
_LINKS: Final = (
    r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:[^\[\]:\n]{1,40}:[ \t]+)?"
    r"(?:(?:!?\[\[[^\[\]\n]*\]\]|\[[^\[\]\n]*\]\([^():\n]*\.md\))[\s,·|]*)+(?:[—–-] .*)?"
)
"""A line of a table of contents, which may say what is there: it names notes, and those answer."""


FENCES: Final = ("```", "~~~")


def _around_fences(
    units: Sequence[Unit], lines: Sequence[int], concepts: Sequence[int]
) -> Sequence[int]:
    """Returns the same as `_around`, where a fence is no line in between: what is said above code is said of it."""
    fences = [
        number
        for number, at in enumerate(lines)
        if not concepts[number] and units[at].text.lstrip().startswith(FENCES)
    ]
    if not fences:
        return _around(concepts)
    left_out = set(fences)
    said = [number for number in range(len(lines)) if number not in left_out]
    found = [0] * len(lines)
    for number, around in zip(said, _around([concepts[number] for number in said]), strict=True):
        found[number] = around
    return found


def _around(concepts: Sequence[int]) -> list[int]:
    """Returns the concepts of each line together with those of the `AROUND_LINES` before and after it."""
    padding = [0] * AROUND_LINES
    padded = [*padding, *concepts, *padding]
    found = list(concepts)
    for shift in range(2 * AROUND_LINES + 1):
        found = list(map(or_, found, islice(padded, shift, None)))
    return found


def _meanings(units: Sequence[Unit], background: Background | None) -> dict[float | None, float]:
    """Returns the contribution in nats by cosine, which many lines have in common."""
    cosines = {unit.cosine for unit in units if unit.cosine is not None}
    if background is None or not cosines:
        return {unit.cosine: 0.0 for unit in units}
    best = background.place(max(cosines))
    return {one: learnt.MEANING * (background.place(one) + best) for one in (None, *cosines)}


def weighted_odds(
    evidence: Sequence[Evidence], lanes: LaneWeights, *, information: float
) -> list[float]:
    """Returns the odds of each line relative to an unrelated one; 0 without evidence.

    `information`: the information content of the query in nats, `Weights.total`. A question that says more is answered
    by text that contains more of it.
    """
    nats = (
        lanes.text
        * learnt.text()
        * math.sqrt(USUAL_INFORMATION * max(LEAST_INFORMATION, information))
    )
    return [
        math.expm1(total) * math.exp(one.prior)
        if (total := nats * one.text + lanes.vector * one.vector) > 0
        else 0.0
        for one in evidence
    ]


def ranked_odds(files: Sequence[Sequence[Evidence]], lanes: LaneWeights) -> list[list[float]]:
    """Returns the same by reciprocal rank fusion: from the ranks of the units in each lane, over all files."""
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
    """Returns the odds reduced by age. Where all that was asked for is found they stay as they are, unless the last
    time is asked for.
    """
    if {unit.freshness for unit in units} <= {1.0}:
        return odds
    return [
        value if one.is_full and not asks_last else value * unit.freshness
        for unit, one, value in zip(units, evidence, odds, strict=True)
    ]


def _reciprocal_ranks(scores: Sequence[float]) -> dict[float, float]:
    """Returns `(k + 1) / (k + rank)` by score. Equal scores share a rank; a score of 0 or less gives 0."""
    ordered = sorted(set(scores), reverse=True)
    return {
        score: (RRF_K + 1) / (RRF_K + rank) if score > 0 else 0.0
        for rank, score in enumerate(ordered, 1)
    }
