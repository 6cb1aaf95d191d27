"""How high the cosines of a query are to texts at large.

Owns the sample of stored vectors that tells. Text hashes are as good as random, so the first ones in
their order are a fair sample, and the same one in every search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import apsw

from backends.builtin.vectors.exact import row_lengths, stacked
from backends.ranking.lanes import Background

if TYPE_CHECKING:
    from providers.interface import Vector

SAMPLE: Final = 256
"""Their deviation is known to 5 % then, in about a millisecond."""
_FEW: Final = 8

_SELECT: Final = """
    SELECT id, vector FROM embeddings
    WHERE fingerprint_id = :fingerprint AND length(vector) = :bytes ORDER BY text_hash LIMIT :sample
"""


def background(
    connection: apsw.Connection, fingerprint_id: int, query: Vector
) -> Background | None:
    """None without any vector to compare with. A few vectors are joined by one at a right angle:
    where every text answers, that is what an unrelated one would be like.
    """
    import numpy as np  # noqa: PLC0415 - only searches with vectors need it

    wanted = {"fingerprint": fingerprint_id, "bytes": query.nbytes, "sample": SAMPLE}
    rows: list[tuple[int, bytes]] = list(connection.execute(_SELECT, wanted))
    _, matrix = stacked(rows, len(query))
    with np.errstate(all="ignore"):
        cosines = matrix @ query / (row_lengths(matrix) * row_lengths(query[None]))
    cosines = cosines[np.isfinite(cosines)]
    if not cosines.size:
        return None
    if cosines.size < _FEW:
        cosines = np.append(cosines, 0.0)
    return Background(float(cosines.mean()), float(cosines.std()), len(query))
