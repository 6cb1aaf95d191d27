"""The interface of the engines of the vector lane, the optional libraries, and the engines that read each vector they
compare from the database: numpy, and sqlite-vec inside SQLite.

No library is loaded before a search needs it.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol
from weakref import WeakSet

import apsw

from backends.builtin.store.port import EngineName, Unavailable, VectorAnswer, VectorHit, why_unlike
from backends.builtin.store.sqlite.connections import int64s
from backends.builtin.store.sqlite.embeddings import BYTES_A_NUMBER, current_serial
from config.runtime.logs import Log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from providers.provider_interface import Vector

__all__ = ["np"]  # all computations of this package import it from here
_log = Log()


class VectorQuery(NamedTuple):
    """A query for vectors of one fingerprint, in a read transaction of the connection."""

    connection: apsw.Connection
    fingerprint_id: int
    query: Vector
    limit: int = 0
    file_ids: Sequence[int] | None = None
    """The files whose excerpts may be found; None permits every file."""
    excerpt_ids: Sequence[int] | None = None
    """The excerpts that may be found, likewise."""


class VectorEngine(Protocol):
    """Exact search by cosine over the vectors of one fingerprint.

    Both methods block, may be called from any thread with the caller's own connection inside a read
    transaction, and raise only `apsw.Error`.
    """

    @property
    def name(self) -> EngineName: ...

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:
        """Returns why a search would be refused now; None when it would be answered."""

    def search(self, wanted: VectorQuery) -> VectorAnswer | Unavailable:
        """Returns the nearest excerpts, best first.

        Vectors in the table that are too short, zero or not finite never rank.
        """


def dimensions_of(connection: apsw.Connection, fingerprint_id: int) -> int | None:
    """Returns the dimensions of the stored vectors of a fingerprint; None before the first of them."""
    dimensions: int | None = connection.execute(
        "SELECT dimensions FROM fingerprints WHERE id = ?", (fingerprint_id,)
    ).get
    return dimensions


def misfit(wanted: VectorQuery) -> str | None:
    """Returns why a query cannot be compared with the vectors of its fingerprint, or None."""
    return why_unlike(dimensions_of(wanted.connection, wanted.fingerprint_id), wanted.query)


class _LazyNumpy:
    """Stands for numpy, which the first computation loads; each attribute is looked up there once."""

    def __getattr__(self, name: str) -> object:
        value = getattr(importlib.import_module("numpy"), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np
else:
    np = _LazyNumpy()  # a search by keywords alone need not load it


INSTALL: Final = "install the gateway with its extra 'vector'"


@cache
def import_problem(name: str) -> str | None:
    """Returns why a library cannot be used, or None."""
    try:
        importlib.import_module(name)
    except ImportError as error:
        problem = f"{name} cannot be imported ({error}); {INSTALL}"
        _log.warning("vector library missing", library=name, reason=problem)
        return problem
    return None


_PACKAGE: Final = "sqlite_vec"
_LIBRARY: Final = "vec0.*"
_ENTRY_POINT: Final = "sqlite3_vec_init"


class Extension:
    """The library of sqlite-vec for one database. Thread-safe.

    The first failure is final for this process: it is logged once and kept for `status`.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._loaded: WeakSet[apsw.Connection] = WeakSet()
        self._lock = threading.Lock()
        self._failure: str | None = None

    def load_into(self, connection: apsw.Connection) -> str | None:
        """Loads its functions into a connection. Returns why that is impossible, or None."""
        with self._lock:
            if connection in self._loaded or self._failure:
                return self._failure
            self._failure = self._load(connection)
            if self._failure is None:
                self._loaded.add(connection)
            else:
                _log.warning("sqlite-vec not loaded", reason=self._failure)
            return self._failure

    def _load(self, connection: apsw.Connection) -> str | None:
        path = self._path or _bundled_library()
        if path is None:
            return f"sqlite-vec is not installed; {INSTALL}, or set store.vector.extensionPath"
        connection.enable_load_extension(True)
        try:
            connection.load_extension(str(path), _ENTRY_POINT)
        except apsw.ExtensionLoadingError as error:
            return f"sqlite-vec cannot be loaded from {path}: {error}"
        finally:
            connection.enable_load_extension(False)
        return None


def _bundled_library() -> Path | None:
    """Returns the library inside the installed package, found without importing the package."""
    spec = importlib.util.find_spec(_PACKAGE)
    places = spec.submodule_search_locations if spec else None
    libraries = [path for place in places or () for path in sorted(Path(place).glob(_LIBRARY))]
    return libraries[0] if libraries else None


class LibraryProblems(NamedTuple):
    """The reasons why libraries cannot be used; None for one that can."""

    sqlite_vec: str | None
    numpy: str | None
    simsimd: str | None


def probe_libraries(extension_path: Path | None) -> LibraryProblems:
    """Returns which libraries cannot be used. `extension_path`: as configured; None means the bundled sqlite-vec."""
    with closing(apsw.Connection(":memory:")) as connection:
        refused = Extension(extension_path).load_into(connection)
    return LibraryProblems(refused, import_problem("numpy"), import_problem("simsimd"))


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
    def cosines(self, wanted: VectorQuery) -> dict[int, float]:
        """Returns the cosines of the permitted excerpts, by id; those without a usable vector are left out."""

    @abstractmethod
    def sample(self, wanted: VectorQuery) -> Sequence[float | None]:
        """Returns the cosines of up to `SAMPLE` stored vectors; None, or no finite number, for an unusable one.

        Text hashes are as good as random, so the first ones in their order are a fair sample, and the same one
        in every search.
        """


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


def _selection(value: str, wanted: VectorQuery) -> tuple[str, dict[str, object]]:
    """Returns SQL and parameters for rows (excerpt id, value) of permitted excerpts with a vector as long as the query.

    `value` is an SQL expression of `e.vector`, in which `:query` stands for the query's bytes.
    """
    _, fingerprint_id, query, _, file_ids, excerpt_ids = wanted
    statement = (_EVERY if file_ids is None and excerpt_ids is None else _SOME).format(value=value)
    parameters: dict[str, object] = {
        "fingerprint": fingerprint_id,
        "bytes": len(query) * BYTES_A_NUMBER,
        "query": query.tobytes(),
    }
    if file_ids is not None:
        statement += _FILES
        parameters["files"] = int64s(file_ids)
    if excerpt_ids is not None:
        statement += _EXCERPTS
        parameters["excerpts"] = int64s(excerpt_ids)
    return statement, parameters


_BLOCK_ROWS: Final = 2_048
"""12 MB at 1,536 dimensions."""


def nearest_excerpts(wanted: VectorQuery) -> list[VectorHit]:
    """Returns the permitted excerpts with the highest cosine, best first; equal ones by excerpt id."""
    ids, cosines = np.empty(0, np.int64), np.empty(0, np.float32)
    for block_ids, block_cosines in _blocks(wanted):
        ids = np.concatenate((ids, block_ids))
        cosines = np.concatenate((cosines, block_cosines))
        best = np.lexsort((ids, -cosines))[: wanted.limit]
        ids, cosines = ids[best], cosines[best]
    return [VectorHit(*pair) for pair in zip(ids.tolist(), cosines.tolist(), strict=True)]


def _blocks(wanted: VectorQuery) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yields excerpt ids and cosines of the usable vectors."""
    numbers = np.asarray(wanted.query)
    rows = wanted.connection.execute(*_selection("e.vector", wanted))
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
    """Returns stored rows (id, vector) as ids and a matrix. Every vector has the right number of bytes."""
    ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    numbers = np.frombuffer(b"".join(row[1] for row in rows), "<f4")
    return ids, numbers.reshape(len(rows), dimensions)


def row_lengths(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the L2 norm of each row; NaN for a row without a direction: the norm is zero or not finite."""
    with np.errstate(all="ignore"):
        lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    return np.where((lengths > 0) & np.isfinite(lengths), lengths, np.float32(np.nan))


SAMPLE: Final = 256
"""The deviation of the cosines is then known to 5 %, in about a millisecond."""

# The index alone answers it, so that a known sample costs no page of vectors.
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
    """Compares with numpy. Any thread may call. Keeps a sample, which is read again only when it has changed."""

    name: ClassVar[EngineName] = "numpy"

    def __init__(self) -> None:
        self._last: _Sample | None = None

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:  # noqa: ARG002 - the protocol's
        return import_problem("numpy")

    def _nearest(self, wanted: VectorQuery) -> list[VectorHit]:
        return nearest_excerpts(wanted)

    def cosines(self, wanted: VectorQuery) -> dict[int, float]:
        return {
            excerpt_id: cosine
            for ids, cosines in _blocks(wanted)
            for excerpt_id, cosine in zip(ids.tolist(), cosines.tolist(), strict=True)
        }

    def sample(self, wanted: VectorQuery) -> Sequence[float | None]:
        numbers = np.asarray(wanted.query)
        sample = self._sample(wanted)
        with np.errstate(all="ignore"):
            cosines = sample.matrix @ numbers / (sample.lengths * row_lengths(numbers[None]))
        found: list[float | None] = cosines.tolist()
        return found

    def _sample(self, wanted: VectorQuery) -> _Sample:
        connection, dimensions, parameters = wanted.connection, len(wanted.query), _sampled(wanted)
        epoch = current_serial(connection).epoch
        ids: str = connection.execute(_SAMPLE_IDS, parameters).get or ""
        last = self._last
        if last and (last.epoch, last.ids, last.matrix.shape[1]) == (epoch, ids, dimensions):
            return last
        rows = connection.execute(_SAMPLE_ROWS.format(value="vector"), parameters)
        _, matrix = stacked(list(rows), dimensions)
        self._last = _Sample(epoch, ids, matrix, row_lengths(matrix))
        return self._last


def _sampled(wanted: VectorQuery) -> dict[str, object]:
    size = len(wanted.query) * BYTES_A_NUMBER
    return {"fingerprint": wanted.fingerprint_id, "sample": SAMPLE, "bytes": size}


# LIMIT -1 keeps the inner query as it is, so that each distance is computed once and not once in every
# clause. Vectors without a direction give NULL or an infinite number, which are not between the bounds.
_NEAREST: Final = """
    SELECT excerpt_id, max(-1.0, min(1.0, 1.0 - value)) FROM ({rows} LIMIT -1)
    WHERE value BETWEEN -0.001 AND 2.001 ORDER BY value, excerpt_id LIMIT :limit
"""
_DISTANCE: Final = "vec_distance_cosine(e.vector, :query)"
_NO_LIMIT: Final = -1


class SqliteScan(DatabaseScan):
    """Compares inside SQLite, with the extension of one database; `problem` loads it."""

    name: ClassVar[EngineName] = "sqlite-vec"

    def __init__(self, extension: Extension) -> None:
        self._extension = extension

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:  # noqa: ARG002 - the protocol's
        return self._extension.load_into(connection)

    def _nearest(self, wanted: VectorQuery) -> list[VectorHit]:
        return [VectorHit(*row) for row in self._measured(wanted, wanted.limit)]

    def cosines(self, wanted: VectorQuery) -> dict[int, float]:
        return dict(self._measured(wanted, _NO_LIMIT))

    def _measured(self, wanted: VectorQuery, limit: int) -> apsw.Cursor:
        rows, parameters = _selection(_DISTANCE, wanted)
        statement = _NEAREST.format(rows=rows)
        return wanted.connection.execute(statement, {**parameters, "limit": limit})

    def sample(self, wanted: VectorQuery) -> Sequence[float | None]:
        rows = wanted.connection.execute(
            _SAMPLE_ROWS.format(value=f"1.0 - {_DISTANCE}"),
            {**_sampled(wanted), "query": wanted.query.tobytes()},
        )
        return [cosine for _, cosine in rows]
