"""How much the keyword lane and the vector lane of one query count.

Owns the meaning of the documented weights, and how far the model behind the vectors is trusted: models
differ in what is a high cosine, and a poor one must not make results worse than keywords alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NOISE: Final = 2.0
"""The variance of cosines, in units of what random directions have, up to which a model tells nothing;
that texts share words widens it a little even for hashed words."""
LEAST_TRUST: Final = 0.001
"""What a model gets that tells nothing: enough to show its finds where words find none, too little to
change the order of what words find."""

MOST_DEVIATIONS: Final = 100.0
"""No model that tells anything apart comes near. Where nearly all texts have one vector, the distance of
another one would be beyond floats once it is an exponent."""


class Background(NamedTuple):
    """The cosines that a query has to texts at large: what is high for this query and this model."""

    mean: float
    deviation: float
    dimensions: int

    @property
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


class Lanes(NamedTuple):
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
