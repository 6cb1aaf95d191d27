"""Keeping the resident vectors level with the database.

Owns the step from one snapshot to the next: what changed is found by comparing marks of files and numbers
of vectors, and only what is new is read. Everything happens inside one read transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import apsw

from backends.builtin.storage.arrays import int64s
from backends.builtin.vectors.exact import row_lengths, stacked
from backends.builtin.vectors.kernels import Kernel
from backends.builtin.vectors.members import (
    FileMarks,
    Members,
    all_members,
    file_marks,
    newest_excerpt,
    updated_members,
)
from backends.builtin.vectors.segments import SEGMENT_ROWS, Segment, arranged, find_rows, united
from backends.builtin.vectors.serial import current_serial
from backends.builtin.vectors.snapshot import Snapshot, Space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK_ROWS: Final = 2_048
_BYTES_A_NUMBER: Final = 4
"""As stored."""
_BYTES_A_VECTOR: Final = 12
"""In memory, beside its numbers: scale and id."""
_BYTES_AN_EXCERPT: Final = 32
"""Three ids and a place."""


def bytes_needed(connection: apsw.Connection, space: Space, kernel: Kernel) -> int:
    """What a snapshot takes at most, from counts that are cheap to have."""
    excerpts = connection.execute("SELECT count(*) FROM excerpts").get
    vectors = connection.execute(
        "SELECT count(*) FROM embeddings WHERE fingerprint_id = ?", (space.fingerprint_id,)
    ).get
    a_vector = space.dimensions * kernel.item_bytes + _BYTES_A_VECTOR
    needed: int = min(excerpts, vectors) * a_vector + excerpts * _BYTES_AN_EXCERPT
    return needed


def first_snapshot(
    connection: apsw.Connection, space: Space, kernel: Kernel, wanted: Callable[[], bool]
) -> Snapshot | None:
    """Everything, read anew. None as soon as it is not `wanted` any more."""
    members = all_members(connection, space.fingerprint_id)
    nothing = Snapshot.empty(space, kernel)
    return _successor(connection, nothing, members, file_marks(connection), wanted)


def next_snapshot(
    connection: apsw.Connection, last: Snapshot, wanted: Callable[[], bool]
) -> Snapshot | None:
    """What follows `last` in the same space; `last` itself when nothing changed. None as above."""
    marks = file_marks(connection)
    if marks == last.marks and _newest_embedding(connection) == last.newest_embedding:
        return last
    members = updated_members(
        connection,
        last.space.fingerprint_id,
        last.members,
        changed_files=[number for number, mark in marks.items() if last.marks.get(number) != mark],
        gone_files=last.marks.keys() - marks.keys(),
        newest_embedding=last.newest_embedding,
    )
    return _successor(connection, last, members, marks, wanted)


def _successor(
    connection: apsw.Connection,
    last: Snapshot,
    members: Members,
    marks: FileMarks,
    wanted: Callable[[], bool],
) -> Snapshot | None:
    import numpy as np  # noqa: PLC0415 - only the resident engine needs it

    used = np.unique(members.embeddings)
    missing = used[~find_rows(last.segments, used)[1]]
    segments = list(last.segments)
    for start in range(0, len(missing), SEGMENT_ROWS):
        if not wanted():
            return None
        ids = missing[start : start + SEGMENT_ROWS]
        segments.append(united(list(_load(connection, last, ids))))
    arrangement = arranged(segments, used)
    rows, present = find_rows(arrangement, members.embeddings)
    return replace(
        last,
        marks=marks,
        newest_embedding=_newest_embedding(connection),
        newest_excerpt=newest_excerpt(connection),
        members=members.only(present),
        rows=rows[present],
        segments=arrangement,
    )


def _load(connection: apsw.Connection, last: Snapshot, ids: NDArray[np.int64]) -> Iterator[Segment]:
    """Those of the vectors that have a direction, in the form of the kernel, block by block."""
    import numpy as np  # noqa: PLC0415 - only the resident engine needs it

    size = last.space.dimensions * _BYTES_A_NUMBER
    for start in range(0, len(ids), _BLOCK_ROWS):
        rows = connection.execute(
            "SELECT id, vector FROM embeddings"
            " WHERE id IN (SELECT value FROM carray(?)) AND length(vector) = ?",
            (int64s(ids[start : start + _BLOCK_ROWS].tolist()), size),
        )
        found, vectors = stacked(list(rows), last.space.dimensions)
        usable = np.isfinite(row_lengths(vectors))
        yield Segment(found[usable], last.kernel.encode(vectors[usable]))


def _newest_embedding(connection: apsw.Connection) -> int:
    newest: int = connection.execute("SELECT coalesce(max(id), 0) FROM embeddings").get
    return max(newest, current_serial(connection).last)
