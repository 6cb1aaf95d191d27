"""How much each concept of a query tells apart in one collection. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from backends.ranking.query import Concept


class Weights:
    """Information content of a query's concepts in one collection.

    `weight(c) = ln(1 + (N - n + 0.5) / (n + 0.5))`, N chunks of which n hold the concept: the idf
    of Robertson and Sparck Jones in the form that is never negative.
    """

    def __init__(
        self, concepts: Sequence[Concept], document_frequency: Mapping[str, int], documents: int
    ) -> None:
        self.concepts = tuple(concepts)
        self.by_concept = tuple(
            concept.share
            * _idf(max(document_frequency.get(term, 0) for term in concept.alternatives), documents)
            for concept in self.concepts
        )
        self.total = math.fsum(self.by_concept) or 1.0
        self.concept_of_term = {
            term: number
            for number, concept in enumerate(self.concepts)
            for term in concept.alternatives
        }


def _idf(frequency: int, documents: int) -> float:
    return math.log1p((max(0, documents - frequency) + 0.5) / (frequency + 0.5))
