"""The resident engine: all vectors of one fingerprint in memory, level with the database, the best rescored from it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref

import apsw
from msgspec.structs import replace

from backends.builtin.store.port import EngineName, Unavailable, VectorAnswer
from backends.builtin.store.sqlite.connections import int64s
from backends.builtin.store.sqlite.vectors.embeddings import current_serial
from backends.builtin.store.sqlite.vectors.engines import VectorQuery, misfit, np, numpy_problem
from backends.builtin.store.sqlite.vectors.scans import nearest_excerpts, row_lengths, stacked
from backends.builtin.store.sqlite.vectors.snapshot import (
    SEGMENT_ROWS,
    FileMarks,
    Kernel,
    Members,
    Segment,
    Snapshot,
    Space,
    all_members,
    arranged,
    choose_kernel,
    file_marks,
    find_rows,
    newer_excerpts,
    newest_excerpt,
    space_of,
    united,
    updated_members,
)
from config.runtime.logs import Log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from providers.provider_interface import Vector


_BLOCK_ROWS: Final = 256
"""Some milliseconds of work, between which searches go first."""
_BYTES_A_NUMBER: Final = 4
"""As stored."""
_BYTES_A_VECTOR: Final = 12
"""In memory, beside its numbers: scale and id."""
_BYTES_AN_EXCERPT: Final = 32
"""Three ids and a place."""
_log = Log()


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
    used = np.unique(members.embeddings)
    missing = used[~find_rows(last.segments, used)[1]]
    segments = list(last.segments)
    for start in range(0, len(missing), SEGMENT_ROWS):
        parts = []
        for ids in _blocks(missing[start : start + SEGMENT_ROWS]):
            if not wanted():
                return None
            parts.append(_load(connection, last, ids))
        segments.append(united(parts))
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


def _blocks(ids: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(ids), _BLOCK_ROWS):
        yield ids[start : start + _BLOCK_ROWS]


def _load(connection: apsw.Connection, last: Snapshot, ids: NDArray[np.int64]) -> Segment:
    """Those of the vectors that have a direction, in the form of the kernel."""
    rows = connection.execute(
        "SELECT id, vector FROM embeddings"
        " WHERE id IN (SELECT value FROM carray(?)) AND length(vector) = ?",
        (int64s(ids.tolist()), last.space.dimensions * _BYTES_A_NUMBER),
    )
    found, vectors = stacked(list(rows), last.space.dimensions)
    usable = np.isfinite(row_lengths(vectors))
    return Segment(found[usable], last.kernel.encode(vectors[usable]))


def _newest_embedding(connection: apsw.Connection) -> int:
    newest: int = connection.execute("SELECT coalesce(max(id), 0) FROM embeddings").get
    return max(newest, current_serial(connection).last)


_MOST: Final = 4
"""Kept of searches that were given up, too; each takes four bytes a vector."""


class _Scan(NamedTuple):
    query: Vector
    """Held, so that its id is not given to another one."""
    snapshot: ReferenceType[Snapshot]
    """Which is not to be held for longer than it is used: it is as large as all vectors."""
    scores: NDArray[np.float32]


class ScansAhead:
    """Any thread may call."""

    def __init__(self) -> None:
        self._scans: OrderedDict[int, _Scan] = OrderedDict()
        self._changing = threading.Lock()

    def put(self, query: Vector, snapshot: Snapshot) -> None:
        """Scans now, in this thread."""
        scan = _Scan(query, ref(snapshot), snapshot.scores(query))
        with self._changing:
            self._scans[id(query)] = scan
            while len(self._scans) > _MOST:
                self._scans.popitem(last=False)

    def take(self, query: Vector, snapshot: Snapshot) -> NDArray[np.float32]:
        """The scores of this very query in this snapshot, computed now if they are not there."""
        with self._changing:
            scan = self._scans.pop(id(query), None)
        return scan.scores if scan and scan.snapshot() is snapshot else snapshot.scores(query)

    def clear(self) -> None:
        with self._changing:
            self._scans.clear()


_NOT_LOADED: Final = "the vectors are not loaded yet"
_BEHIND: Final = "many new vectors are not loaded yet"
_MOST_NEWER: Final = 2_000
"""Excerpts that came since the last refresh and are compared one by one."""
_WIDER: Final = 4
_MIB: Final = 1024 * 1024


class ResidentEngine:
    """A `VectorEngine` that takes `max_bytes` of memory at most."""

    name: Final[EngineName] = "resident"

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._snapshot: Snapshot | None = None
        self._ahead = ScansAhead()
        self._refusal: str | None = None
        """Why the vectors of the last refresh are not held."""
        self._generation = 0
        """Goes up whenever the snapshot changes, and when nobody wants the one that is being made."""
        self._refreshing = threading.Lock()
        self._changing = threading.Lock()
        self._seen: WeakKeyDictionary[apsw.Connection, tuple[int, object]] = WeakKeyDictionary()
        """By connection, the generation that was level with the database, and the latter's version."""

    @property
    def resident_bytes(self) -> int:
        snapshot = self._snapshot
        return snapshot.nbytes if snapshot else 0

    @property
    def resident_vectors(self) -> int:
        snapshot = self._snapshot
        return snapshot.vectors if snapshot else 0

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:
        return numpy_problem() or (
            None if self._usable(connection, fingerprint_id) else self._refusal or _NOT_LOADED
        )

    def search(self, wanted: VectorQuery) -> VectorAnswer | Unavailable:
        """What changed since the last refresh is taken into account, as far as that is little."""
        connection, fingerprint_id, query, limit, file_ids = wanted
        snapshot = self._usable(connection, fingerprint_id)
        if snapshot is None:
            return Unavailable(self._refusal or _NOT_LOADED)
        if reason := misfit(wanted):
            return VectorAnswer([], self.name, reason)
        newer = newer_excerpts(
            connection,
            fingerprint_id,
            newest_excerpt=snapshot.newest_excerpt,
            newest_embedding=snapshot.newest_embedding,
            limit=_MOST_NEWER + 1,
        )
        if len(newer) > _MOST_NEWER:
            return Unavailable(_BEHIND)
        count = candidate_count(limit)
        scores = self._ahead.take(query, snapshot)
        while True:
            known = snapshot.candidates(scores, count, file_ids)
            hits = nearest_excerpts(wanted, known + newer)
            if len(hits) >= limit or len(known) < count:
                return VectorAnswer(hits, self.name)
            count *= _WIDER  # candidates were deleted since the last refresh

    def scan_ahead(self, query: Vector) -> None:
        """Does the long part of the search for this query now; without a snapshot nothing."""
        snapshot = self._snapshot
        if snapshot is not None and snapshot.space.dimensions == len(query):
            self._ahead.put(query, snapshot)

    def refresh(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        give_way: Callable[[], None] = lambda: None,
    ) -> bool:
        """Makes the vectors level with the database; whether they are held now.

        Inside a read transaction of the caller. Costs a pragma and two seeks when nothing was written
        since the last refresh over this connection. Does nothing while another thread refreshes.
        """
        if numpy_problem() or not self._refreshing.acquire(blocking=False):
            return False
        try:
            return self._refresh(connection, fingerprint_id, give_way)
        finally:
            self._refreshing.release()

    def release(self) -> None:
        """Gives the memory back; a refresh that is under way ends without result."""
        with self._changing:
            self._generation += 1
            self._snapshot = None
        self._ahead.clear()

    def _usable(self, connection: apsw.Connection, fingerprint_id: int) -> Snapshot | None:
        snapshot = self._snapshot
        if snapshot and snapshot.space == space_of(connection, fingerprint_id):
            return snapshot
        return None

    def _refresh(
        self, connection: apsw.Connection, fingerprint_id: int, give_way: Callable[[], None]
    ) -> bool:
        version = connection.pragma("data_version"), connection.total_changes()
        space = space_of(connection, fingerprint_id)
        generation = self._generation  # first: a release right now must not go unnoticed
        last = self._snapshot
        if last and last.space == space and self._seen.get(connection) == (generation, version):
            return True
        if space is None or not self._fits(connection, space):
            self._replace(None, generation)
            return False
        if last and last.space != space:
            generation = self._replace(None, generation)
            last = None

        def is_wanted() -> bool:
            give_way()
            return self._generation == generation

        snapshot = (
            next_snapshot(connection, last, is_wanted)
            if last
            else first_snapshot(connection, space, choose_kernel(), is_wanted)
        )
        generation = self._replace(snapshot, generation)
        self._seen[connection] = generation, version
        return self._snapshot is snapshot is not None

    def _replace(self, snapshot: Snapshot | None, generation: int) -> int:
        """Unless the memory was given back meanwhile. Returns the generation that is then current."""
        with self._changing:
            if self._generation == generation and self._snapshot is not snapshot:
                self._snapshot = snapshot
                self._generation += 1
            return self._generation

    def _fits(self, connection: apsw.Connection, space: Space) -> bool:
        needed = bytes_needed(connection, space, choose_kernel())
        if needed <= self._max_bytes:
            self._refusal = None
            return True
        if self._refusal is None:
            _log.info("vectors not held in memory", bytes=needed, permitted=self._max_bytes)
        self._refusal = (
            f"{needed / _MIB:,.0f} MiB are needed and store.vector.maxResidentMB permits"
            f" {self._max_bytes / _MIB:,.0f}"
        )
        return False


def candidate_count(limit: int) -> int:
    """How many candidates are rescored, so that int8 never costs one of the best `limit`."""
    return limit + limit // 2 + 32
