"""The keyword lane: which words of a query are looked up, and how common each of them is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from backends.builtin.store.port import KeywordReads, Lookup, Word
from backends.ranking.query import Concept, Query

COMMON: Final = 1_000
"""A word in more chunks than these is not counted again for each query ..."""
DRIFT: Final = 64
"""... as long as the index has not grown or shrunk by more than one in so many chunks."""
MAX_REMEMBERED: Final = 20_000


class TermCounts(NamedTuple):
    """Of one query, in chunks."""

    documents: int
    """All chunks of the index."""
    by_term: Mapping[str, int]
    """For a prefix the most frequent term that begins with it."""


class Frequencies:
    """The counts of one index. Any thread may call."""

    def __init__(self) -> None:
        self._remembered: dict[str, tuple[int, int]] = {}
        """By common word: its count, and how many chunks there were then."""

    def of(self, keywords: KeywordReads, query: Query, documents: int) -> TermCounts:
        """`documents`: all chunks, as this view sees them."""
        words = [
            Word(term, concept.is_prefix)
            for concept in query.concepts
            for term in concept.alternatives
        ]
        counts = {word: self._recalled(word, documents) for word in words}
        unknown = [word for word, count in counts.items() if count is None]
        for word, count in zip(unknown, keywords.count(unknown), strict=True):
            counts[word] = count
            if count > COMMON and not word.is_prefix:
                self._remember(word.term, count, documents)
        return TermCounts(documents, {word.term: counts[word] or 0 for word in words})

    def _recalled(self, word: Word, documents: int) -> int | None:
        count, before = self._remembered.get(word.term, (0, 0))
        is_current = DRIFT * abs(documents - before) <= documents
        return count if count and is_current and not word.is_prefix else None

    def _remember(self, term: str, count: int, documents: int) -> None:
        if len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[term] = count, documents


MIN_SCORED: Final = 1_000
"""Chunks that a query may have scored in an index of any size; a millisecond."""
MAX_SCORED: Final = 40_000
SCORED_SHARE: Final = 20
"""Between the two: one in so many chunks of the index."""
ENOUGH: Final = 200
"""Scored chunks, for which no further word is looked up."""
MAX_CONCEPTS: Final = 64
"""Of a long query, the rarest: more of them tell nothing new apart."""


def lookup(query: Query, counts: TermCounts, permitted: int) -> Lookup:
    """`permitted`: chunks of the files that may answer."""
    documents = counts.documents
    most = min(MAX_SCORED, max(MIN_SCORED, documents // SCORED_SHARE))
    return Lookup(list(tiers(query, counts, most * documents // max(1, permitted))), most, ENOUGH)


def tiers(query: Query, counts: TermCounts, most: int) -> Iterator[list[Concept]]:
    """The rarest concepts that together at most `most` chunks hold, then each further one alone."""
    size = {concept: _chunks_with(concept, counts) for concept in query.concepts}
    known = [concept for concept in query.concepts if size[concept]]
    by_rarity = sorted(known, key=size.__getitem__)[:MAX_CONCEPTS]
    running = accumulate(size[concept] for concept in by_rarity)
    together = sum(min(chunks, counts.documents) <= most for chunks in running)
    if together:
        yield by_rarity[:together]
    yield from ([concept] for concept in by_rarity[together:])


def _chunks_with(concept: Concept, counts: TermCounts) -> int:
    return sum(counts.by_term[term] for term in concept.alternatives)
