"""Which excerpts belong to which chunks: what the vector lane finds, as the chunks that hold it.

Owns the statements on `excerpts` that a search needs. Reads only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import apsw

from backends.builtin.storage.arrays import int64s


class ExcerptPlace(NamedTuple):
    """Characters `start` to `end` of its chunk's text."""

    id: int
    start: int
    end: int


def chunks_of(connection: apsw.Connection, excerpt_ids: Sequence[int]) -> list[int]:
    """The chunks that hold these excerpts, in the order of their first one."""
    chunk_of = dict(
        connection.execute(
            "SELECT id, chunk_id FROM excerpts WHERE id IN (SELECT value FROM carray(?))",
            (int64s(excerpt_ids),),
        )
    )
    return list(dict.fromkeys(chunk_of[number] for number in excerpt_ids))


def excerpts_of(
    connection: apsw.Connection, chunk_ids: Sequence[int]
) -> Mapping[int, list[ExcerptPlace]]:
    """By chunk, in order."""
    found: dict[int, list[ExcerptPlace]] = defaultdict(list)
    for chunk_id, *place in connection.execute(
        'SELECT chunk_id, id, start, "end" FROM excerpts'
        " WHERE chunk_id IN (SELECT value FROM carray(?)) ORDER BY chunk_id, start",
        (int64s(chunk_ids),),
    ):
        found[chunk_id].append(ExcerptPlace(*place))
    return found
