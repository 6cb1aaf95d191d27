"""How much each concept of a query tells apart in one collection. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from backends.ranking.query import Concept


class Weights:
    """Information content of a query's concepts in one collection.

    A set of concepts is an integer, bit `n` for the concept of number `n`: sets are joined for every
    line of every candidate.

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
        self._by_term: dict[str, int] = defaultdict(int)
        self._by_character: dict[str, int] = defaultdict(int)
        for number, concept in enumerate(self.concepts):
            known = self._by_character if concept.is_prefix else self._by_term
            for term in concept.alternatives:
                known[term] |= 1 << number

    def concepts_in(self, terms: Sequence[str]) -> int:
        """The set of the concepts that the terms stand for."""
        by_term, by_character = self._by_term, self._by_character
        found = 0
        if not by_term.keys().isdisjoint(terms):
            for term in by_term.keys() & terms:
                found |= by_term[term]
        if by_character:
            for character in by_character.keys() & {term[0] for term in terms}:
                found |= by_character[character]
        return found

    def coverage(self, concepts: int) -> float:
        """The share of the query's information content that a set of concepts holds: 0..1."""
        return math.fsum(self.by_concept[number] for number in _numbers(concepts)) / self.total

    def members(self, concepts: int) -> tuple[Concept, ...]:
        """A set of concepts, in the query's order."""
        return tuple(self.concepts[number] for number in _numbers(concepts))


def _numbers(concepts: int) -> Iterator[int]:
    return (number for number in range(concepts.bit_length()) if concepts >> number & 1)


def _idf(frequency: int, documents: int) -> float:
    return math.log1p((max(0, documents - frequency) + 0.5) / (frequency + 0.5))
