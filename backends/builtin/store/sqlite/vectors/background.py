"""How high the cosines of a query are to texts at large.

A sample of the stored vectors tells. Text hashes are as good as random, so the first ones in their order are a
fair sample, and the same one in every search. The last one is kept in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import apsw

from backends.builtin.store.sqlite.vectors.numeric import np
from backends.builtin.store.sqlite.vectors.scans import row_lengths, stacked
from backends.builtin.store.sqlite.vectors.store import current_serial
from backends.ranking.evidence import Background

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from providers.interface import Vector

SAMPLE: Final = 256
"""Their deviation is known to 5 % then, in about a millisecond."""
_FEW: Final = 8

# Answered by the index alone, so that a sample which is known costs no page of vectors.
_SELECT_IDS: Final = """
    SELECT group_concat(id) FROM (
        SELECT id FROM embeddings WHERE fingerprint_id = :fingerprint
        ORDER BY text_hash LIMIT :sample
    )
"""
_SELECT: Final = """
    SELECT id, vector FROM (
        SELECT id, vector FROM embeddings WHERE fingerprint_id = :fingerprint
        ORDER BY text_hash LIMIT :sample
    ) WHERE length(vector) = :bytes
"""


class _Sample(NamedTuple):
    epoch: str
    """The epoch of the ids: within one epoch a vector never changes and its id is never given again."""
    ids: str
    bytes: int
    """The size of each of its vectors."""
    matrix: NDArray[np.float32]
    lengths: NDArray[np.float32]


class Sampler:
    """Reads the sample of one index again only when it is another one. Any thread may call."""

    def __init__(self) -> None:
        self._last: _Sample | None = None

    def background(
        self, connection: apsw.Connection, fingerprint_id: int, query: Vector
    ) -> Background | None:
        """None without any vector to compare with. A few vectors are joined by one at a right angle:
        where every text answers, that is what an unrelated one would be like.
        """
        sample = self._sample(connection, fingerprint_id, query)
        with np.errstate(all="ignore"):
            cosines = sample.matrix @ query / (sample.lengths * row_lengths(query[None]))
        cosines = cosines[np.isfinite(cosines)]
        if not cosines.size:
            return None
        if cosines.size < _FEW:
            cosines = np.append(cosines, 0.0)
        return Background(float(cosines.mean()), float(cosines.std()), len(query))

    def _sample(self, connection: apsw.Connection, fingerprint_id: int, query: Vector) -> _Sample:
        wanted = {"fingerprint": fingerprint_id, "bytes": query.nbytes, "sample": SAMPLE}
        epoch = current_serial(connection).epoch
        ids: str = connection.execute(_SELECT_IDS, wanted).get or ""
        last = self._last
        if last and ids and (last.epoch, last.ids, last.bytes) == (epoch, ids, query.nbytes):
            return last
        _, matrix = stacked(list(connection.execute(_SELECT, wanted)), len(query))
        self._last = _Sample(epoch, ids, query.nbytes, matrix, row_lengths(matrix))
        return self._last
