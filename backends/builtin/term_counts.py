"""The number of chunks that contain each term of a query, and which terms are looked up: the rarest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

import msgspec

from backends.builtin.store.port import KeywordReads, Lookup, Word
from backends.ranking.query import Concept, Query
from config.runtime.remembered import Remembered, size_of

COMMON: Final = 1_000
"""A word in more chunks than these is common: its count is kept, and used again as long as `DRIFT` allows."""
DRIFT: Final = 64
"""A kept count is used until the index has grown or shrunk by more than one in so many chunks."""
COUNTS_BYTES: Final = 4 * 1024 * 1024


class TermCounts(msgspec.Struct, frozen=True, gc=False):
    """The number of chunks, and how many of them contain each term of one query."""

    documents: int
    """All chunks of the index."""
    by_term: Mapping[str, int]
    """The chunks with each term; for a prefix, with the most frequent term that begins with it."""


class Frequencies:
    """The counts of one index. Any thread may call."""

    def __init__(self) -> None:
        self._remembered: Remembered[str, tuple[int, int]] = Remembered(
            COUNTS_BYTES, lambda term, counts: size_of(term, counts, *counts)
        )
        """The count of each common word, and the number of all chunks when it was counted."""

    def of(self, keywords: KeywordReads, query: Query, documents: int) -> TermCounts:
        """Returns the counts of a query's terms. `documents`: all chunks, as this view sees them."""
        words = [
            Word(term, concept.is_prefix)
            for concept in (*query.concepts, *query.related)
            for term in concept.alternatives
        ]
        return TermCounts(documents, self.count(keywords, words, documents))

    def count(
        self, keywords: KeywordReads, words: Iterable[Word], documents: int
    ) -> dict[str, int]:
        """Returns in how many chunks each word is."""
        counts = {word: self._recalled(word, documents) for word in words}
        unknown = [word for word, count in counts.items() if count is None]
        for word, number in zip(unknown, keywords.count(unknown), strict=True):
            counts[word] = number
            if number > COMMON and not word.is_prefix:
                self._remembered.put(word.term, (number, documents))
        return {word.term: count or 0 for word, count in counts.items()}

    def _recalled(self, word: Word, documents: int) -> int | None:
        count, before = self._remembered.get(word.term) or (0, 0)
        is_current = DRIFT * abs(documents - before) <= documents
        return count if count and is_current and not word.is_prefix else None


MIN_SCORED: Final = 1_000
"""The chunks that a query may score in an index of any size, which takes a millisecond."""
MAX_SCORED: Final = 40_000
SCORED_SHARE: Final = 20
"""Between these bounds: one in so many chunks of the index."""
ENOUGH: Final = 200
"""The number of scored chunks at which no further word is looked up."""
MAX_CONCEPTS: Final = 64
"""The most concepts of a query that are looked up, the rarest of them: more would distinguish nothing new."""


def lookup(query: Query, counts: TermCounts, permitted: int) -> Lookup:
    """Returns what to look up. `permitted`: the number of chunks of the files that may answer."""
    documents = counts.documents
    most = min(MAX_SCORED, max(MIN_SCORED, documents // SCORED_SHARE))
    return Lookup(list(tiers(query, counts, most * documents // max(1, permitted))), most, ENOUGH)


def tiers(query: Query, counts: TermCounts, most: int) -> Iterator[list[Concept]]:
    """Yields the rarest concepts that are in at most `most` chunks together, then each further one alone."""
    size = {
        concept: sum(counts.by_term[term] for term in concept.alternatives)
        for concept in query.concepts
    }
    known = [concept for concept in query.concepts if size[concept]]
    by_rarity = sorted(known, key=size.__getitem__)[:MAX_CONCEPTS]
    running = accumulate(size[concept] for concept in by_rarity)
    together = sum(min(chunks, counts.documents) <= most for chunks in running)
    if together:
        yield by_rarity[:together]
    yield from ([concept] for concept in by_rarity[together:])
