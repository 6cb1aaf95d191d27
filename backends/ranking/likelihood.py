"""How likely a passage answers, from what speaks for it, and the score that says so. Pure.

A logistic regression on passages of all families of notes, each counting the same, with questions that have no answer
among them, by words and with vectors: `./scripts/fit_scores` learns it, and `./scripts/bench_recall --reliability` says
how true it is.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from backends.interface import Confidence

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
