"""The join of excerpts with their vectors, in the order that suits what a search may see.

Owns that SQL. Without a filter the vectors are read in the order of the file, and those that no chunk
uses cost one look into an index; with one, only the permitted excerpts are visited. The planner is told,
since it keeps no statistics of a table whose rows are that uneven.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from backends.builtin.storage.arrays import int64s

if TYPE_CHECKING:
    from providers.interface import Vector

_BYTES_A_NUMBER: Final = 4

_EVERY: Final = """
    SELECT x.id AS excerpt_id, {value} AS value
    FROM embeddings AS e CROSS JOIN excerpts AS x ON x.text_hash = e.text_hash
    WHERE +e.fingerprint_id = :fingerprint AND length(e.vector) = :bytes
"""
_SOME: Final = """
    SELECT x.id AS excerpt_id, {value} AS value
    FROM excerpts AS x CROSS JOIN embeddings AS e
        ON e.fingerprint_id = :fingerprint AND e.text_hash = x.text_hash
    WHERE length(e.vector) = :bytes
"""
_FILES: Final = " AND x.file_id IN (SELECT value FROM carray(:files))"
_EXCERPTS: Final = " AND x.id IN (SELECT value FROM carray(:excerpts))"


class Selection:
    """Rows (excerpt id, value) of the excerpts that have a vector as long as the query.

    `value` is an SQL expression of `e.vector`, in which `:query` stands for the query's bytes.
    """

    def __init__(
        self,
        value: str,
        fingerprint_id: int,
        query: Vector,
        *,
        file_ids: Sequence[int] | None = None,
        excerpt_ids: Sequence[int] | None = None,
    ) -> None:
        unfiltered = file_ids is None and excerpt_ids is None
        self.sql = (_EVERY if unfiltered else _SOME).format(value=value)
        self.parameters: dict[str, object] = {
            "fingerprint": fingerprint_id,
            "bytes": len(query) * _BYTES_A_NUMBER,
            "query": query.tobytes(),
        }
        if file_ids is not None:
            self.sql += _FILES
            self.parameters["files"] = int64s(file_ids)
        if excerpt_ids is not None:
            self.sql += _EXCERPTS
            self.parameters["excerpts"] = int64s(excerpt_ids)
