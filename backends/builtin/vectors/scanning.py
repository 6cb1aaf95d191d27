"""What the engines have in common that read every vector they compare from the database.

Owns the order of the questions before a scan: whether the engine can search at all, and whether the query
belongs to the stored vectors. They keep nothing in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import apsw

from backends.builtin.vectors.engine import (
    EngineName,
    Unavailable,
    VectorAnswer,
    VectorHit,
    misfit,
)

if TYPE_CHECKING:
    from providers.interface import Vector


class DatabaseScan(ABC):
    """A `VectorEngine` without vectors of its own."""

    name: ClassVar[EngineName]

    @abstractmethod
    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None: ...

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
        hits = self._nearest(connection, fingerprint_id, query, limit=limit, file_ids=file_ids)
        return VectorAnswer(hits, self.name)

    @abstractmethod
    def _nearest(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        query: Vector,
        *,
        limit: int,
        file_ids: Sequence[int] | None,
    ) -> list[VectorHit]: ...
