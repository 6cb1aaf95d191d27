"""The resident engine: all vectors of one fingerprint in memory, the best few rescored from the database.

Owns the life of the snapshot: made and renewed by `refresh`, which a caller runs in the background, given
back by `release`. A search never waits for either; without a snapshot it is refused and another engine
answers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import apsw
import structlog

from backends.builtin.vectors.ahead import ScansAhead
from backends.builtin.vectors.engine import EngineName, Unavailable, VectorAnswer, misfit
from backends.builtin.vectors.exact import nearest_excerpts
from backends.builtin.vectors.following import bytes_needed, first_snapshot, next_snapshot
from backends.builtin.vectors.kernels import choose_kernel
from backends.builtin.vectors.libraries import numpy_problem
from backends.builtin.vectors.members import newer_excerpts
from backends.builtin.vectors.snapshot import Snapshot, Space, space_of

if TYPE_CHECKING:
    from providers.interface import Vector

_log = structlog.get_logger(__name__)

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

    def search(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        query: Vector,
        *,
        limit: int,
        file_ids: Sequence[int] | None = None,
    ) -> VectorAnswer | Unavailable:
        """What changed since the last refresh is taken into account, as far as that is little."""
        snapshot = self._usable(connection, fingerprint_id)
        if snapshot is None:
            return Unavailable(self._refusal or _NOT_LOADED)
        if reason := misfit(connection, fingerprint_id, query):
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
            hits = nearest_excerpts(
                connection,
                fingerprint_id,
                query,
                limit=limit,
                file_ids=file_ids,
                excerpt_ids=known + newer,
            )
            if len(hits) >= limit or len(known) < count:
                return VectorAnswer(hits, self.name)
            count *= _WIDER  # candidates were deleted since the last refresh

    def scan_ahead(self, query: Vector) -> None:
        """Does the long part of the search for this query now; without a snapshot nothing."""
        snapshot = self._snapshot
        if snapshot is not None and snapshot.space.dimensions == len(query):
            self._ahead.put(query, snapshot)

    def refresh(self, connection: apsw.Connection, fingerprint_id: int) -> bool:
        """Makes the vectors level with the database; whether they are held now.

        Inside a read transaction of the caller. Costs a pragma and two seeks when nothing was written
        since the last refresh over this connection. Does nothing while another thread refreshes.
        """
        if numpy_problem() or not self._refreshing.acquire(blocking=False):
            return False
        try:
            return self._refresh(connection, fingerprint_id)
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

    def _refresh(self, connection: apsw.Connection, fingerprint_id: int) -> bool:
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
        snapshot = (
            next_snapshot(connection, last, lambda: self._generation == generation)
            if last
            else first_snapshot(
                connection, space, choose_kernel(), lambda: self._generation == generation
            )
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
