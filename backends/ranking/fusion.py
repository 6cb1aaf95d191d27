"""Putting passages in order: the keyword lane and the vector lane become one score.

Owns the weights of the lanes, the two strategies of joining them, the choice among overlapping windows
and the 0..1 score that a client sees. Chosen by `scripts/bench_recall`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from backends.ranking.passages import Candidate, Passage, Window, find_windows, to_passage
from backends.ranking.weights import Weights

VECTOR_TRUST: Final = 0.03
"""What a vector score is worth beside a keyword score of the same height.

Cosines of a chunk tell topics apart, words tell facts apart: with the documented weights 0.7 to 0.3
this gives vectors a fifteenth of the score, enough to bring in what no word finds, too little for a
poor model to bury an exact match.
"""
RRF_K: Final = 2
"""Constant of reciprocal rank fusion (Cormack et al., 2009); small, since only the top counts."""

Strategy = Literal["weighted", "rrf"]


class Lanes(NamedTuple):
    """How much each lane counts; they sum to 1."""

    text: float
    vector: float

    @classmethod
    def of(cls, text_weight: float, vector_weight: float) -> Lanes:
        """From the documented weights: a lane that is given all of it keeps all of it."""
        vector = vector_weight * VECTOR_TRUST
        total = text_weight + vector
        return cls(text_weight / total, vector / total) if total else cls(1.0, 0.0)


KEYWORDS_ONLY: Final = Lanes(1.0, 0.0)


class CosineScale(NamedTuple):
    """The cosines of one query's vector lane: models differ in what is high, so each query tells."""

    lowest: float
    """Of the last candidate of the lane; it and all below count nothing."""
    highest: float

    def place(self, cosine: float | None) -> float:
        """0..1."""
        if cosine is None:
            return 0.0
        if self.highest <= self.lowest:
            return 1.0 if cosine >= self.highest else 0.0
        return min(1.0, max(0.0, (cosine - self.lowest) / (self.highest - self.lowest)))


class RankedPassage(NamedTuple):
    passage: Passage
    score: float
    """0..1, what `minScore` speaks of; never rises down the list."""
    text_score: float
    """0..1; 0 where the passage holds no word of the query."""
    vector_score: float | None
    """The cosine, 0..1."""
    coverage: float
    fused: float
    """Height within this query: 1 is the best that both lanes could give."""


class PassageRanker:
    """Ranks the candidates of one query, block by block; what was shown is not shown again.

    The first block sets the scale, so that later blocks continue the same list and the order does not
    depend on how many results are wanted.
    """

    def __init__(
        self,
        weights: Weights,
        *,
        max_chars: int,
        lanes: Lanes = KEYWORDS_ONLY,
        cosines: CosineScale | None = None,
        strategy: Strategy = "weighted",
    ) -> None:
        self._weights = weights
        self._max_chars = max_chars
        self._lanes = lanes
        self._cosines = cosines or CosineScale(0.0, 0.0)
        self._strategy = strategy
        self._taken: dict[int, list[tuple[int, int]]] = {}
        self._texts: set[str] = set()
        self._best_text: float | None = None
        self._best_fused: float | None = None
        self._ceiling = 1.0

    def rank(self, candidates: Iterable[Candidate]) -> Iterator[RankedPassage]:
        """Passages that share no line and no text with any before, best first.

        Of windows with equal scores the one wins whose matches are the most central, then file order.
        """
        windows = find_windows(candidates, self._weights, max_chars=self._max_chars)
        if self._best_text is None:
            self._best_text = max((window.text_score for window in windows), default=0.0)
        fused = self._fuse(windows)
        order = sorted(
            (pair for pair in zip(fused, windows, strict=True) if pair[0] > 0),
            key=lambda pair: (-round(pair[0], 9), pair[1].off_centre, *pair[1].place()),
        )
        if self._best_fused is None:
            self._best_fused = order[0][0] if order else 0.0
        for height, window in order:
            if self._is_new(window):
                passage = to_passage(window, self._weights)
                if self._is_new_text(passage):
                    yield self._ranked(passage, window, height)

    def _fuse(self, windows: Sequence[Window]) -> list[float]:
        text = [self._text_height(window) for window in windows]
        vector = [self._cosines.place(window.cosine) for window in windows]
        if self._strategy == "rrf":
            text, vector = _reciprocal_ranks(text), _reciprocal_ranks(vector)
        return [
            self._lanes.text * of_text + self._lanes.vector * of_vector
            for of_text, of_vector in zip(text, vector, strict=True)
        ]

    def _text_height(self, window: Window) -> float:
        return min(1.0, window.text_score / self._best_text) if self._best_text else 0.0

    def _is_new(self, window: Window) -> bool:
        """Units of overlapping chunks may overlap without beginning at the same place."""
        run = window.run()
        start, end = run[0].start, run[-1].end
        taken = self._taken.setdefault(window.file_id, [])
        if any(start < other_end and other_start < end for other_start, other_end in taken):
            return False
        taken.append((start, end))
        return True

    def _is_new_text(self, passage: Passage) -> bool:
        text = " ".join(passage.text.split())
        if text in self._texts:
            return False
        self._texts.add(text)
        return True

    def _ranked(self, passage: Passage, window: Window, height: float) -> RankedPassage:
        strength = max(
            calibrate(self._best_text or 0.0) if self._lanes.text else 0.0,
            max(0.0, self._cosines.highest) if self._lanes.vector else 0.0,
        )
        share = height / self._best_fused if self._best_fused else 0.0
        self._ceiling = min(self._ceiling, strength * calibrate(share))
        cosine = window.cosine
        return RankedPassage(
            passage=passage,
            score=self._ceiling,
            text_score=calibrate(window.text_score),
            vector_score=None if cosine is None else min(1.0, max(0.0, cosine)),
            coverage=min(1.0, window.coverage),
            fused=height,
        )


def calibrate(share: float) -> float:
    """A share of the query's information content as the 0..1 score that `minScore` speaks of.

    The cube root lets a passage with a twentieth of the information, one word of a long question,
    pass the documented 0.35, and keeps a full match near 1.
    """
    return math.cbrt(min(1.0, max(0.0, share)))


def _reciprocal_ranks(scores: Sequence[float]) -> list[float]:
    """`(k + 1) / (k + rank)` by rank of the score, equal scores share a rank; 0 for a score of 0."""
    rank_of = {score: rank for rank, score in enumerate(sorted(set(scores), reverse=True), 1)}
    return [(RRF_K + 1) / (RRF_K + rank_of[score]) if score > 0 else 0.0 for score in scores]
