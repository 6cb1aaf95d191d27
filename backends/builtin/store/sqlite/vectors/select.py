"""Search among stored vectors: which engine answers, and the vectors of one fingerprint as a view sees them.

Each engine says itself when it cannot search; then the next one is asked, so a search is answered as long as
anything at all can answer it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import apsw

from backends.builtin.store.port import EngineName, Unavailable, VectorAnswer
from backends.builtin.store.sqlite.connections import int64s
from backends.builtin.store.sqlite.vectors.embeddings import (
    Serial,
    current_serial,
    fingerprint_id,
    is_complete,
    vector_bytes_per_chunk,
)
from backends.builtin.store.sqlite.vectors.engines import (
    Extension,
    VectorEngine,
    VectorQuery,
    dimensions_of,
    numpy_problem,
)
from backends.builtin.store.sqlite.vectors.resident import ResidentEngine
from backends.builtin.store.sqlite.vectors.scans import DatabaseScan, NumpyScan, SqliteScan
from backends.builtin.store.sqlite.vectors.snapshot import newest_excerpt
from backends.interface import VectorStatus
from backends.ranking.evidence import Background, Excerpt

if TYPE_CHECKING:
    from config.settings import VectorStoreSettings
    from providers.provider_interface import Fingerprint, Vector


_MIB: Final = 1024 * 1024
_LONG_BYTES: Final = 16 * _MIB
"""Two milliseconds."""
_BY_PREFERENCE: Final[tuple[EngineName, ...]] = ("resident", "sqlite-vec", "numpy")


class VectorSearch:
    """The engines of one index, the preferred one first. Every method blocks; any thread may call."""

    def __init__(self, settings: VectorStoreSettings) -> None:
        self._configured = settings.engine
        first = 0 if settings.engine == "auto" else _BY_PREFERENCE.index(settings.engine)
        self._resident = ResidentEngine(settings.max_resident_mb * _MIB)
        self._sqlite = SqliteScan(Extension(settings.extension_path))
        self._numpy = NumpyScan()
        engines = (self._resident, self._sqlite, self._numpy)
        self._engines: tuple[VectorEngine, ...] = engines[first:]
        self._has_numpy = False
        """Whether it has been loaded."""
        self._covered: tuple[int, int, int, Serial] | None = None
        """What `covers_all` was last true of."""

    def space(self, connection: apsw.Connection, fingerprint: Fingerprint) -> SqliteVectorSpace:
        """Its vectors in the transaction of this connection."""
        return SqliteVectorSpace(connection, self, fingerprint_id(connection, fingerprint))

    def search(self, wanted: VectorQuery) -> VectorAnswer | Unavailable:
        """The answer of the first engine that gives one. Raises nothing but apsw.Error."""
        reasons = []
        for engine in self._engines:
            answer = engine.search(wanted)
            if isinstance(answer, VectorAnswer):
                return answer
            reasons.append(f"{engine.name}: {answer.reason}")
        return Unavailable("; ".join(reasons))

    @property
    def is_long(self) -> bool:
        """Whether a search reads so many resident bytes that it is worth a thread of its own."""
        return self._resident.resident_bytes >= _LONG_BYTES

    def scan_ahead(self, query: Vector) -> None:
        """Reads the resident vectors for a search that will come with this very array."""
        self._resident.scan_ahead(query)

    def refresh(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        give_way: Callable[[], None] = lambda: None,
    ) -> bool:
        """Keeps the resident engine, if it is configured, level with the database, in the background.

        Call it after the first answer and whenever files or vectors were written, in a read
        transaction. Returns whether the resident engine answers now.
        """
        self._has_numpy = numpy_problem() is None
        if self._resident not in self._engines:
            return False
        return self._resident.refresh(connection, fingerprint_id, give_way)

    def covers_all(self, connection: apsw.Connection, fingerprint_id: int, dimensions: int) -> bool:
        """Whether every chunk has a vector of this length. Once so, it stays so until one is added."""
        mark = (fingerprint_id, dimensions, newest_excerpt(connection), current_serial(connection))
        if mark != self._covered and is_complete(connection, fingerprint_id, dimensions):
            self._covered = mark
        return mark == self._covered

    def background(
        self, connection: apsw.Connection, fingerprint_id: int, query: Vector
    ) -> Background | None:
        """How high the query's cosines are at large; None without any vector."""
        cosines = self._scan(connection).sample(connection, fingerprint_id, query)
        return background_of(cosines, len(query))

    def cosines(
        self,
        connection: apsw.Connection,
        fingerprint_id: int,
        query: Vector,
        excerpt_ids: Sequence[int],
    ) -> dict[int, float]:
        """The cosines of some excerpts; those without a usable vector are left out."""
        scan = self._scan(connection)
        return scan.cosines(connection, fingerprint_id, query, excerpt_ids)

    def _scan(self, connection: apsw.Connection) -> DatabaseScan:
        """What measures single vectors: sqlite-vec until numpy is loaded, for which no search waits if it need not."""
        if self._has_numpy or self._sqlite not in self._engines:
            return self._numpy
        return self._numpy if self._sqlite.problem(connection, 0) else self._sqlite

    def release(self) -> None:
        """Gives the resident memory back, until the next refresh."""
        self._resident.release()

    @property
    def resident_bytes(self) -> int:
        return self._resident.resident_bytes

    def status(self, connection: apsw.Connection, fingerprint_id: int | None) -> VectorStatus:
        """`fingerprint_id`: None before the first vector of the provider in use."""
        number = fingerprint_id or 0
        answering: EngineName | None = None
        unavailable: dict[str, str] = {}
        for engine in self._engines:
            problem = engine.problem(connection, number)
            if problem is None:
                answering = engine.name
                break
            unavailable[engine.name] = problem
        return VectorStatus(
            configured=self._configured,
            engine=answering,
            unavailable=unavailable,
            dimensions=dimensions_of(connection, number),
            bytes_per_chunk=vector_bytes_per_chunk(connection),
            resident_vectors=self._resident.resident_vectors,
            resident_bytes=self._resident.resident_bytes,
        )


class SqliteVectorSpace:
    """`VectorSpace` over a connection inside a read transaction."""

    def __init__(
        self, connection: apsw.Connection, engines: VectorSearch, fingerprint_id: int | None
    ) -> None:
        self._connection = connection
        self._engines = engines
        self._number = fingerprint_id or 0

    @property
    def is_empty(self) -> bool:
        return not self._number

    def search(
        self, query: Vector, *, limit: int, file_ids: Sequence[int] | None = None
    ) -> VectorAnswer | Unavailable:
        return self._engines.search(
            VectorQuery(self._connection, self._number, query, limit, file_ids)
        )

    def background(self, query: Vector) -> Background | None:
        return self._engines.background(self._connection, self._number, query)

    def covers_all(self, dimensions: int) -> bool:
        return self._engines.covers_all(self._connection, self._number, dimensions)

    def chunks_of(self, excerpt_ids: Sequence[int]) -> list[int]:
        rows = self._connection.execute(
            "SELECT id, chunk_id FROM excerpts WHERE id IN (SELECT value FROM carray(?))",
            (int64s(excerpt_ids),),
        )
        chunk_of = dict(rows)
        return list(dict.fromkeys(chunk_of[number] for number in excerpt_ids))

    def excerpts(
        self, query: Vector, chunk_ids: Sequence[int], known: Mapping[int, float]
    ) -> dict[int, tuple[Excerpt, ...]]:
        places: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        rows = self._connection.execute(
            'SELECT chunk_id, id, start, "end" FROM excerpts'
            " WHERE chunk_id IN (SELECT value FROM carray(?)) ORDER BY chunk_id, start",
            (int64s(chunk_ids),),
        )
        for chunk_id, excerpt_id, start, end in rows:
            places[chunk_id].append((excerpt_id, start, end))
        ids = {excerpt_id for of_chunk in places.values() for excerpt_id, _, _ in of_chunk}
        others = sorted(ids.difference(known))
        measured = self._engines.cosines(self._connection, self._number, query, others)
        cosines = {**known, **measured}
        return {
            chunk_id: tuple(
                Excerpt(start, end, cosines[excerpt_id])
                for excerpt_id, start, end in of_chunk
                if excerpt_id in cosines
            )
            for chunk_id, of_chunk in places.items()
        }

    def refresh(self, give_way: Callable[[], None] = lambda: None) -> bool:
        return not self.is_empty and self._engines.refresh(self._connection, self._number, give_way)

    def status(self) -> VectorStatus:
        return self._engines.status(self._connection, self._number)


_FEW: Final = 8


def background_of(cosines: Iterable[float | None], dimensions: int) -> Background | None:
    """How high the cosines of a query are at large, by those of a sample; None without any.

    A few vectors are joined by one at a right angle: where every text answers, that is what an unrelated one
    would be like.
    """
    usable = [one for one in cosines if one is not None and math.isfinite(one)]
    if not usable:
        return None
    if len(usable) < _FEW:
        usable.append(0.0)
    mean = math.fsum(usable) / len(usable)
    variance = math.fsum((one - mean) ** 2 for one in usable) / len(usable)
    return Background(mean, math.sqrt(variance), dimensions)


def open_vector_search(settings: VectorStoreSettings) -> VectorSearch | None:
    """None when `store.vector.enabled` is false: then no vectors are kept or searched."""
    return VectorSearch(settings) if settings.enabled else None
