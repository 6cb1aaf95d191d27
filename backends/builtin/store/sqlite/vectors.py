"""Search among stored vectors: the choice of the engine, and the vectors of one fingerprint as a view sees them.

An engine that cannot search says so, and the next one is asked: a search is answered as long as any engine works.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import apsw

from backends.builtin.store.port import EngineName, Unavailable, VectorAnswer
from backends.builtin.store.sqlite.connections import int64s
from backends.builtin.store.sqlite.embeddings import (
    Serial,
    current_serial,
    fingerprint_id,
    is_complete,
    vector_bytes_per_chunk,
)
from backends.builtin.store.sqlite.resident import ResidentEngine, newest_excerpt
from backends.builtin.store.sqlite.vector_engines import (
    DatabaseScan,
    Extension,
    NumpyScan,
    SqliteScan,
    VectorEngine,
    VectorQuery,
    dimensions_of,
    import_problem,
)
from backends.interface import VectorStatus
from backends.ranking.evidence import Background
from backends.ranking.lines import Excerpt

if TYPE_CHECKING:
    from config.settings import VectorStoreSettings
    from providers.provider_interface import Fingerprint, Vector

_MIB: Final = 1024 * 1024
_LONG_BYTES: Final = 16 * _MIB
"""A scan of two milliseconds."""
_BY_PREFERENCE: Final[tuple[EngineName, ...]] = ("resident", "sqlite-vec", "numpy")
_FEW: Final = 8


class SqliteVectorMemory:
    """`VectorMemory`: the engines of one index, the preferred one first. All methods block; any thread may call."""

    def __init__(self, settings: VectorStoreSettings) -> None:
        self.configured = settings.engine
        first = 0 if settings.engine == "auto" else _BY_PREFERENCE.index(settings.engine)
        self.resident = ResidentEngine(settings.max_resident_mb * _MIB)
        self._sqlite = SqliteScan(Extension(settings.extension_path))
        self._numpy = NumpyScan()
        self.engines: tuple[VectorEngine, ...] = (self.resident, self._sqlite, self._numpy)[first:]
        self._has_numpy = False
        """True once numpy was loaded."""
        self.covered: tuple[int, int, int, Serial] | None = None
        """The state for which `SqliteVectorSpace.covers_all` was last true."""

    def space(self, connection: apsw.Connection, fingerprint: Fingerprint) -> SqliteVectorSpace:
        """Returns the vectors of a fingerprint in the transaction of this connection."""
        return SqliteVectorSpace(connection, self, fingerprint_id(connection, fingerprint))

    @property
    def is_long(self) -> bool:
        return self.resident.resident_bytes >= _LONG_BYTES

    def scan_ahead(self, query: Vector) -> None:
        self.resident.scan_ahead(query)

    def release(self) -> None:
        self.resident.release()

    def refresh(
        self, connection: apsw.Connection, fingerprint_id: int, give_way: Callable[[], None]
    ) -> bool:
        """Loads numpy, which scans use from then on; the resident engine only if it is configured."""
        self._has_numpy = import_problem("numpy") is None
        if self.resident not in self.engines:
            return False
        return self.resident.refresh(connection, fingerprint_id, give_way)

    def scan(self, connection: apsw.Connection) -> DatabaseScan:
        """Returns the engine for single vectors: numpy once it is loaded, before that sqlite-vec if it works."""
        if self._has_numpy or self._sqlite not in self.engines:
            return self._numpy
        return self._numpy if self._sqlite.problem(connection, 0) else self._sqlite


class SqliteVectorSpace:
    """`VectorSpace` over a connection inside a read transaction."""

    def __init__(
        self, connection: apsw.Connection, engines: SqliteVectorMemory, fingerprint_id: int | None
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
        """Returns the answer of the first engine that gives one. Raises only apsw.Error."""
        wanted = VectorQuery(self._connection, self._number, query, limit, file_ids)
        reasons = []
        for engine in self._engines.engines:
            answer = engine.search(wanted)
            if isinstance(answer, VectorAnswer):
                return answer
            reasons.append(f"{engine.name}: {answer.reason}")
        return Unavailable("; ".join(reasons))

    def background(self, query: Vector) -> Background | None:
        wanted = VectorQuery(self._connection, self._number, query)
        return background_of(self._engines.scan(self._connection).sample(wanted), len(query))

    def covers_all(self, dimensions: int) -> bool:
        """Returns whether every text has a vector. Once true, it stays true until an excerpt is added."""
        connection, number = self._connection, self._number
        mark = (number, dimensions, newest_excerpt(connection), current_serial(connection))
        if mark != self._engines.covered and is_complete(connection, number, dimensions):
            self._engines.covered = mark
        return mark == self._engines.covered

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
        others = VectorQuery(
            self._connection, self._number, query, excerpt_ids=sorted(ids.difference(known))
        )
        cosines = {**known, **self._engines.scan(self._connection).cosines(others)}
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
        engines, answering = self._engines, None
        unavailable: dict[str, str] = {}
        for engine in engines.engines:
            problem = engine.problem(self._connection, self._number)
            if problem is None:
                answering = engine.name
                break
            unavailable[engine.name] = problem
        return VectorStatus(
            configured=engines.configured,
            engine=answering,
            unavailable=unavailable,
            dimensions=dimensions_of(self._connection, self._number),
            bytes_per_chunk=vector_bytes_per_chunk(self._connection),
            resident_vectors=engines.resident.resident_vectors,
            resident_bytes=engines.resident.resident_bytes,
        )


def background_of(cosines: Iterable[float | None], dimensions: int) -> Background | None:
    """Returns the distribution of a query's cosines, estimated from a sample; None without any.

    One at a right angle is added to a sample of few vectors: if every text is related to the query, it stands for
    an unrelated one.
    """
    usable = [one for one in cosines if one is not None and math.isfinite(one)]
    if not usable:
        return None
    if len(usable) < _FEW:
        usable.append(0.0)
    mean = math.fsum(usable) / len(usable)
    variance = math.fsum((one - mean) ** 2 for one in usable) / len(usable)
    return Background(mean, math.sqrt(variance), dimensions)
