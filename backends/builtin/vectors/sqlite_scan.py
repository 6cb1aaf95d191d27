"""The engine inside SQLite: sqlite-vec computes each distance where the vector lies.

Owns its one statement. It needs no memory of its own and no second copy of the vectors, which a virtual
table of sqlite-vec would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import apsw

from backends.builtin.vectors.engine import (
    EngineName,
    Unavailable,
    VectorAnswer,
    VectorHit,
    misfit,
)
from backends.builtin.vectors.extension import Extension
from backends.builtin.vectors.joined import Selection

if TYPE_CHECKING:
    from providers.interface import Vector

# LIMIT -1 keeps the inner query as it is, so that each distance is computed once and not once in every
# clause. Vectors without a direction give NULL or an infinite number, which are not between the bounds.
_NEAREST: Final = """
    SELECT chunk_id, max(-1.0, min(1.0, 1.0 - value)) FROM ({rows} LIMIT -1)
    WHERE value BETWEEN -0.001 AND 2.001 ORDER BY value, chunk_id LIMIT :limit
"""


class SqliteScan:
    """A `VectorEngine` over the extension of one database."""

    name: Final[EngineName] = "sqlite-vec"

    def __init__(self, extension: Extension) -> None:
        self._extension = extension

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:  # noqa: ARG002 - the protocol's
        return self._extension.load_into(connection)

    def search(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        query: Vector,
        *,
        limit: int,
        file_ids: Sequence[int] | None = None,
    ) -> VectorAnswer | Unavailable:
        if problem := self.problem(connection, fingerprint_id):
            return Unavailable(problem)
        if reason := misfit(connection, fingerprint_id, query):
            return VectorAnswer([], self.name, reason)
        selection = Selection(
            "vec_distance_cosine(e.vector, :query)", fingerprint_id, query, file_ids=file_ids
        )
        rows = connection.execute(
            _NEAREST.format(rows=selection.sql), {**selection.parameters, "limit": limit}
        )
        return VectorAnswer([VectorHit(*row) for row in rows], self.name)
