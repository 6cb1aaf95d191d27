"""The engine of last resort: reads every vector from the database and needs nothing but numpy.

Owns only its place among the engines; the arithmetic is that of `exact`. Memory is bounded by a block
of rows, however large the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import apsw

from backends.builtin.vectors.engine import EngineName, VectorHit
from backends.builtin.vectors.exact import nearest_excerpts
from backends.builtin.vectors.libraries import numpy_problem
from backends.builtin.vectors.scanning import DatabaseScan

if TYPE_CHECKING:
    from providers.interface import Vector


class NumpyScan(DatabaseScan):
    name: ClassVar[EngineName] = "numpy"

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:  # noqa: ARG002 - the protocol's
        return numpy_problem()

    def _nearest(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        query: Vector,
        *,
        limit: int,
        file_ids: Sequence[int] | None,
    ) -> list[VectorHit]:
        return nearest_excerpts(connection, fingerprint_id, query, limit=limit, file_ids=file_ids)
