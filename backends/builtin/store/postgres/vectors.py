"""The vector lane in PostgreSQL: search by pgvector over the stored vectors.

Search is exact: half precision finds the vectors that can be among the nearest, and those are measured in full. Above
`store.vector.hnswFrom` it uses the agent's own approximate index, if `store migrate` made one. A search with a filter
is always exact, and no search is ever short of results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from backends.builtin.store.port import VectorAnswer, VectorHit, why_unlike
from backends.builtin.store.postgres.embeddings import reals, received
from backends.interface import VectorStatus
from backends.ranking.evidence import Background
from backends.ranking.lines import Excerpt
from providers.provider_interface import Fingerprint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backends.builtin.store.port import Unavailable
    from backends.builtin.store.postgres.transactions import AgentTransaction, StoredVectors
    from config.settings import VectorStoreSettings
    from providers.provider_interface import Vector

_BYTES_A_NUMBER: Final = 6
"""Four in full precision, two in half."""

SAMPLE: Final = 256
_FEW: Final = 8
"""The same as for SQLite's engines: see `sqlite/vectors`."""

_MARGIN: Final = 0.004
"""Twice the error of an inner product in half precision: a thousandth by rounding, and as much by lengths that are not
exactly 1.
"""
_SPARE: Final = 64
"""Half precision finds at first twice as many as are wanted, and so many more; rarely are more within the margin."""
_WIDER: Final = 4
_NEAR_OF_SAMPLE: Final = 8
"""Only vectors as near as so many of the sample, or nearer, are put in order."""
_LEAST_EF_SEARCH: Final = 200
_MOST_EF_SEARCH: Final = 1_000
"""pgvector's limit."""

# Vectors have length 1, so inner products put them in the order of their cosines, at half the price.
_DISTANCE: Final = "<#> %(query)s::real[]::vector::halfvec({dimensions})"
# Precise vectors are not read if they are farther away than the last one wanted by more than half precision may err.
_MEASURED: Final = """
    bound AS MATERIALIZED (
        SELECT bound, {is_enough} AS is_enough FROM (SELECT {margin} + coalesce(
            (SELECT distance FROM found ORDER BY distance OFFSET %(limit)s::bigint - 1 LIMIT 1), 'infinity'
        ) AS bound) AS b
    )
    SELECT f.excerpt_id, f.chunk_id, 1 - (f.vector <=> %(query)s::real[]::vector), b.is_enough
    FROM found AS f, bound AS b WHERE f.distance <= b.bound
"""
_ARE_WITHIN: Final = """
    bound <= {within} AND (SELECT count(*) < %(most)s::bigint OR max(distance) > bound FROM {those})
"""
_ARE_ENOUGH: Final = "(SELECT count(*) >= %(limit)s::bigint FROM found)"
"""The only check that is possible for the results of an approximate index."""
_WITHIN: Final = "%(within)s::float8"
# Putting rows in order costs more than measuring them, so most are left out before. The nearest may contain vectors
# that no excerpt uses any more; they are left out afterwards.
_NEAREST_OF_ALL: Final = f"""
    WITH nearest AS MATERIALIZED (
        SELECT text_hash, vector, {{half}} {_DISTANCE} AS distance FROM embeddings
        WHERE agent_id = {{agent}} AND fingerprint_id = {{fingerprint}} {{near}}
        ORDER BY {{half}} {_DISTANCE} LIMIT %(most)s::bigint
    ), found AS MATERIALIZED (
        SELECT x.excerpt_id, x.chunk_id, n.vector, n.distance
        FROM nearest AS n CROSS JOIN LATERAL (SELECT excerpt_id, chunk_id FROM excerpts
            WHERE agent_id = {{agent}} AND text_hash = n.text_hash OFFSET 0) AS x
    ), {_MEASURED}
"""
_NEAREST_OF_EXCERPTS: Final = f"""
    WITH found AS MATERIALIZED (
        SELECT x.excerpt_id, x.chunk_id, e.vector, e.half {_DISTANCE} AS distance
        FROM excerpts AS x JOIN embeddings AS e
            ON e.agent_id = x.agent_id AND e.fingerprint_id = {{fingerprint}} AND e.text_hash = x.text_hash
        WHERE x.agent_id = {{agent}} {{only}}
        ORDER BY e.half {_DISTANCE}, x.excerpt_id LIMIT %(most)s::bigint
    ), {_MEASURED}
"""
# Even for many vectors, the server estimates that putting all in order is cheaper than asking the index.
_ASK_INDEX: Final = """
    SELECT set_config('hnsw.ef_search', %(ef)s, true), set_config('enable_sort', 'off', true),
        set_config('jit', 'off', true)
"""
_ASK_ANY: Final = "SELECT set_config('enable_sort', 'on', true)"
_NEAR: Final = f"AND half {_DISTANCE} <= {_WITHIN}"
_OF_FILES: Final = "AND x.file_id = ANY(%(files)s::bigint[])"
# Text hashes are as good as random, so the first ones are a fair sample, and the same one in every search.
_SAMPLED: Final = """
    SELECT {what} FROM (
        SELECT * FROM embeddings WHERE agent_id = %(agent)s AND fingerprint_id = %(fingerprint)s
        ORDER BY text_hash LIMIT %(sample)s::bigint
    ) AS s
"""
_MARK: Final = _SAMPLED.format(what="sha256(string_agg(text_hash, '' ORDER BY text_hash))")
_SAMPLE: Final = _SAMPLED.format(what="vector_send(vector)")
_EXCERPTS: Final = """
    SELECT x.chunk_id, x.excerpt_id, x.start, x."end", 1 - (e.vector <=> %(query)s::real[]::vector)
    FROM unnest(%(ids)s::bigint[]) AS w (chunk_id)
    CROSS JOIN LATERAL (SELECT * FROM excerpts
        WHERE agent_id = %(agent)s AND chunk_id = w.chunk_id OFFSET 0) AS x
    LEFT JOIN LATERAL (SELECT vector FROM embeddings WHERE agent_id = %(agent)s
        AND fingerprint_id = %(fingerprint)s AND text_hash = x.text_hash OFFSET 0) AS e ON true
    ORDER BY x.chunk_id, x.start
"""
_IS_COMPLETE: Final = """
    SELECT NOT EXISTS (SELECT 1 FROM excerpts AS x WHERE x.agent_id = %(agent)s AND NOT EXISTS (
        SELECT 1 FROM embeddings AS e WHERE e.agent_id = x.agent_id
            AND e.fingerprint_id = %(fingerprint)s AND e.text_hash = x.text_hash))
"""
_BYTES_PER_CHUNK: Final = """
    SELECT coalesce(sum(f.dimensions * (SELECT count(*) FROM embeddings AS e
            WHERE e.agent_id = f.agent_id AND e.fingerprint_id = f.fingerprint_id)), 0)::float8,
        (SELECT documents FROM agents WHERE agent_id = %(agent)s)
    FROM fingerprints AS f WHERE f.agent_id = %(agent)s
"""


class _Sample(NamedTuple):
    """Some of the stored vectors, which give the distribution of a query's cosines."""

    version: int
    """The version of the index when the sample was last confirmed."""
    of: tuple[bytes, StoredVectors]
    """The fingerprint's digest and row. A new database repeats numbers of fingerprints, but not their digests."""
    mark: bytes | None
    """A hash of the texts of the sample."""
    matrix: NDArray[np.float32]
    lengths: NDArray[np.float32]

    def within(self, query: NDArray[np.float32], wanted: int, stored: int) -> float | None:
        """Returns a distance within which there should be several times as many vectors as are `wanted` of those that
        are `stored`; None if that might be any distance.
        """
        distances = np.sort(-(self.matrix @ query))
        place = max(_NEAR_OF_SAMPLE, -(-_WIDER * wanted * SAMPLE // max(1, stored)))
        if place >= len(distances) // 2 or not np.isfinite(distances).all():
            return None
        return float(distances[place])

    def background(self, query: Vector) -> Background | None:
        """Returns the distribution of cosines. To a few vectors it adds one at a right angle, as an unrelated one."""
        numbers = np.asarray(query)
        with np.errstate(all="ignore"):
            cosines = self.matrix @ numbers / (self.lengths * np.sqrt(numbers @ numbers))
        cosines = cosines[np.isfinite(cosines)]
        if not cosines.size:
            return None
        if cosines.size < _FEW:
            cosines = np.append(cosines, 0.0)
        return Background(float(cosines.mean()), float(cosines.std()), len(query))


class PostgresVectorMemory:
    """`VectorMemory`: it contains only a small sample; the server searches."""

    def __init__(self, settings: VectorStoreSettings) -> None:
        self.hnsw_from = settings.hnsw_from
        self.covered: tuple[int, int, int] | None = None
        """The version of the index, fingerprint and dimensions for which every text last had a vector."""
        self.sample: _Sample | None = None

    is_long = False

    def scan_ahead(self, query: Vector) -> None:
        """Does nothing: the server scans."""

    def release(self) -> None:
        self.sample = None

    def space(self, transaction: AgentTransaction, fingerprint: Fingerprint) -> PostgresVectorSpace:
        return PostgresVectorSpace(transaction, self, fingerprint)


class PostgresVectorSpace:
    """`VectorSpace` in one transaction."""

    def __init__(
        self, transaction: AgentTransaction, memory: PostgresVectorMemory, fingerprint: Fingerprint
    ) -> None:
        self._transaction = transaction
        self._memory = memory
        self._digest = fingerprint.digest()
        self._chunk_of: dict[int, int] = {}

    @property
    def _known(self) -> StoredVectors | None:
        return self._transaction.state.fingerprints.get(self._digest)

    @property
    def is_empty(self) -> bool:
        return self._known is None

    def search(
        self, query: Vector, *, limit: int, file_ids: Sequence[int] | None = None
    ) -> VectorAnswer | Unavailable:
        known = self._known
        if reason := _misfit(known, query):
            return VectorAnswer([], "pgvector", reason)
        assert known is not None
        numbers = np.asarray(query, np.float32)
        length = float(np.sqrt(numbers @ numbers))
        if limit < 1 or (file_ids is not None and not file_ids) or not 0 < length < np.inf:
            return VectorAnswer([], "pgvector")
        most = 2 * limit + _SPARE
        unit = numbers / np.float32(length)
        row: dict[str, object] = {"query": reals(unit), "limit": limit}
        if file_ids is None:
            within = self._within(known, unit, limit)
            rows = self._nearest(_NEAREST_OF_ALL, known, {**row, "most": most, "within": within})
            if rows and rows[0][-1]:
                return VectorAnswer(self._best(rows, limit), "pgvector")
            most *= _WIDER
        else:
            row["files"] = list(file_ids)
        while True:
            rows = self._nearest(_NEAREST_OF_EXCERPTS, known, {**row, "most": most})
            if not rows or rows[0][-1]:
                return VectorAnswer(self._best(rows, limit), "pgvector")
            most *= _WIDER

    def _within(self, known: StoredVectors, query: NDArray[np.float32], limit: int) -> float | None:
        """Returns a distance by any sample of these vectors, even an old one."""
        sample, stored = self._memory.sample, self._transaction.state.corpus.documents
        if sample is None or sample.of != (self._digest, known):
            return None
        return sample.within(query, limit, stored)

    def _best(self, rows: Sequence[Any], limit: int) -> list[VectorHit]:
        hits = []
        for excerpt_id, chunk_id, cosine, _ in rows:
            if np.isfinite(cosine):
                self._chunk_of[excerpt_id] = chunk_id
                hits.append(VectorHit(excerpt_id, min(1.0, max(-1.0, cosine))))
        return sorted(hits, key=lambda hit: (-hit.cosine, hit.excerpt_id))[:limit]

    def _nearest(self, template: str, known: StoredVectors, row: dict[str, Any]) -> list[Any]:
        """Searches, and checks the sample in the same round trip."""
        transaction = self._transaction
        most = row["most"]
        indexed = (
            template is _NEAREST_OF_ALL
            and known.has_index
            and most <= _MOST_EF_SEARCH
            and transaction.state.corpus.documents >= self._memory.hnsw_from
        )
        is_near = not indexed and row.get("within") is not None
        # Our own numbers are constants: otherwise the condition of a partial index would not be recognised.
        those = "nearest" if template is _NEAREST_OF_ALL else "found"
        statement = template.format(
            agent=transaction.agent or 0,
            fingerprint=known.fingerprint_id,
            dimensions=known.dimensions,
            half=f"half::halfvec({known.dimensions})" if indexed else "half",
            only=_OF_FILES if "files" in row else "",
            margin=_MARGIN,
            near=_NEAR.format(dimensions=known.dimensions) if is_near else "",
            is_enough=_ARE_ENOUGH
            if indexed
            else _ARE_WITHIN.format(those=those, within=_WITHIN if is_near else "'infinity'"),
        )
        work = [(statement, row)]
        if indexed:
            ef = str(max(_LEAST_EF_SEARCH, most))
            work = [(_ASK_INDEX, {"ef": ef}), *work, (_ASK_ANY, {})]
        found = 1 if indexed else 0
        is_sampled = self._sample_of(known) is not None
        if not is_sampled:
            work.append((_MARK, {"fingerprint": known.fingerprint_id, "sample": SAMPLE}))
        cursors = transaction.run_all(*work)
        if not is_sampled:
            self._keep_sample(known, cursors[-1].fetchone())
        return cursors[found].fetchall()

    def _sample_of(self, known: StoredVectors) -> _Sample | None:
        """Returns the sample, unless it may have changed."""
        sample, version = self._memory.sample, self._transaction.state.version
        if sample is None or sample.of != (self._digest, known) or sample.version != version:
            return None
        return sample

    def _keep_sample(self, known: StoredVectors, row: Any) -> _Sample:
        """Keeps the present sample if it has this mark; otherwise reads it again."""
        mark, version, last = row[0], self._transaction.state.version, self._memory.sample
        if last is not None and (last.of, last.mark) == ((self._digest, known), mark):
            sample = last._replace(version=version)
        else:
            wanted = {"fingerprint": known.fingerprint_id, "sample": SAMPLE}
            sent = [sent for (sent,) in self._transaction.run(_SAMPLE, wanted)]
            matrix = received(sent, known.dimensions)
            lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
            sample = _Sample(version, (self._digest, known), mark, matrix, lengths)
        self._memory.sample = sample
        return sample

    def background(self, query: Vector) -> Background | None:
        known = self._known
        if known is None or _misfit(known, query):
            return None
        sample = self._sample_of(known)
        if sample is None:
            wanted = {"fingerprint": known.fingerprint_id, "sample": SAMPLE}
            sample = self._keep_sample(known, self._transaction.one(_MARK, wanted))
        return sample.background(query)

    def covers_all(self, dimensions: int) -> bool:
        known, transaction = self._known, self._transaction
        if known is None or known.dimensions != dimensions:
            return False
        mark = (transaction.state.version, known.fingerprint_id, dimensions)
        if mark != self._memory.covered:
            (is_complete,) = transaction.one(_IS_COMPLETE, {"fingerprint": known.fingerprint_id})
            if not is_complete:
                return False
            self._memory.covered = mark
        return True

    def chunks_of(self, excerpt_ids: Sequence[int]) -> list[int]:
        """Returns the chunks; those that a search of this space found are known."""
        unknown = [number for number in excerpt_ids if number not in self._chunk_of]
        if unknown:
            rows = self._transaction.run(
                "SELECT excerpt_id, chunk_id FROM excerpts"
                " WHERE agent_id = %(agent)s AND excerpt_id = ANY(%(ids)s::bigint[])",
                {"ids": unknown},
            )
            self._chunk_of.update(rows.fetchall())
        return list(dict.fromkeys(self._chunk_of[number] for number in excerpt_ids))

    def excerpts(
        self, query: Vector, chunk_ids: Sequence[int], known: Mapping[int, float]
    ) -> dict[int, tuple[Excerpt, ...]]:
        found: dict[int, list[Excerpt]] = defaultdict(list)
        fingerprint = self._known
        if not chunk_ids or _misfit(fingerprint, query):
            return {}
        assert fingerprint is not None
        row = {
            "query": reals(query),
            "fingerprint": fingerprint.fingerprint_id,
            "ids": list(chunk_ids),
        }
        for chunk_id, excerpt_id, start, end, measured in self._transaction.run(_EXCERPTS, row):
            of_chunk = found[chunk_id]
            cosine = known.get(excerpt_id, measured)
            if cosine is not None and np.isfinite(cosine):
                of_chunk.append(Excerpt(start, end, min(1.0, max(-1.0, cosine))))
        return {chunk_id: tuple(of_chunk) for chunk_id, of_chunk in found.items()}

    def refresh(self, give_way: Callable[[], None] = lambda: None) -> bool:  # noqa: ARG002 - nothing to do
        """Does nothing: the server is always up to date."""
        return False

    def status(self) -> VectorStatus:
        known = self._known
        numbers, chunks = self._transaction.one(_BYTES_PER_CHUNK)
        return VectorStatus(
            configured="pgvector",
            engine="pgvector",
            unavailable={},
            dimensions=known.dimensions if known else None,
            bytes_per_chunk=round(numbers * _BYTES_A_NUMBER / chunks, 1) if chunks else None,
            resident_vectors=0,
            resident_bytes=0,
        )


def _misfit(known: StoredVectors | None, query: Vector) -> str | None:
    return why_unlike(known and known.dimensions, query)
