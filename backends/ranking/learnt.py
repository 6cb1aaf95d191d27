"""The learnt parameters of ranking: the weights of evidence, and the probability that a passage answers. All families
of notes count the same. Pure.

The weights are learnt by `./scripts/fit_ranking`. The evidence from words and vectors is in nats and is added; what
makes a line likelier to be an answer to any question multiplies its odds. The probability that a passage answers is a
logistic regression on passages, by words and with vectors, where some questions have no answer: `./scripts/fit_scores`
learns it, and `./scripts/bench recall --reliability` measures its calibration. All parameters are read where they are
used, as `learnt.LINE`, so that the scripts can try others.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from backends.interface import Confidence

LINE = 0.15
"""For each nat of the question's information in a line itself."""
AROUND = 0.2
"""For each nat in the line together with the lines beside it, and with its title, date and headings."""
CHUNK = 0.15
"""For each nat in its chunk, by BM25."""
FILE = 0.23
"""For each nat in the best chunk of its file, by BM25."""
MEANING = 0.83
"""For each standard deviation of the query's cosines by which its excerpt stands out, with a fully trusted model; and
as much for the best excerpt of its note.
"""
LENGTH = 0.5
"""The exponent of a line's length in its odds: a long line says more than what was asked."""
HELD = 0.25
"""For each concept of the question in a line itself, whatever its weight, where no model knows its meaning."""
HEADING = -3.6
"""For a heading: it names a subject, and the text under it answers."""
NAMED = 4.0
"""For a line of a section, or of a note, whose name is what was asked for, see `Weights.fit`: half of that in a nested
section with another name.
"""
LABEL = 2.0
"""For a line whose speaker or subject was asked for."""
REPLY = 0.55
"""For a line after a question."""
TIME = 1.5
"""For a line that mentions a time, where one is asked for."""
RECENT = 1.1
"""The exponent with which a whole prompt prefers what was noted last: a note a month older than the newest one that may
be meant counts half, one a year older a fifteenth.
"""
AGAIN = 0.8
"""The weight of a further passage of a file, relative to one of another file."""

CONSTANT = -2.81
SHARE = 0.82
"""For each nat of its share of the odds of all lines of the first candidates ..."""
SHARE_BY_MODEL = -0.31
"""... and the change of that with a fully trusted model, which spreads the odds."""
BEST_LINE = 3.87
"""For the share of the question's information content that one line of it contains."""
INFORMATION = 0.57
"""For each unit of the logarithm of the question's information content."""
STANDS_OUT = 0.52
"""For each standard deviation by which its vector stands out."""
BY_MODEL = -1.29
"""With a fully trusted model."""

LEAST_SCORE: Final = 0.35
"""The documented default of `minScore`: passages that neither words nor vectors relate to the question score less."""
EVEN: Final = 0.5
"""From here on a score is the probability that the passage answers. Less likely passages are between `LEAST_SCORE` and
this, in the same order.
"""
MAYBE: Final = 1 / 6
"""The probability from which a passage may be the answer."""


def text() -> float:
    """Returns the most that words can contribute for each nat."""
    return LINE + AROUND + CHUNK + FILE


class Signs(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The features that predict whether a passage answers."""

    share: float
    """In nats, 0 or less: its share of the odds of all lines of the first candidates."""
    best_line: float
    """The share of the question's information content that one line of it contains: 0..1; zero if there are only
    headings, which answer nothing.
    """
    information: float
    """The logarithm of the question's information content in nats."""
    trust: float = 0.0
    """The trust in the model: 0, as without vectors, to 1."""
    stands_out: float = 0.0
    """The standard deviations by which its vector stands out."""
    nearness: float = 0.0
    """The odds that its vector means the same as that of the question."""


def likelihood(signs: Signs) -> float:
    """Returns the probability that the passage answers: 0..1."""
    evidence = CONSTANT + SHARE * signs.share + BEST_LINE * signs.best_line
    evidence += INFORMATION * signs.information + STANDS_OUT * signs.stands_out
    evidence += signs.trust * (BY_MODEL + SHARE_BY_MODEL * signs.share)
    odds = math.exp(evidence) + signs.nearness
    return odds / (1 + odds)


def score_of(probability: float) -> float:
    """Returns the score of a passage that answers with this probability."""
    if probability >= EVEN:
        return probability
    return LEAST_SCORE + (EVEN - LEAST_SCORE) * probability / EVEN


def confidence_of(score: float) -> Confidence:
    """Returns the word for a score."""
    if score >= EVEN:
        return "likely"
    return "maybe" if score >= score_of(MAYBE) else "unlikely"
