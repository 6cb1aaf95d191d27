"""One state of the resident vectors: segments that never change, which file each belongs to, and the scan over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import apsw
import msgspec

from backends.builtin.store.sqlite.connections import int64s
from backends.builtin.store.sqlite.vectors.embeddings import current_serial
from backends.builtin.store.sqlite.vectors.engines import np, simd_problem
from backends.builtin.store.sqlite.vectors.scans import row_lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from providers.provider_interface import Vector


_INT8_MAX: Final = 127


class Coded(NamedTuple):
    """Vectors as a kernel holds them: `matrix[i] * scales[i]` is the vector, of length 1."""

    matrix: NDArray[np.int8] | NDArray[np.float32]
    scales: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + self.scales.nbytes


class Kernel(Protocol):
    item_bytes: int
    """The size of one number of a vector."""

    def encode(self, vectors: NDArray[np.float32]) -> Coded:
        """`vectors`: float32 of shape (n, d), each with a direction, not necessarily of length 1."""
        ...

    def score(self, rows: Coded, query: Coded, out: NDArray[np.float32]) -> None:
        """Writes the cosine of `query`, one row, with each of `rows`, times some positive constant."""
        ...


class Int8Kernel:
    """Each vector has its own scale: its largest number becomes 127.

    The error of a cosine is about 0.0003 (1,536 random dimensions), so the order is right but for
    near ties, which rescoring in float32 decides.
    """

    item_bytes = 1

    def encode(self, vectors: NDArray[np.float32]) -> Coded:
        peaks = np.abs(vectors).max(axis=1)
        steps = (_INT8_MAX / peaks)[:, None]
        scales = peaks / (_INT8_MAX * row_lengths(vectors))
        return Coded(np.rint(vectors * steps).astype(np.int8), scales.astype(np.float32))

    def score(self, rows: Coded, query: Coded, out: NDArray[np.float32]) -> None:
        import simsimd  # noqa: PLC0415 - as above

        # Not by its own `out`: SimSIMD then returns None without a reference of its own, and with the
        # last reference that is lost the interpreter ends, some ten thousand searches later.
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
    return Float32Kernel() if simd_problem() else Int8Kernel()


SEGMENT_ROWS: Final = 16_384
"""25 MB at 1,536 dimensions: what the merging of small segments copies at most."""
_LEAST_LIVE: Final = 0.75
"""A segment with a smaller share of rows in use is copied without the others."""


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
    """One segment with the rows of all parts, of which there is at least one."""
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
    """The same vectors in few segments, without most of those that are not in `used` (sorted)."""
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
    """Which of the values are among the others, which are sorted."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    places = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    found: NDArray[np.bool_] = ascending[places] == values
    return found


def find_rows(
    segments: Sequence[Segment], embeddings: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The place of each embedding, counted through all segments, and whether it has one."""
    if not segments:
        return np.zeros(len(embeddings), np.intp), np.zeros(len(embeddings), np.bool_)
    held = np.concatenate([segment.embeddings for segment in segments])
    order = np.argsort(held)
    places = np.searchsorted(held, embeddings, sorter=order).clip(max=len(held) - 1)
    rows = order[places]
    return rows, held[rows] == embeddings


_ROWS_AT_ONCE: Final = 65_536
"""Rows as Python objects take ten times the space of the arrays they become."""

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

FileMarks = Mapping[int, int]
"""By file id, something that changes whenever the excerpts of the file do."""


class Members(msgspec.Struct, frozen=True, eq=False):
    """Three arrays side by side, in the order of the excerpt ids."""

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

    def outside(self, files: Iterable[int]) -> Members:
        """Without the excerpts of those files."""
        return self.only(~np.isin(self.files, list(files)))


def file_marks(connection: apsw.Connection) -> FileMarks:
    """The marks of all files. What a file's excerpts are follows from its content and the pipeline."""
    return {
        file_id: hash((content_hash, pipeline))
        for file_id, content_hash, pipeline in connection.execute(
            "SELECT id, content_hash, pipeline FROM files"
        )
    }


def all_members(connection: apsw.Connection, fingerprint_id: int) -> Members:
    return _united(_read(connection, _ALL, {"fingerprint": fingerprint_id}))


def updated_members(
    connection: apsw.Connection,
    fingerprint_id: int,
    known: Members,
    *,
    changed_files: Sequence[int],
    gone_files: Iterable[int],
    newest_embedding: int,
) -> Members:
    """`known`, level with the database; `newest_embedding` is the highest id that it was read with."""
    parameters = {
        "fingerprint": fingerprint_id,
        "newest": newest_embedding,
        "files": int64s(changed_files),
    }
    kept = known.outside({*changed_files, *gone_files})
    return _united(
        [
            *_read(connection, _OF_NEW_EMBEDDINGS, parameters),
            *_read(connection, _OF_FILES, parameters),
            kept,
        ]
    )


def newest_excerpt(connection: apsw.Connection) -> int:
    """The highest id that any excerpt ever had; none is given twice."""
    newest: int | None = connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = 'excerpts'"
    ).get
    return newest or 0


def newer_excerpts(
    connection: apsw.Connection,
    fingerprint_id: int,
    *,
    newest_excerpt: int,
    newest_embedding: int,
    limit: int,
) -> list[int]:
    """Ids of up to `limit` excerpts that came, or whose vector came, after both of those numbers."""
    parameters = {
        "fingerprint": fingerprint_id,
        "newest_excerpt": newest_excerpt,
        "newest_embedding": newest_embedding,
        "limit": limit,
    }
    return [excerpt_id for (excerpt_id,) in connection.execute(_NEWER, parameters)]


def _read(
    connection: apsw.Connection, statement: str, parameters: Mapping[str, object]
) -> Iterator[Members]:
    rows = connection.execute(statement, parameters)
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        yield Members(*np.array(block, np.int64).T)


def _united(parts: Iterable[Members]) -> Members:
    """All parts together; of an excerpt that is in several, what the first of them says."""
    parts = list(parts)
    empty = np.empty(0, np.int64)
    excerpts = np.concatenate([empty, *(part.excerpts for part in parts)])
    excerpts, first = np.unique(excerpts, return_index=True)
    files = np.concatenate([empty, *(part.files for part in parts)])
    embeddings = np.concatenate([empty, *(part.embeddings for part in parts)])
    return Members(excerpts, files[first], embeddings[first])


_GROUPS_A_HIT: Final = 16


class Space(NamedTuple):
    """What a snapshot belongs to: vectors of another space have nothing to do with its own."""

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
    """The highest id that was ever given by then."""
    newest_excerpt: int
    """Likewise."""
    members: Members
    rows: NDArray[np.intp]
    """For each member the place of its vector, counted through all segments."""
    segments: tuple[Segment, ...]

    @classmethod
    def empty(cls, space: Space, kernel: Kernel) -> Snapshot:
        nothing = np.empty(0, np.int64)
        members = Members(nothing, nothing, nothing)
        return cls(space, kernel, {}, 0, 0, members, np.empty(0, np.intp), ())

    @property
    def nbytes(self) -> int:
        held = sum(segment.nbytes for segment in self.segments)
        return held + self.members.nbytes + self.rows.nbytes

    @property
    def vectors(self) -> int:
        return sum(len(segment) for segment in self.segments)

    def candidates(
        self, scores: NDArray[np.float32], count: int, file_ids: Sequence[int] | None = None
    ) -> list[int]:
        """The ids of about the `count` nearest excerpts of the permitted files, in no order."""
        scores, excerpts = scores[self.rows], self.members.excerpts
        if file_ids is not None:
            permitted = np.flatnonzero(_among(self.members.files, file_ids))
            scores, excerpts = scores[permitted], excerpts[permitted]
        chosen: list[int] = excerpts[_best(scores, count)].tolist()
        return chosen

    def scores(self, query: Vector) -> NDArray[np.float32]:
        """What `candidates` compares, for every vector; the long part of a search."""
        scores = np.empty(self.vectors, np.float32)
        code = self.kernel.encode(np.asarray(query)[None])
        start = 0
        for segment in self.segments:
            end = start + len(segment)
            self.kernel.score(segment.coded, code, scores[start:end])
            start = end
        return scores


def _among(files: NDArray[np.int64], file_ids: Sequence[int]) -> NDArray[np.bool_]:
    """Which of `files` are permitted. A table, since row ids of files are small numbers."""
    permitted = np.zeros(files.max(initial=0) + 1, np.bool_)
    known = np.array(file_ids, np.int64)
    permitted[known[known < len(permitted)]] = True
    among: NDArray[np.bool_] = permitted[files]
    return among


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """The positions of the `count` highest scores, ascending but for ties; of equal ones the first."""
    likely = _likely(scores, count)
    if count >= len(likely):
        return likely
    scores = scores[likely]
    least = np.partition(scores, -count)[-count]
    above = np.flatnonzero(scores > least)
    level = np.flatnonzero(scores == least)[: count - len(above)]
    return likely[np.concatenate((above, level))]


def _likely(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """The positions of the `count` highest scores and few others.

    Among many groups of neighbours, `count` reach the count-th highest of the groups' maxima, so nothing
    below that can be among the best. One look at each score, where a partition takes several.
    """
    width = len(scores) // (_GROUPS_A_HIT * count)
    if width <= 1:
        return np.arange(len(scores))
    peaks = scores[: len(scores) // width * width].reshape(-1, width).max(axis=1)
    return np.flatnonzero(scores >= np.partition(peaks, -count)[-count])
