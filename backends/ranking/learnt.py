"""What ranking learnt from all families of notes at once, each counting the same: weights, and how likely a passage
answers. Pure.

The weights are learnt by `./scripts/fit_ranking`. What words and vectors tell is in nats and adds up; what makes a line
likelier to be an answer whatever was asked multiplies. How likely a passage answers is a logistic regression on
passages with questions that have no answer among them, by words and with vectors: `./scripts/fit_scores` learns it, and
`./scripts/bench recall --reliability` says how true it is. All are read where they are used, as `learnt.LINE`, so that
the scripts can try others.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from backends.interface import Confidence

LINE = 0.15
"""For each nat of the question's information that a line itself holds."""
AROUND = 0.2
"""For each that it holds together with the lines beside it, and with its title, date and headings."""
CHUNK = 0.15
"""For each that its chunk holds by BM25."""
FILE = 0.23
"""For each that the best chunk of its file holds by BM25."""
MEANING = 0.83
"""For each standard deviation of the query's cosines that its excerpt stands out, of a model that is wholly trusted;
and as much for the best excerpt of its note."""
LENGTH = 0.5
"""The power of its length with which a line is likelier to answer: a long one says more than what was asked."""
HELD = 0.25
"""For each concept of the question that a line itself holds, whatever it weighs, where no model tells what it means."""
HEADING = -3.6
"""For a heading: it names a subject, and what stands below it answers."""
NAMED = 4.0
"""For a line of a section, or of a note, whose name is what was asked for, see `Weights.fit`: half of that where a
section below has another name."""
LABEL = 2.0
"""For a line that is said by, or is about, what was asked for."""
REPLY = 0.55
"""For a line after one that asks."""
TIME = 1.5
"""For a line that tells a time, where that is asked for."""
RECENT = 1.1
"""The power with which a whole prompt means what was noted last: a note a month older than the newest one that may be
meant counts half, one a year older a fifteenth."""
AGAIN = 0.8
"""What a further passage of a file counts of what it would count in another one."""

CONSTANT = -2.81
SHARE = 0.82
"""For each nat of its share of all that speaks for any line of the first candidates ..."""
SHARE_BY_MODEL = -0.31
"""... and so much less where a model that is wholly trusted spreads it."""
BEST_LINE = 3.87
"""For the share of the question's information content that one line of it holds."""
INFORMATION = 0.57
"""For each nat of the logarithm of what the question asks for."""
STANDS_OUT = 0.52
"""For each standard deviation that its vector stands out."""
BY_MODEL = -1.29
"""Where there is a model that is wholly trusted."""

LEAST_SCORE: Final = 0.35
"""The documented default of `minScore`: what neither words nor a vector relate to the question scores less."""
EVEN: Final = 0.5
"""From here on a score is the probability that the passage answers. What is less likely lies between `LEAST_SCORE` and
this, in the same order."""
MAYBE: Final = 1 / 6
"""The probability from which a passage may answer."""


def text() -> float:
    """What words can tell at most, for each nat."""
    return LINE + AROUND + CHUNK + FILE


class Signs(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What tells whether a passage answers."""

    share: float
    """Nats, 0 or less: its share of all that speaks for any line of the first candidates."""
    best_line: float
    """The share of the question's information content that one line of it holds: 0..1; nought where there are
    headings alone, which answer nothing."""
    information: float
    """The logarithm of what the question asks for, in nats."""
    trust: float = 0.0
    """In the model: 0, as without vectors, to 1."""
    stands_out: float = 0.0
    """By how many standard deviations its vector does."""
    nearness: float = 0.0
    """Odds that its vector means the same as that of the question."""


def likelihood(signs: Signs) -> float:
    """The probability that the passage answers: 0..1."""
    evidence = CONSTANT + SHARE * signs.share + BEST_LINE * signs.best_line
    evidence += INFORMATION * signs.information + STANDS_OUT * signs.stands_out
    evidence += signs.trust * (BY_MODEL + SHARE_BY_MODEL * signs.share)
    odds = math.exp(evidence) + signs.nearness
    return odds / (1 + odds)


def score_of(probability: float) -> float:
    """The score of a passage that answers with this probability."""
    if probability >= EVEN:
        return probability
    return LEAST_SCORE + (EVEN - LEAST_SCORE) * probability / EVEN


def confidence_of(score: float) -> Confidence:
    """What a score says in a word."""
    if score >= EVEN:
        return "likely"
    return "maybe" if score >= score_of(MAYBE) else "unlikely"
