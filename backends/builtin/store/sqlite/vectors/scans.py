"""The engines that read every vector they compare from the database: numpy, and sqlite-vec inside SQLite."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import apsw

from backends.builtin.store.port import EngineName, Unavailable, VectorAnswer, VectorHit
from backends.builtin.store.sqlite.connections import int64s
from backends.builtin.store.sqlite.vectors.embeddings import current_serial
from backends.builtin.store.sqlite.vectors.engines import (
    Extension,
    VectorQuery,
    misfit,
    np,
    numpy_problem,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from providers.provider_interface import Vector


class DatabaseScan(ABC):
    """A `VectorEngine` without vectors of its own."""

    name: ClassVar[EngineName]

    @abstractmethod
    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None: ...

    def search(self, wanted: VectorQuery) -> VectorAnswer | Unavailable:
        if problem := self.problem(wanted.connection, wanted.fingerprint_id):
            return Unavailable(problem)
        if reason := misfit(wanted):
            return VectorAnswer([], self.name, reason)
        return VectorAnswer(self._nearest(wanted), self.name)

    @abstractmethod
    def _nearest(self, wanted: VectorQuery) -> list[VectorHit]: ...

    @abstractmethod
    def cosines(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        query: Vector,
        excerpt_ids: Sequence[int],
    ) -> dict[int, float]:
        """The cosines of some excerpts; those without a usable vector are left out."""

    @abstractmethod
    def sample(
        self, connection: apsw.Connection, fingerprint_id: int, query: Vector
    ) -> Sequence[float | None]:
        """The cosines of up to `SAMPLE` stored vectors; no number, or none that is finite, where one is unusable.

        Text hashes are as good as random, so the first ones in their order are a fair sample, and the same one
        in every search.
        """


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


class ChunkSelection:
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


_BLOCK_ROWS: Final = 2_048
"""12 MB at 1,536 dimensions."""


def nearest_excerpts(
    wanted: VectorQuery, excerpt_ids: Sequence[int] | None = None
) -> list[VectorHit]:
    """The excerpts with the highest cosine, best first; equal ones by excerpt id.

    Files and `excerpt_ids` limit the search itself; None permits all.
    """
    connection, fingerprint_id, query, limit, file_ids = wanted
    selection = ChunkSelection(
        "e.vector", fingerprint_id, query, file_ids=file_ids, excerpt_ids=excerpt_ids
    )
    ids, cosines = np.empty(0, np.int64), np.empty(0, np.float32)
    for block_ids, block_cosines in _blocks(connection, selection, query):
        ids = np.concatenate((ids, block_ids))
        cosines = np.concatenate((cosines, block_cosines))
        best = np.lexsort((ids, -cosines))[:limit]
        ids, cosines = ids[best], cosines[best]
    return [VectorHit(*pair) for pair in zip(ids.tolist(), cosines.tolist(), strict=True)]


def _blocks(
    connection: apsw.Connection, selection: ChunkSelection, query: Vector
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """(excerpt ids, cosines) of the usable vectors."""
    numbers = np.asarray(query)
    rows = connection.execute(selection.sql, selection.parameters)
    while block := list(islice(rows, _BLOCK_ROWS)):
        ids, matrix = stacked(block, len(numbers))
        lengths = row_lengths(matrix)
        with np.errstate(all="ignore"):
            cosines = np.einsum("ij,j->i", matrix, numbers) / (lengths * row_lengths(numbers[None]))
        usable = np.isfinite(cosines)
        yield ids[usable], np.clip(cosines[usable], -1.0, 1.0)


def stacked(
    rows: Sequence[tuple[int, bytes]], dimensions: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Stored rows (id, vector) as ids and a matrix. Every vector has the right number of bytes."""
    ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    numbers = np.frombuffer(b"".join(row[1] for row in rows), "<f4")
    return ids, numbers.reshape(len(rows), dimensions)


def row_lengths(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """The L2 norm of each row; NaN where it is zero or not finite, so where there is no direction."""
    with np.errstate(all="ignore"):
        lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    return np.where((lengths > 0) & np.isfinite(lengths), lengths, np.float32(np.nan))


SAMPLE: Final = 256
"""Their deviation is known to 5 % then, in about a millisecond."""

# Answered by the index alone, so that a sample which is known costs no page of vectors.
_SAMPLE_IDS: Final = """
    SELECT group_concat(id) FROM (
        SELECT id FROM embeddings WHERE fingerprint_id = :fingerprint
        ORDER BY text_hash LIMIT :sample
    )
"""
_SAMPLE_ROWS: Final = """
    SELECT id, {value} FROM (
        SELECT id, vector FROM embeddings AS e WHERE fingerprint_id = :fingerprint
        ORDER BY text_hash LIMIT :sample
    ) AS e WHERE length(vector) = :bytes
"""


class _Sample(NamedTuple):
    epoch: str
    """The epoch of the ids: within one epoch a vector never changes and its id is never given again."""
    ids: str
    matrix: NDArray[np.float32]
    lengths: NDArray[np.float32]


class NumpyScan(DatabaseScan):
    """Any thread may call. Keeps a sample, which is read again only when it is another one."""

    name: ClassVar[EngineName] = "numpy"

    def __init__(self) -> None:
        self._last: _Sample | None = None

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:  # noqa: ARG002 - the protocol's
        return numpy_problem()

    def _nearest(self, wanted: VectorQuery) -> list[VectorHit]:
        return nearest_excerpts(wanted)

    def cosines(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        query: Vector,
        excerpt_ids: Sequence[int],
    ) -> dict[int, float]:
        selection = ChunkSelection("e.vector", fingerprint_id, query, excerpt_ids=excerpt_ids)
        return {
            excerpt_id: cosine
            for ids, cosines in _blocks(connection, selection, query)
            for excerpt_id, cosine in zip(ids.tolist(), cosines.tolist(), strict=True)
        }

    def sample(
        self, connection: apsw.Connection, fingerprint_id: int, query: Vector
    ) -> Sequence[float | None]:
        numbers = np.asarray(query)
        sample = self._sample(connection, fingerprint_id, len(query))
        with np.errstate(all="ignore"):
            cosines = sample.matrix @ numbers / (sample.lengths * row_lengths(numbers[None]))
        found: list[float | None] = cosines.tolist()
        return found

    def _sample(self, connection: apsw.Connection, fingerprint_id: int, dimensions: int) -> _Sample:
        wanted = _wanted_sample(fingerprint_id, dimensions)
        epoch = current_serial(connection).epoch
        ids: str = connection.execute(_SAMPLE_IDS, wanted).get or ""
        last = self._last
        if last and (last.epoch, last.ids, last.matrix.shape[1]) == (epoch, ids, dimensions):
            return last
        _, matrix = stacked(
            list(connection.execute(_SAMPLE_ROWS.format(value="vector"), wanted)), dimensions
        )
        self._last = _Sample(epoch, ids, matrix, row_lengths(matrix))
        return self._last


def _wanted_sample(fingerprint_id: int, dimensions: int) -> dict[str, object]:
    size = dimensions * _BYTES_A_NUMBER
    return {"fingerprint": fingerprint_id, "sample": SAMPLE, "bytes": size}


# LIMIT -1 keeps the inner query as it is, so that each distance is computed once and not once in every
# clause. Vectors without a direction give NULL or an infinite number, which are not between the bounds.
_NEAREST: Final = """
    SELECT excerpt_id, max(-1.0, min(1.0, 1.0 - value)) FROM ({rows} LIMIT -1)
    WHERE value BETWEEN -0.001 AND 2.001 ORDER BY value, excerpt_id LIMIT :limit
"""


_DISTANCE: Final = "vec_distance_cosine(e.vector, :query)"
_NO_LIMIT: Final = -1


class SqliteScan(DatabaseScan):
    """Over the extension of one database, which has to be loaded: `problem` does so."""

    name: ClassVar[EngineName] = "sqlite-vec"

    def __init__(self, extension: Extension) -> None:
        self._extension = extension

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:  # noqa: ARG002 - the protocol's
        return self._extension.load_into(connection)

    def _nearest(self, wanted: VectorQuery) -> list[VectorHit]:
        connection, fingerprint_id, query, limit, file_ids = wanted
        selection = ChunkSelection(_DISTANCE, fingerprint_id, query, file_ids=file_ids)
        return [VectorHit(*row) for row in self._measured(connection, selection, limit)]

    def cosines(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        query: Vector,
        excerpt_ids: Sequence[int],
    ) -> dict[int, float]:
        selection = ChunkSelection(_DISTANCE, fingerprint_id, query, excerpt_ids=excerpt_ids)
        return dict(self._measured(connection, selection, _NO_LIMIT))

    def _measured(
        self, connection: apsw.Connection, selection: ChunkSelection, limit: int
    ) -> apsw.Cursor:
        parameters = {**selection.parameters, "limit": limit}
        return connection.execute(_NEAREST.format(rows=selection.sql), parameters)

    def sample(
        self, connection: apsw.Connection, fingerprint_id: int, query: Vector
    ) -> Sequence[float | None]:
        rows = connection.execute(
            _SAMPLE_ROWS.format(value=f"1.0 - {_DISTANCE}"),
            {**_wanted_sample(fingerprint_id, len(query)), "query": query.tobytes()},
        )
        return [cosine for _, cosine in rows]
