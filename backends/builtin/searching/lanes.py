"""Where candidates come from: the keyword lane, the vector lane, or both.

Owns the union of the two, block by block, so that every candidate has the scores of both lanes however
it was found. Reads only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

import apsw
from msgspec.structs import replace

from backends.builtin.searching.excerpts import chunks_of, excerpts_of
from backends.builtin.searching.keyword import KeywordLane
from backends.ranking.lanes import Background
from backends.ranking.units import Candidate, Excerpt

if TYPE_CHECKING:
    from backends.builtin.vectors.select import VectorSearch
    from providers.embedding.failover import QueryVector

MAX_BLOCKS: Final = 40
"""What follows after some thousand candidates is nothing anybody asked for."""


class VectorLane(NamedTuple):
    """The query's vector against the stored ones of the same fingerprint."""

    connection: apsw.Connection
    engines: VectorSearch
    fingerprint_id: int
    query: QueryVector
    file_ids: Sequence[int] | None

    @classmethod
    def open(
        cls,
        connection: apsw.Connection,
        engines: VectorSearch,
        query: QueryVector,
        file_ids: Sequence[int] | None,
    ) -> VectorLane | None:
        """None while no vector of this fingerprint is stored."""
        from backends.builtin.vectors.store import fingerprint_id  # noqa: PLC0415 - needs numpy

        number = fingerprint_id(connection, query.fingerprint)
        return None if number is None else cls(connection, engines, number, query, file_ids)

    def nearest(self, limit: int) -> dict[int, float]:
        """Cosines by excerpt id, best first; nothing when no engine can search."""
        from backends.builtin.vectors.engine import VectorAnswer  # noqa: PLC0415 - as above

        answer = self.engines.search(
            self.connection,
            self.fingerprint_id,
            self.query.vector,
            limit=limit,
            file_ids=self.file_ids,
        )
        return dict(answer.hits) if isinstance(answer, VectorAnswer) else {}

    def background(self) -> Background | None:
        """How high the query's cosines are at large."""
        return self.engines.background(self.connection, self.fingerprint_id, self.query.vector)

    def is_complete(self) -> bool:
        """Whether every text has a vector that the query's can be compared with."""
        dimensions = len(self.query.vector)
        return self.engines.covers_all(self.connection, self.fingerprint_id, dimensions)

    def chunks(self, excerpt_ids: Sequence[int]) -> list[int]:
        """The chunks that hold these excerpts, in the order of their first one."""
        return chunks_of(self.connection, excerpt_ids)

    def excerpts(
        self, chunk_ids: Sequence[int], known: Mapping[int, float]
    ) -> dict[int, tuple[Excerpt, ...]]:
        """By chunk, with their cosines; those without a usable vector are left out.

        `known`: the cosines that `nearest` found.
        """
        from backends.builtin.vectors.exact import cosines_of  # noqa: PLC0415 - needs numpy

        places = excerpts_of(self.connection, chunk_ids)
        ids = {place.id for of_chunk in places.values() for place in of_chunk}
        others = sorted(ids.difference(known))
        cosines = {
            **known,
            **cosines_of(self.connection, self.fingerprint_id, self.query.vector, others),
        }
        return {
            chunk_id: tuple(
                Excerpt(place.start, place.end, cosines[place.id])
                for place in of_chunk
                if place.id in cosines
            )
            for chunk_id, of_chunk in places.items()
        }


class Candidates:
    """The candidates of one query, in blocks of up to `block` of each lane."""

    def __init__(
        self,
        words: KeywordLane,
        *,
        block: int,
        vectors: VectorLane | None,
        keywords: bool = True,
    ) -> None:
        self._words = words
        self._block = block
        self._vectors = vectors
        self._nearest = vectors.nearest(block) if vectors else {}
        self.background = vectors.background() if vectors and self._nearest else None
        """None without vectors."""
        self.keywords = keywords or vectors is None or not vectors.is_complete()
        """Whether the keyword lane takes part: unasked, too, while any text lacks its vector."""

    def __iter__(self) -> Iterator[list[Candidate]]:
        seen: set[int] = set()
        for number in count():
            by_words = self._by_words(number)
            by_meaning = self._by_meaning(number)
            words = [one for one in by_words if one.chunk_id not in seen]
            seen.update(one.chunk_id for one in words)
            chunks = self._vectors.chunks(by_meaning) if self._vectors and by_meaning else []
            others = [chunk_id for chunk_id in chunks if chunk_id not in seen]
            seen.update(others)
            yield self._scored(words, others)
            if max(len(by_words), len(by_meaning)) < self._block or number >= MAX_BLOCKS:
                return

    def _by_words(self, number: int) -> list[Candidate]:
        if not self.keywords:
            return []
        return self._words.candidates(self._block, number * self._block)

    def _by_meaning(self, number: int) -> list[int]:
        if self._vectors is None:
            return []
        end = (number + 1) * self._block
        if len(self._nearest) == self._block and number:
            self._nearest = self._vectors.nearest((MAX_BLOCKS + 1) * self._block)
        return list(self._nearest)[end - self._block : end]

    def _scored(self, words: list[Candidate], others: list[int]) -> list[Candidate]:
        if others:
            words = words + self._words.candidates_by_id(others)
        if self._vectors is None or not words:
            return words
        excerpts = self._vectors.excerpts([one.chunk_id for one in words], self._nearest)
        return [replace(one, excerpts=excerpts.get(one.chunk_id, ())) for one in words]
