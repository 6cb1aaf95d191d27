"""Exact nearest neighbours by reading every stored vector.

Owns the scan: blocks of rows, one matrix product each, the best kept. Filters apply inside the scan.
A vector that is short, not finite or of length 0, however it came into the table, never ranks.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import apsw

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from providers.interface import Vector

_BLOCK_ROWS: Final = 2_048
"""12 MB at 1,536 dimensions."""
_BYTES_A_NUMBER: Final = 4

_SELECT: Final = """
    SELECT c.id, e.vector FROM embeddings AS e JOIN chunks AS c ON c.text_hash = e.text_hash
    WHERE e.fingerprint_id = :fingerprint AND length(e.vector) = :bytes {only}
"""


class VectorHit(NamedTuple):
    chunk_id: int
    cosine: float
    """-1..1."""


def nearest_chunks(
    connection: apsw.Connection,
    fingerprint_id: int,
    query: Vector,
    *,
    limit: int,
    file_ids: Sequence[int] | None = None,
) -> list[VectorHit]:
    """The `limit` chunks with the highest cosine, best first; equal ones by chunk id."""
    only = "" if file_ids is None else "AND c.file_id IN (SELECT value FROM carray(:files))"
    rows = connection.execute(
        _SELECT.format(only=only),
        {
            "fingerprint": fingerprint_id,
            "bytes": len(query) * _BYTES_A_NUMBER,
            "files": None if file_ids is None else apsw.carray(memoryview(array("q", file_ids))),
        },
    )
    best: list[tuple[float, int]] = []
    for ids, cosines in _blocks(rows, query):
        pairs = zip(cosines.tolist(), (-chunk_id for chunk_id in ids), strict=True)
        best = heapq.nlargest(limit, [*best, *pairs])
    return [VectorHit(-negative, cosine) for cosine, negative in best]


def cosines_of(
    connection: apsw.Connection, fingerprint_id: int, query: Vector, chunk_ids: Sequence[int]
) -> dict[int, float]:
    """The cosines of some chunks; those without a usable vector are left out."""
    rows = connection.execute(
        _SELECT.format(only="AND c.id IN (SELECT value FROM carray(:chunks))"),
        {
            "fingerprint": fingerprint_id,
            "bytes": len(query) * _BYTES_A_NUMBER,
            "chunks": apsw.carray(memoryview(array("q", chunk_ids))),
        },
    )
    return {
        chunk_id: cosine
        for ids, cosines in _blocks(rows, query)
        for chunk_id, cosine in zip(ids, cosines.tolist(), strict=True)
    }


def _blocks(rows: apsw.Cursor, query: Vector) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
    """(chunk ids, cosines) of the usable vectors, block by block."""
    import numpy as np  # noqa: PLC0415 - only searches with vectors need it

    while block := list(islice(rows, _BLOCK_ROWS)):
        ids = np.fromiter((row[0] for row in block), np.int64, len(block))
        matrix = np.frombuffer(b"".join(row[1] for row in block), "<f4").reshape(len(block), -1)
        with np.errstate(all="ignore"):
            lengths = np.linalg.norm(matrix, axis=1)
            cosines = matrix @ query / lengths
        usable = np.isfinite(cosines) & (lengths > 0)
        yield ids[usable].tolist(), np.clip(cosines[usable], -1.0, 1.0)
