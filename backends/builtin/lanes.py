"""Where candidates come from: the keyword lane, the vector lane, or both.

Owns the union of the two, block by block, so that every candidate has the scores of both lanes however
it was found. Reads only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

import apsw

from backends.builtin.keyword import KeywordLane
from backends.ranking.fusion import CosineScale
from backends.ranking.passages import Candidate

if TYPE_CHECKING:
    from backends.builtin.vectors.select import VectorSearch
    from providers.failover import QueryVector

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
        """Cosines by chunk id, best first; nothing when no engine can search."""
        from backends.builtin.vectors.engine import VectorAnswer  # noqa: PLC0415 - as above

        answer = self.engines.search(
            self.connection,
            self.fingerprint_id,
            self.query.vector,
            limit=limit,
            file_ids=self.file_ids,
        )
        return dict(answer.hits) if isinstance(answer, VectorAnswer) else {}

    def is_complete(self) -> bool:
        """Whether every chunk has a vector that the query's can be compared with."""
        dimensions = len(self.query.vector)
        return self.engines.covers_all(self.connection, self.fingerprint_id, dimensions)

    def cosines(self, chunk_ids: Sequence[int]) -> dict[int, float]:
        from backends.builtin.vectors.exact import cosines_of  # noqa: PLC0415 - needs numpy

        return cosines_of(self.connection, self.fingerprint_id, self.query.vector, chunk_ids)


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
        self.scale = _scale(list(self._nearest.values()), block)
        """None without vectors."""
        self.keywords = keywords or vectors is None or not vectors.is_complete()
        """Whether the keyword lane takes part: unasked, too, while any chunk lacks its vector."""

    def __iter__(self) -> Iterator[list[Candidate]]:
        seen: set[int] = set()
        for number in count():
            by_words = self._by_words(number)
            by_meaning = self._by_meaning(number)
            words = [one for one in by_words if one.chunk_id not in seen]
            seen.update(one.chunk_id for one in words)
            others = [chunk_id for chunk_id in by_meaning if chunk_id not in seen]
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
        cosines = {**self._vectors.cosines([one.chunk_id for one in words]), **self._nearest}
        return [one._replace(cosine=cosines.get(one.chunk_id)) for one in words]


def _scale(cosines: Sequence[float], block: int) -> CosineScale | None:
    """From the cosines of the nearest `block` chunks, best first.

    Where there are fewer, the last is not far off, only the last: a right angle counts nothing then.
    """
    if not cosines:
        return None
    lowest = cosines[-1] if len(cosines) == block else min(0.0, cosines[-1])
    return CosineScale(lowest, cosines[0])
