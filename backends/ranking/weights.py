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
        self._concept_of_term = {
            term: number
            for number, concept in enumerate(self.concepts)
            if not concept.is_prefix
            for term in concept.alternatives
        }
        self._concept_of_character = {
            concept.alternatives[0]: number
            for number, concept in enumerate(self.concepts)
            if concept.is_prefix
        }

    def concepts_in(self, terms: Sequence[str]) -> list[int]:
        """The numbers of the concepts that the terms stand for, with repetitions."""
        by_term, by_character = self._concept_of_term, self._concept_of_character
        found = []
        if not by_term.keys().isdisjoint(terms):
            found = [by_term[term] for term in terms if term in by_term]
        if by_character:
            found += [by_character[term[0]] for term in terms if term[0] in by_character]
        return found


def _idf(frequency: int, documents: int) -> float:
    return math.log1p((max(0, documents - frequency) + 0.5) / (frequency + 0.5))
