"""Exact cosines with numpy, block by block of stored vectors.

Owns the arithmetic that decides: the scan of last resort, and the rescoring of candidates that were
found with less precision. Each row is computed by itself, so equal vectors have equal cosines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import apsw

from backends.builtin.vectors.engine import VectorHit
from backends.builtin.vectors.joined import Selection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from providers.interface import Vector

_BLOCK_ROWS: Final = 2_048
"""12 MB at 1,536 dimensions."""


def nearest_excerpts(
    connection: apsw.Connection,
    fingerprint_id: int,
    query: Vector,
    *,
    limit: int,
    file_ids: Sequence[int] | None = None,
    excerpt_ids: Sequence[int] | None = None,
) -> list[VectorHit]:
    """The `limit` excerpts with the highest cosine, best first; equal ones by excerpt id.

    `file_ids` and `excerpt_ids` limit the search itself; None permits all.
    """
    import numpy as np  # noqa: PLC0415 - only searches with vectors need it

    selection = Selection(
        "e.vector", fingerprint_id, query, file_ids=file_ids, excerpt_ids=excerpt_ids
    )
    ids, cosines = np.empty(0, np.int64), np.empty(0, np.float32)
    for block_ids, block_cosines in _blocks(connection, selection, query):
        ids = np.concatenate((ids, block_ids))
        cosines = np.concatenate((cosines, block_cosines))
        best = np.lexsort((ids, -cosines))[:limit]
        ids, cosines = ids[best], cosines[best]
    return [VectorHit(*pair) for pair in zip(ids.tolist(), cosines.tolist(), strict=True)]


def cosines_of(
    connection: apsw.Connection, fingerprint_id: int, query: Vector, excerpt_ids: Sequence[int]
) -> dict[int, float]:
    """The cosines of some excerpts; those without a usable vector are left out."""
    selection = Selection("e.vector", fingerprint_id, query, excerpt_ids=excerpt_ids)
    return {
        excerpt_id: cosine
        for ids, cosines in _blocks(connection, selection, query)
        for excerpt_id, cosine in zip(ids.tolist(), cosines.tolist(), strict=True)
    }


def _blocks(
    connection: apsw.Connection, selection: Selection, query: Vector
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """(excerpt ids, cosines) of the usable vectors."""
    import numpy as np  # noqa: PLC0415 - only searches with vectors need it

    rows = connection.execute(selection.sql, selection.parameters)
    while block := list(islice(rows, _BLOCK_ROWS)):
        ids, matrix = stacked(block, len(query))
        lengths = row_lengths(matrix)
        with np.errstate(all="ignore"):
            cosines = np.einsum("ij,j->i", matrix, query) / (lengths * row_lengths(query[None]))
        usable = np.isfinite(cosines)
        yield ids[usable], np.clip(cosines[usable], -1.0, 1.0)


def stacked(
    rows: Sequence[tuple[int, bytes]], dimensions: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Stored rows (id, vector) as ids and a matrix. Every vector has the right number of bytes."""
    import numpy as np  # noqa: PLC0415 - only searches with vectors need it

    ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    numbers = np.frombuffer(b"".join(row[1] for row in rows), "<f4")
    return ids, numbers.reshape(len(rows), dimensions)


def row_lengths(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """The L2 norm of each row; NaN where it is zero or not finite, so where there is no direction."""
    import numpy as np  # noqa: PLC0415 - only searches with vectors need it

    with np.errstate(all="ignore"):
        lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    return np.where((lengths > 0) & np.isfinite(lengths), lengths, np.float32(np.nan))
