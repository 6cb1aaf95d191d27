"""What every engine of the vector lane offers, in types.

Owns the `VectorEngine` protocol and the values that come back. Which engine answers is decided in
`select`; all of them give the same hits for the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import apsw

if TYPE_CHECKING:
    from providers.interface import Vector

EngineName = Literal["resident", "sqlite-vec", "numpy"]


class VectorHit(NamedTuple):
    excerpt_id: int
    cosine: float
    """-1..1."""


class VectorAnswer(NamedTuple):
    """The nearest excerpts, best first; equal ones by excerpt id."""

    hits: list[VectorHit]
    engine: EngineName
    reason: str | None = None
    """Why nothing could be compared: the query's vector does not belong to the stored ones."""


class Unavailable(NamedTuple):
    """An engine cannot search now; another one has to."""

    reason: str


class VectorEngine(Protocol):
    """Exact search by cosine over the vectors of one fingerprint.

    Both methods block, may be called from any thread with the caller's own connection inside a read
    transaction, and raise nothing but `apsw.Error`.
    """

    @property
    def name(self) -> EngineName: ...

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:
        """Why a search would be refused now; None when it would be answered."""
        ...

    def search(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        query: Vector,
        *,
        limit: int,
        file_ids: Sequence[int] | None = None,
    ) -> VectorAnswer | Unavailable:
        """The `limit` nearest excerpts of the files in `file_ids`; None permits every file.

        Vectors that are short, zero or not finite, however they came into the table, never rank.
        """
        ...


def dimensions_of(connection: apsw.Connection, fingerprint_id: int) -> int | None:
    """Of the stored vectors of a fingerprint; None before the first of them."""
    dimensions: int | None = connection.execute(
        "SELECT dimensions FROM fingerprints WHERE id = ?", (fingerprint_id,)
    ).get
    return dimensions


def misfit(connection: apsw.Connection, fingerprint_id: int, query: Vector) -> str | None:
    """Why a query cannot be compared with the vectors of a fingerprint, or None."""
    dimensions = dimensions_of(connection, fingerprint_id)
    if dimensions is None:
        return "no vectors of this provider and model are stored"
    if dimensions != len(query):
        return f"the query has {len(query)} dimensions and the stored vectors have {dimensions}"
    return None
