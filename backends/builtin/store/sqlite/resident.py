"""The resident engine: all vectors of one fingerprint in memory, as current as the database, which rescores the best.

A `Snapshot` is one state of them: segments that never change, the file of each excerpt, and the scan over them. Its
successor shares the segments that are still in use.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

import apsw
import msgspec
from msgspec.structs import replace

from backends.builtin.store.port import EngineName, Unavailable, VectorAnswer
from backends.builtin.store.sqlite.connections import int64s
from backends.builtin.store.sqlite.embeddings import BYTES_A_NUMBER, current_serial
from backends.builtin.store.sqlite.vector_engines import (
    VectorQuery,
    import_problem,
    misfit,
    nearest_excerpts,
    np,
    row_lengths,
    stacked,
)
from config.runtime.logs import Log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from providers.provider_interface import Vector

_log = Log()

_INT8_MAX: Final = 127
SEGMENT_ROWS: Final = 16_384
"""25 MB at 1,536 dimensions: the most that a merge of small segments copies."""
_LEAST_LIVE: Final = 0.75
"""A segment with a smaller share of rows in use is copied without its other rows."""
_ROWS_AT_ONCE: Final = 65_536
"""Rows are Python objects before they become arrays, and take ten times the space."""

_ALL: Final = """
    SELECT x.id, x.file_id, e.id
    FROM embeddings AS e CROSS JOIN excerpts AS x ON x.text_hash = e.text_hash
    WHERE e.fingerprint_id = :fingerprint
"""
_OF_NEW_EMBEDDINGS: Final = """
    SELECT x.id, x.file_id, e.id
    FROM embeddings AS e CROSS JOIN excerpts AS x ON x.text_hash = e.text_hash
    WHERE +e.fingerprint_id = :fingerprint AND e.id > :newest
"""
_OF_FILES: Final = """
    SELECT x.id, x.file_id, e.id
    FROM excerpts AS x CROSS JOIN embeddings AS e
        ON e.fingerprint_id = :fingerprint AND e.text_hash = x.text_hash
    WHERE x.file_id IN (SELECT value FROM carray(:files))
"""

_NEWER: Final = """
    SELECT x.id FROM excerpts AS x WHERE x.id > :newest_excerpt
    UNION SELECT x.id
    FROM embeddings AS e CROSS JOIN excerpts AS x ON x.text_hash = e.text_hash
    WHERE +e.fingerprint_id = :fingerprint AND e.id > :newest_embedding
    LIMIT :limit
"""
_GROUPS_A_HIT: Final = 16
_BLOCK_ROWS: Final = 256
"""Some milliseconds of work, after which searches go first."""
_BYTES_A_VECTOR: Final = 12
"""The memory for scale and id, beside its numbers."""
_BYTES_AN_EXCERPT: Final = 32
"""Three ids and a place."""
_MOST_SCANS: Final = 4
"""The most scans that are kept, also of searches that were given up; each takes four bytes a vector."""
_NOT_LOADED: Final = "the vectors are not loaded yet"
_BEHIND: Final = "many new vectors are not loaded yet"
_MOST_NEWER: Final = 2_000
"""The most excerpts, new since the last refresh, that are compared one by one."""
_WIDER: Final = 4
_MIB: Final = 1024 * 1024

FileMarks = Mapping[int, int]
"""A mark of each file, by id, that changes whenever the excerpts of the file do."""


class Coded(NamedTuple):
    """Vectors as a kernel keeps them: `matrix[i] * scales[i]` is the vector, of length 1."""

    matrix: NDArray[np.int8] | NDArray[np.float32]
    scales: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + self.scales.nbytes


class Kernel(Protocol):
    item_bytes: int
    """The size of one number of a vector."""

    def encode(self, vectors: NDArray[np.float32]) -> Coded:
        """Encodes float32 `vectors` of shape (n, d), each with a direction, not necessarily of length 1."""

    def score(self, rows: Coded, query: Coded, out: NDArray[np.float32]) -> None:
        """Writes the cosine of `query`, one row, with each of `rows`, times a positive constant."""


class Int8Kernel:
    """Each vector has its own scale: its largest number becomes 127.

    The error of a cosine is about 0.0003 (1,536 random dimensions), so the order is right except for
    near ties, which rescoring in float32 decides.
    """

    item_bytes = 1

    def encode(self, vectors: NDArray[np.float32]) -> Coded:
        peaks = np.abs(vectors).max(axis=1)
        steps = (_INT8_MAX / peaks)[:, None]
        scales = peaks / (_INT8_MAX * row_lengths(vectors))
        return Coded(np.rint(vectors * steps).astype(np.int8), scales.astype(np.float32))

    def score(self, rows: Coded, query: Coded, out: NDArray[np.float32]) -> None:
        import simsimd  # noqa: PLC0415 - optional

        # SimSIMD's own `out` is not used: it would return None without counting the reference, and the
        # interpreter ends when the last reference is gone, after some ten thousand searches.
        out[:] = simsimd.dot(rows.matrix, query.matrix[0])
        out *= rows.scales


class Float32Kernel:
    item_bytes = 4

    def encode(self, vectors: NDArray[np.float32]) -> Coded:
        return Coded(np.ascontiguousarray(vectors), np.reciprocal(row_lengths(vectors)))

    def score(self, rows: Coded, query: Coded, out: NDArray[np.float32]) -> None:
        np.dot(rows.matrix, query.matrix[0], out=out)
        out *= rows.scales


def choose_kernel() -> Kernel:
    return Float32Kernel() if import_problem("simsimd") else Int8Kernel()


class Segment(msgspec.Struct, frozen=True, eq=False):
    """Some vectors with the row ids of their embeddings."""

    embeddings: NDArray[np.int64]
    coded: Coded

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def nbytes(self) -> int:
        return self.embeddings.nbytes + self.coded.nbytes

    def only(self, mask: NDArray[np.bool_]) -> Segment:
        return Segment(
            self.embeddings[mask], Coded(self.coded.matrix[mask], self.coded.scales[mask])
        )


def united(parts: Sequence[Segment]) -> Segment:
    """Returns one segment with the rows of all parts; there is at least one part."""
    if len(parts) == 1:
        return parts[0]
    return Segment(
        np.concatenate([part.embeddings for part in parts]),
        Coded(
            np.concatenate([part.coded.matrix for part in parts]),
            np.concatenate([part.coded.scales for part in parts]),
        ),
    )


def arranged(segments: Iterable[Segment], used: NDArray[np.int64]) -> tuple[Segment, ...]:
    """Returns the vectors in few segments, without most of those that are not in `used` (sorted)."""
    groups: list[list[Segment]] = []
    for segment in segments:
        kept = _live(segment, used)
        if groups and sum(map(len, groups[-1])) + len(kept) <= SEGMENT_ROWS:
            groups[-1].append(kept)
        else:
            groups.append([kept])
    return tuple(segment for group in groups if len(segment := united(group)))


def _live(segment: Segment, used: NDArray[np.int64]) -> Segment:
    live = contained(segment.embeddings, used)
    return segment if live.sum() >= _LEAST_LIVE * len(segment) else segment.only(live)


def contained(values: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns a mask of the values that are in `ascending`."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    places = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    found: NDArray[np.bool_] = ascending[places] == values
    return found


def find_rows(
    segments: Sequence[Segment], embeddings: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Returns the place of each embedding, counted through all segments, and whether it has one."""
    if not segments:
        return np.zeros(len(embeddings), np.intp), np.zeros(len(embeddings), np.bool_)
    stored = np.concatenate([segment.embeddings for segment in segments])
    order = np.argsort(stored)
    places = np.searchsorted(stored, embeddings, sorter=order).clip(max=len(stored) - 1)
    rows = order[places]
    return rows, stored[rows] == embeddings


class Members(msgspec.Struct, frozen=True, eq=False):
    """Three arrays with one element for each excerpt, in the order of the excerpt ids."""

    excerpts: NDArray[np.int64]
    files: NDArray[np.int64]
    embeddings: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.excerpts)

    @property
    def nbytes(self) -> int:
        return self.excerpts.nbytes + self.files.nbytes + self.embeddings.nbytes

    def only(self, mask: NDArray[np.bool_]) -> Members:
        return Members(self.excerpts[mask], self.files[mask], self.embeddings[mask])


def file_marks(connection: apsw.Connection) -> FileMarks:
    """Returns the marks of all files. Content and pipeline determine the excerpts of a file."""
    return {
        file_id: hash((content_hash, pipeline))
        for file_id, content_hash, pipeline in connection.execute(
            "SELECT id, content_hash, pipeline FROM files"
        )
    }


def newest_excerpt(connection: apsw.Connection) -> int:
    """Returns the highest id that any excerpt ever had; none is used twice."""
    newest: int | None = connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = 'excerpts'"
    ).get
    return newest or 0


def newer_excerpts(connection: apsw.Connection, snapshot: Snapshot) -> list[int]:
    """Returns the ids of excerpts that are newer than the snapshot, or whose vector is: one more than are compared."""
    parameters = {
        "fingerprint": snapshot.space.fingerprint_id,
        "newest_excerpt": snapshot.newest_excerpt,
        "newest_embedding": snapshot.newest_embedding,
        "limit": _MOST_NEWER + 1,
    }
    return [excerpt_id for (excerpt_id,) in connection.execute(_NEWER, parameters)]


def _read(
    connection: apsw.Connection, statement: str, parameters: Mapping[str, object]
) -> Iterator[Members]:
    rows = connection.execute(statement, parameters)
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        yield Members(*np.array(block, np.int64).T)


def _united(parts: Iterable[Members]) -> Members:
    """Unites all parts; for an excerpt in several of them, the first counts."""
    parts = list(parts)
    empty = np.empty(0, np.int64)
    excerpts = np.concatenate([empty, *(part.excerpts for part in parts)])
    excerpts, first = np.unique(excerpts, return_index=True)
    files = np.concatenate([empty, *(part.files for part in parts)])
    embeddings = np.concatenate([empty, *(part.embeddings for part in parts)])
    return Members(excerpts, files[first], embeddings[first])


class Space(NamedTuple):
    """The space of a snapshot; its vectors cannot be compared with those of another space."""

    fingerprint_id: int
    digest: bytes
    dimensions: int
    epoch: str
    """The epoch of the index file."""


def space_of(connection: apsw.Connection, fingerprint_id: int) -> Space | None:
    row = connection.execute(
        "SELECT digest, dimensions FROM fingerprints WHERE id = ?", (fingerprint_id,)
    ).fetchone()
    if row is None:
        return None
    digest, dimensions = row
    return Space(fingerprint_id, digest, dimensions, current_serial(connection).epoch)


class Snapshot(msgspec.Struct, frozen=True, eq=False, weakref=True):
    space: Space
    kernel: Kernel
    marks: FileMarks
    """The marks of the files as they were read."""
    newest_embedding: int
    """The highest id that was ever used by then."""
    newest_excerpt: int
    """The same for excerpts."""
    members: Members
    rows: NDArray[np.intp]
    """The place of each member's vector, counted through all segments."""
    segments: tuple[Segment, ...]

    @classmethod
    def empty(cls, space: Space, kernel: Kernel) -> Snapshot:
        nothing = np.empty(0, np.int64)
        members = Members(nothing, nothing, nothing)
        return cls(space, kernel, {}, 0, 0, members, np.empty(0, np.intp), ())

    @property
    def nbytes(self) -> int:
        vectors = sum(segment.nbytes for segment in self.segments)
        return vectors + self.members.nbytes + self.rows.nbytes

    @property
    def vectors(self) -> int:
        return sum(len(segment) for segment in self.segments)

    def candidates(
        self, scores: NDArray[np.float32], count: int, file_ids: Sequence[int] | None = None
    ) -> list[int]:
        """Returns the ids of about the `count` nearest excerpts of the permitted files, in no order."""
        scores, excerpts = scores[self.rows], self.members.excerpts
        if file_ids is not None:
            permitted = np.flatnonzero(_among(self.members.files, file_ids))
            scores, excerpts = scores[permitted], excerpts[permitted]
        chosen: list[int] = excerpts[_best(scores, count)].tolist()
        return chosen

    def scores(self, query: Vector) -> NDArray[np.float32]:
        """Returns the scores of all vectors for `candidates`; the long part of a search."""
        scores = np.empty(self.vectors, np.float32)
        code = self.kernel.encode(np.asarray(query)[None])
        start = 0
        for segment in self.segments:
            end = start + len(segment)
            self.kernel.score(segment.coded, code, scores[start:end])
            start = end
        return scores


def _among(files: NDArray[np.int64], file_ids: Sequence[int]) -> NDArray[np.bool_]:
    """Returns a mask of the permitted `files`. It looks them up in a table, since row ids of files are small."""
    permitted = np.zeros(files.max(initial=0) + 1, np.bool_)
    known = np.array(file_ids, np.int64)
    permitted[known[known < len(permitted)]] = True
    among: NDArray[np.bool_] = permitted[files]
    return among


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Returns the positions of the `count` highest scores, ascending except for ties; of equal ones the first."""
    likely = _likely(scores, count)
    if count >= len(likely):
        return likely
    scores = scores[likely]
    least = np.partition(scores, -count)[-count]
    above = np.flatnonzero(scores > least)
    level = np.flatnonzero(scores == least)[: count - len(above)]
    return likely[np.concatenate((above, level))]


def _likely(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Returns the positions of the `count` highest scores and few others.

    At least `count` scores reach the count-th highest of the maxima of groups of neighbours, so no score below that
    is among the best. This reads each score once, a partition several times.
    """
    width = len(scores) // (_GROUPS_A_HIT * count)
    if width <= 1:
        return np.arange(len(scores))
    peaks = scores[: len(scores) // width * width].reshape(-1, width).max(axis=1)
    return np.flatnonzero(scores >= np.partition(peaks, -count)[-count])


def bytes_needed(connection: apsw.Connection, space: Space, kernel: Kernel) -> int:
    """Returns the most bytes that a snapshot takes, from counts that are cheap."""
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
    """Reads everything. Returns None as soon as the snapshot is not `wanted` any more."""
    members = _united(_read(connection, _ALL, {"fingerprint": space.fingerprint_id}))
    nothing = Snapshot.empty(space, kernel)
    return _successor(connection, nothing, members, file_marks(connection), wanted)


def next_snapshot(
    connection: apsw.Connection, last: Snapshot, wanted: Callable[[], bool]
) -> Snapshot | None:
    """Returns the successor of `last` in the same space; `last` itself if nothing changed. None as above."""
    marks = file_marks(connection)
    if marks == last.marks and _newest_embedding(connection) == last.newest_embedding:
        return last
    changed = [number for number, mark in marks.items() if last.marks.get(number) != mark]
    touched = [*changed, *(last.marks.keys() - marks.keys())]
    parameters = {
        "fingerprint": last.space.fingerprint_id,
        "newest": last.newest_embedding,
        "files": int64s(changed),
    }
    members = _united(
        [
            *_read(connection, _OF_NEW_EMBEDDINGS, parameters),
            *_read(connection, _OF_FILES, parameters),
            last.members.only(~np.isin(last.members.files, touched)),
        ]
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
        for at in range(start, min(start + SEGMENT_ROWS, len(missing)), _BLOCK_ROWS):
            if not wanted():
                return None
            parts.append(_load(connection, last, missing[at : at + _BLOCK_ROWS]))
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


def _load(connection: apsw.Connection, last: Snapshot, ids: NDArray[np.int64]) -> Segment:
    """Returns those vectors that have a direction, in the form of the kernel."""
    rows = connection.execute(
        "SELECT id, vector FROM embeddings"
        " WHERE id IN (SELECT value FROM carray(?)) AND length(vector) = ?",
        (int64s(ids.tolist()), last.space.dimensions * BYTES_A_NUMBER),
    )
    found, vectors = stacked(list(rows), last.space.dimensions)
    usable = np.isfinite(row_lengths(vectors))
    return Segment(found[usable], last.kernel.encode(vectors[usable]))


def _newest_embedding(connection: apsw.Connection) -> int:
    newest: int = connection.execute("SELECT coalesce(max(id), 0) FROM embeddings").get
    return max(newest, current_serial(connection).last)


class _Scan(NamedTuple):
    query: Vector
    """Kept, so that its id is not used for another one."""
    snapshot: ReferenceType[Snapshot]
    """A weak reference, because a snapshot is as large as all vectors and must not outlive its use."""
    scores: NDArray[np.float32]


class ScansAhead:
    """Scans for searches that are about to come. Any thread may call."""

    def __init__(self) -> None:
        self._scans: OrderedDict[int, _Scan] = OrderedDict()
        self._changing = threading.Lock()

    def put(self, query: Vector, snapshot: Snapshot) -> None:
        """Scans now, in this thread."""
        scan = _Scan(query, ref(snapshot), snapshot.scores(query))
        with self._changing:
            self._scans[id(query)] = scan
            while len(self._scans) > _MOST_SCANS:
                self._scans.popitem(last=False)

    def take(self, query: Vector, snapshot: Snapshot) -> NDArray[np.float32]:
        """Returns the scores of this query object in this snapshot, computed now if they are missing."""
        with self._changing:
            scan = self._scans.pop(id(query), None)
        return scan.scores if scan and scan.snapshot() is snapshot else snapshot.scores(query)

    def clear(self) -> None:
        with self._changing:
            self._scans.clear()


class ResidentEngine:
    """A `VectorEngine` that takes at most `max_bytes` of memory."""

    name: Final[EngineName] = "resident"

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._snapshot: Snapshot | None = None
        self._ahead = ScansAhead()
        self._refusal: str | None = None
        """The reason if the vectors of the last refresh are not in memory."""
        self._generation = 0
        """Goes up whenever the snapshot changes, and when the one that is being made is not wanted any more."""
        self._refreshing = threading.Lock()
        self._changing = threading.Lock()
        self._seen: WeakKeyDictionary[apsw.Connection, tuple[int, object]] = WeakKeyDictionary()
        """The generation that was last up to date, and the version of the database then, by connection."""

    @property
    def resident_bytes(self) -> int:
        snapshot = self._snapshot
        return snapshot.nbytes if snapshot else 0

    @property
    def resident_vectors(self) -> int:
        snapshot = self._snapshot
        return snapshot.vectors if snapshot else 0

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:
        return import_problem("numpy") or (
            None if self._usable(connection, fingerprint_id) else self._refusal or _NOT_LOADED
        )

    def search(self, wanted: VectorQuery) -> VectorAnswer | Unavailable:
        """Searches the snapshot, and compares what is new since the last refresh, unless that is too much."""
        connection, fingerprint_id, query, limit, file_ids, _ = wanted
        snapshot = self._usable(connection, fingerprint_id)
        if snapshot is None:
            return Unavailable(self._refusal or _NOT_LOADED)
        if reason := misfit(wanted):
            return VectorAnswer([], self.name, reason)
        newer = newer_excerpts(connection, snapshot)
        if len(newer) > _MOST_NEWER:
            return Unavailable(_BEHIND)
        count = limit + limit // 2 + 32  # so that int8 never loses one of the best `limit`
        scores = self._ahead.take(query, snapshot)
        while True:
            known = snapshot.candidates(scores, count, file_ids)
            hits = nearest_excerpts(wanted._replace(excerpt_ids=known + newer))
            if len(hits) >= limit or len(known) < count:
                return VectorAnswer(hits, self.name)
            count *= _WIDER  # candidates were deleted since the last refresh

    def scan_ahead(self, query: Vector) -> None:
        """Does the long part of the search for this query now, if there is a snapshot."""
        snapshot = self._snapshot
        if snapshot is not None and snapshot.space.dimensions == len(query):
            self._ahead.put(query, snapshot)

    def refresh(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        give_way: Callable[[], None] = lambda: None,
    ) -> bool:
        """Brings the vectors in memory up to date with the database; returns whether they are in memory now.

        Runs inside a read transaction of the caller. Costs a pragma and two seeks if nothing was written
        since the last refresh over this connection. Does nothing while another thread refreshes.
        """
        if import_problem("numpy") or not self._refreshing.acquire(blocking=False):
            return False
        try:
            return self._refresh(connection, fingerprint_id, give_way)
        finally:
            self._refreshing.release()

    def release(self) -> None:
        """Gives the memory back; a refresh that is running ends without result."""
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
        """Replaces the snapshot unless the memory was given back meanwhile. Returns the current generation."""
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
            f"{math.ceil(needed / _MIB):,} MiB are needed and store.vector.maxResidentMB permits"
            f" {self._max_bytes / _MIB:,.0f}"
        )
        return False
