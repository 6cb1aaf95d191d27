"""How much each concept of a query tells apart in one collection. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

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
        self._by_term: dict[str, list[int]] = defaultdict(list)
        self._by_character: dict[str, list[int]] = defaultdict(list)
        for number, concept in enumerate(self.concepts):
            known = self._by_character if concept.is_prefix else self._by_term
            for term in concept.alternatives:
                known[term].append(number)

    def concepts_in(self, terms: Sequence[str]) -> list[int]:
        """The numbers of the concepts that the terms stand for, with repetitions."""
        by_term, by_character = self._by_term, self._by_character
        found: list[int] = []
        if not by_term.keys().isdisjoint(terms):
            found = [number for term in terms if term in by_term for number in by_term[term]]
        if by_character:
            found += [
                number
                for term in terms
                if term[0] in by_character
                for number in by_character[term[0]]
            ]
        return found

    def coverage(self, concepts: Iterable[int]) -> float:
        """The share of the query's information content that these concepts hold: 0..1."""
        return math.fsum(self.by_concept[number] for number in concepts) / self.total


def _idf(frequency: int, documents: int) -> float:
    return math.log1p((max(0, documents - frequency) + 0.5) / (frequency + 0.5))
