"""The engine inside SQLite: sqlite-vec computes each distance where the vector lies.

Owns its one statement. It needs no memory of its own and no second copy of the vectors, which a virtual
table of sqlite-vec would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import apsw

from backends.builtin.vectors.engine import EngineName, VectorHit
from backends.builtin.vectors.extension import Extension
from backends.builtin.vectors.joined import Selection
from backends.builtin.vectors.scanning import DatabaseScan

if TYPE_CHECKING:
    from providers.interface import Vector

# LIMIT -1 keeps the inner query as it is, so that each distance is computed once and not once in every
# clause. Vectors without a direction give NULL or an infinite number, which are not between the bounds.
_NEAREST: Final = """
    SELECT excerpt_id, max(-1.0, min(1.0, 1.0 - value)) FROM ({rows} LIMIT -1)
    WHERE value BETWEEN -0.001 AND 2.001 ORDER BY value, excerpt_id LIMIT :limit
"""


class SqliteScan(DatabaseScan):
    """Over the extension of one database."""

    name: ClassVar[EngineName] = "sqlite-vec"

    def __init__(self, extension: Extension) -> None:
        self._extension = extension

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:  # noqa: ARG002 - the protocol's
        return self._extension.load_into(connection)

    def _nearest(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        query: Vector,
        *,
        limit: int,
        file_ids: Sequence[int] | None,
    ) -> list[VectorHit]:
        selection = Selection(
            "vec_distance_cosine(e.vector, :query)", fingerprint_id, query, file_ids=file_ids
        )
        rows = connection.execute(
            _NEAREST.format(rows=selection.sql), {**selection.parameters, "limit": limit}
        )
        return [VectorHit(*row) for row in rows]
