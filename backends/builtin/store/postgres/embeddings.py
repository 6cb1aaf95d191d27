"""The rows of embeddings: vectors, texts that a provider refused, batch jobs, and the texts that wait for them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from backends.builtin.store.port import (
    BY_REQUEST,
    FIRST_RETRY_MS,
    LONGEST_RETRY_MS,
    MOST_DOUBLINGS,
    Failures,
    JobRecord,
    fit_and_unfit,
)
from backends.builtin.store.postgres.connections import Reals
from backends.builtin.store.postgres.file_rows import plain
from backends.builtin.store.postgres.transactions import IS_AHEAD, NOW_MS
from backends.interface import Coverage, FailedText
from config.runtime.decoding import prepared
from providers.provider_interface import Fingerprint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backends.builtin.store.postgres.transactions import AgentTransaction
    from providers.provider_interface import Vector

_HEAD_BYTES: Final = 4
"""The bytes before the numbers of a vector that pgvector sends: their count, and a field that is not used."""
_ELEMENT: Final = np.dtype([("bytes", ">i4"), ("number", ">f4")])
_FLOAT4: Final = 700
"""The id of the elements' type."""

_HAS_NONE: Final = f"""
    NOT EXISTS (SELECT 1 FROM embeddings AS e WHERE e.agent_id = x.agent_id
        AND e.fingerprint_id = %(fingerprint)s::bigint AND e.text_hash = x.text_hash)
    AND NOT EXISTS (SELECT 1 FROM batch_items AS b WHERE b.agent_id = x.agent_id
        AND b.digest = %(digest)s AND b.text_hash = x.text_hash)
    AND NOT EXISTS (SELECT 1 FROM claims AS o WHERE o.agent_id = x.agent_id
        AND o.text_hash = x.text_hash AND o.claimant <> %(claimant)s AND {IS_AHEAD})
    AND NOT EXISTS (SELECT 1 FROM embedding_failures AS y WHERE y.agent_id = x.agent_id
        AND y.digest = %(digest)s AND y.text_hash = x.text_hash
"""
# No text waits longer than the longest pause: one that would was refused while a clock was ahead.
_IS_TOO_EARLY: Final = (
    f"y.retry_at_ms > {NOW_MS} AND y.retry_at_ms <= {NOW_MS} + {LONGEST_RETRY_MS}"
)
_SELECT_PENDING: Final = f"""
    SELECT p.text_hash, c.text, p.start, p."end" FROM (
        SELECT * FROM (
            SELECT DISTINCT ON (x.text_hash) x.text_hash, x.chunk_id, x.start, x."end", f.mtime_ns, x.file_id
            FROM excerpts AS x JOIN files AS f ON f.agent_id = x.agent_id AND f.file_id = x.file_id
            WHERE x.agent_id = %(agent)s AND {_HAS_NONE} AND {_IS_TOO_EARLY})
            ORDER BY x.text_hash, f.mtime_ns DESC, x.file_id, x.chunk_id, x.start
        ) AS d ORDER BY mtime_ns DESC, file_id, chunk_id, start LIMIT %(limit)s::bigint
    ) AS p JOIN chunks AS c ON c.agent_id = %(agent)s AND c.chunk_id = p.chunk_id
    ORDER BY p.mtime_ns DESC, p.file_id, c.start, p.start
"""
_SELECT_BACKLOG: Final = f"""
    SELECT x.text_hash, max(x."end" - x.start) FROM excerpts AS x
    WHERE x.agent_id = %(agent)s AND {_HAS_NONE}) GROUP BY x.text_hash
"""
_IN_USE: Final = """
    EXISTS (SELECT 1 FROM excerpts AS c WHERE c.agent_id = {table}.agent_id AND c.text_hash = {table}.text_hash)
"""
_TEXTS_READ: Final = f"""
    SELECT f.digest, f.description::text, (SELECT count(*) FROM embeddings AS e
        WHERE e.agent_id = f.agent_id AND e.fingerprint_id = f.fingerprint_id AND {_IN_USE.format(table="e")})
    FROM fingerprints AS f WHERE f.agent_id = %(agent)s ORDER BY f.fingerprint_id
"""
_COVERAGE: Final = f"""
    SELECT (SELECT count(DISTINCT text_hash) FROM excerpts WHERE agent_id = %(agent)s),
        (SELECT count(*) FROM embeddings AS e WHERE e.agent_id = %(agent)s
            AND e.fingerprint_id = %(fingerprint)s::bigint AND {_IN_USE.format(table="e")}),
        (SELECT count(*) FROM embedding_failures AS x WHERE x.agent_id = %(agent)s
            AND x.digest = %(digest)s AND {_IN_USE.format(table="x")}),
        (SELECT count(*) FROM embeddings WHERE agent_id = %(agent)s)
"""
_SELECT_FAILED: Final = """
    SELECT path, line, reason, attempts FROM (
        SELECT DISTINCT ON (x.text_hash) f.path, c.start_line + e.line AS line, x.reason, x.attempts, x.retry_at_ms
        FROM embedding_failures AS x
        JOIN excerpts AS e ON e.agent_id = x.agent_id AND e.text_hash = x.text_hash
        JOIN chunks AS c ON c.agent_id = x.agent_id AND c.chunk_id = e.chunk_id
        JOIN files AS f ON f.agent_id = x.agent_id AND f.file_id = c.file_id
        WHERE x.agent_id = %(agent)s AND x.digest = %(digest)s ORDER BY x.text_hash, e.excerpt_id
    ) AS one ORDER BY retry_at_ms DESC, path, line LIMIT %(limit)s::bigint
"""
_RECORD_FAILURE: Final = f"""
    INSERT INTO embedding_failures AS y (agent_id, digest, text_hash, reason, attempts, retry_at_ms)
    VALUES (%(agent)s, %(digest)s, %(text_hash)s, %(reason)s, 1, {NOW_MS} + %(first)s::bigint)
    ON CONFLICT (agent_id, digest, text_hash) DO UPDATE SET reason = excluded.reason,
        attempts = y.attempts + 1, retry_at_ms = {NOW_MS}
            + least(%(longest)s::bigint, %(first)s::bigint << least(2 * y.attempts, %(doublings)s)::int)
"""
_PUT: Final = """
    INSERT INTO embeddings (agent_id, fingerprint_id, text_hash, vector, used_at_ms)
    VALUES (%(agent)s, %(fingerprint)s, %(text_hash)s, %(vector)s::real[]::vector, 0)
    ON CONFLICT (agent_id, fingerprint_id, text_hash)
    DO UPDATE SET vector = excluded.vector, used_at_ms = 0
"""
_SUCCEEDED: Final = """
    DELETE FROM embedding_failures
    WHERE agent_id = %(agent)s AND digest = %(digest)s AND text_hash = ANY(%(hashes)s::bytea[])
"""
_ANSWERED: Final = """
    DELETE FROM claims WHERE agent_id = %(agent)s AND text_hash = ANY(%(hashes)s::bytea[])
"""
_MAKE_FINGERPRINT: Final = """
    INSERT INTO fingerprints (agent_id, digest, description, dimensions)
    VALUES (%(agent)s, %(digest)s, %(description)s::jsonb, %(dimensions)s)
    ON CONFLICT (agent_id, digest) DO UPDATE SET dimensions = excluded.dimensions
    RETURNING fingerprint_id
"""


def reals(vector: Vector | NDArray[np.float32]) -> Reals:
    """Returns an array of one dimension without nulls, counted from 1."""
    elements = np.empty(len(vector), _ELEMENT)
    elements["bytes"], elements["number"] = 4, vector
    head = np.array([1, 0, _FLOAT4, len(vector), 1], ">i4")
    return Reals(head.tobytes() + elements.tobytes())


def received(sent: Sequence[bytes], dimensions: int) -> NDArray[np.float32]:
    """Returns the vectors that pgvector sends: their numbers come after four bytes."""
    numbers = np.frombuffer(b"".join(one[_HEAD_BYTES:] for one in sent), ">f4")
    return numbers.astype(np.float32).reshape(len(sent), dimensions)


class PostgresEmbeddings:
    """`EmbeddingWrites` in one transaction; a view uses only the reading half."""

    def __init__(self, transaction: AgentTransaction) -> None:
        self._transaction = transaction

    def dimensions(self) -> dict[bytes, int]:
        known = self._transaction.state.fingerprints
        return {digest: one.dimensions for digest, one in known.items()}

    def fingerprints(self) -> list[Fingerprint]:
        rows = self._transaction.run(
            "SELECT description::text FROM fingerprints WHERE agent_id = %(agent)s ORDER BY fingerprint_id"
        )
        return [
            msgspec.json.decode(description, type=prepared(Fingerprint)) for (description,) in rows
        ]

    def vectors_of(
        self, fingerprint: Fingerprint, text_hashes: Sequence[bytes]
    ) -> list[tuple[bytes, Vector]]:
        rows = self._transaction.run(
            "SELECT text_hash, vector_send(vector) FROM embeddings WHERE agent_id = %(agent)s"
            " AND fingerprint_id = %(fingerprint)s AND text_hash = ANY(%(hashes)s::bytea[])",
            {"fingerprint": self._number(fingerprint), "hashes": list(text_hashes)},
        )
        return [
            (
                key,
                array("f", np.frombuffer(sent, ">f4", offset=_HEAD_BYTES).astype("<f4").tobytes()),
            )
            for key, sent in rows
        ]

    def pending(
        self, fingerprint: Fingerprint, *, limit: int, dimensions: int | None = None
    ) -> list[tuple[bytes, str]]:
        known = self._transaction.state.fingerprints.get(fingerprint.digest())
        is_fit = known is not None and dimensions in (None, known.dimensions)
        number = known.fingerprint_id if known is not None and is_fit else None
        wanted = {"fingerprint": number, "digest": fingerprint.digest(), "limit": limit}
        rows = self._transaction.run(_SELECT_PENDING, wanted)
        return [(text_hash, text.decode()[start:end]) for text_hash, text, start, end in rows]

    def backlog(self, fingerprint: Fingerprint) -> list[tuple[bytes, int]]:
        wanted = {"fingerprint": self._number(fingerprint), "digest": fingerprint.digest()}
        return self._transaction.run(_SELECT_BACKLOG, wanted).fetchall()

    def superseded(self, current: Fingerprint) -> Fingerprint | None:
        rows = {digest: (text, read) for digest, text, read in self._transaction.run(_TEXTS_READ)}
        _, most = rows.pop(current.digest(), ("", 0))
        best = None
        for description, read in rows.values():
            if read > most:
                best, most = msgspec.json.decode(description, type=prepared(Fingerprint)), read
        return best

    def coverage(self, fingerprint: Fingerprint) -> Coverage:
        known = self._transaction.state.fingerprints.get(fingerprint.digest())
        wanted = {"fingerprint": self._number(fingerprint), "digest": fingerprint.digest()}
        total, embedded, failed, stored = self._transaction.one(_COVERAGE, wanted)
        return Coverage(
            total=total,
            embedded=embedded,
            failed=failed,
            dimensions=known.dimensions if known else None,
            stored=stored,
        )

    @property
    def has_unused(self) -> bool:
        """True if there are vectors of texts that no chunk contains any more."""
        (has_unused,) = self._transaction.one(
            "SELECT EXISTS (SELECT 1 FROM embeddings WHERE agent_id = %(agent)s AND used_at_ms > 0)"
        )
        return bool(has_unused)

    def failed_texts(self, fingerprint: Fingerprint, *, limit: int) -> tuple[FailedText, ...]:
        wanted = {"digest": fingerprint.digest(), "limit": limit}
        rows = self._transaction.run(_SELECT_FAILED, wanted)
        return tuple(
            FailedText(path=path, start_line=line, reason=reason, attempts=attempts)
            for path, line, reason, attempts in rows
        )

    def next_retry_s(self, fingerprint: Fingerprint) -> float | None:
        (pause_ms,) = self._transaction.one(
            f"SELECT min(CASE WHEN {_IS_TOO_EARLY} THEN y.retry_at_ms - {NOW_MS} ELSE 0 END)"
            " FROM embedding_failures AS y WHERE y.agent_id = %(agent)s AND y.digest = %(digest)s",
            {"digest": fingerprint.digest()},
        )
        return None if pause_ms is None else pause_ms / 1000

    def claims_end_s(self) -> float | None:
        (seconds,) = self._transaction.one(
            "SELECT extract(epoch FROM min(until) - clock_timestamp())::float8 FROM claims"
            f" WHERE agent_id = %(agent)s AND claimant <> %(claimant)s AND {IS_AHEAD}"
        )
        return None if seconds is None else max(0.0, seconds)

    def fallen_out_of_use(self) -> list[int]:
        in_use = _IN_USE.format(table="e")
        rows = self._transaction.run(
            "SELECT e.embedding_id FROM embeddings AS e WHERE e.agent_id = %(agent)s"
            f" AND e.used_at_ms = 0 AND NOT {in_use}"
        )
        return [number for (number,) in rows]

    def _number(self, fingerprint: Fingerprint) -> int | None:
        known = self._transaction.state.fingerprints.get(fingerprint.digest())
        return known.fingerprint_id if known else None

    def put(self, fingerprint: Fingerprint, vectors: Sequence[tuple[bytes, Vector]]) -> None:
        fit, faults = fit_and_unfit(vectors)
        self.record_failures(fingerprint, faults)
        if not fit:
            return
        number = self._row_for(fingerprint, len(fit[0][1]))
        rows = [
            {"fingerprint": number, "text_hash": key, "vector": reals(vector)}
            for key, vector in sorted(dict(fit).items())
        ]
        stored = {"digest": fingerprint.digest(), "hashes": [row["text_hash"] for row in rows]}
        self._transaction.write_all(
            *((_PUT, row) for row in rows), (_SUCCEEDED, stored), (_ANSWERED, stored)
        )

    def record_failures(
        self, fingerprint: Fingerprint, failures: Failures, *, longest_ms: int = LONGEST_RETRY_MS
    ) -> None:
        common = {
            "digest": fingerprint.digest(),
            "first": FIRST_RETRY_MS,
            "longest": longest_ms,
            "doublings": MOST_DOUBLINGS,
        }
        rows = [
            {**common, "text_hash": text_hash, "reason": plain(reason)}
            for text_hash, reason in failures
        ]
        if rows:
            answered = {"hashes": [row["text_hash"] for row in rows]}
            self._transaction.write_all(
                *((_RECORD_FAILURE, row) for row in rows), (_ANSWERED, answered)
            )

    def offer_again(self, fingerprint: Fingerprint) -> None:
        self._transaction.write(
            "UPDATE embedding_failures SET retry_at_ms = 0"
            " WHERE agent_id = %(agent)s AND digest = %(digest)s",
            {"digest": fingerprint.digest()},
        )

    def forget_gone(self) -> None:
        in_use = _IN_USE.format(table="y")
        gone = f"DELETE FROM embedding_failures AS y WHERE y.agent_id = %(agent)s AND NOT {in_use}"
        ended = f"DELETE FROM claims WHERE agent_id = %(agent)s AND NOT ({IS_AHEAD})"
        self._transaction.write_all((gone, {}), (ended, {}))

    def refresh_use(self, fallen: Sequence[int]) -> None:
        in_use = _IN_USE.format(table="e")
        unused = (
            f"UPDATE embeddings AS e SET used_at_ms = {NOW_MS} WHERE e.agent_id = %(agent)s"
            f" AND e.embedding_id = ANY(%(ids)s::bigint[]) AND e.used_at_ms = 0 AND NOT {in_use}"
        )
        used = (
            "UPDATE embeddings AS e SET used_at_ms = 0"
            f" WHERE e.agent_id = %(agent)s AND e.used_at_ms > 0 AND {in_use}"
        )
        self._transaction.write_all((unused, {"ids": list(fallen)}), (used, {}))

    def prune(self, max_entries: int | None) -> int:
        if max_entries is None:
            return 0
        pruned = self._transaction.write(
            "DELETE FROM embeddings WHERE agent_id = %(agent)s AND embedding_id IN ("
            "SELECT embedding_id FROM embeddings WHERE agent_id = %(agent)s AND used_at_ms > 0"
            " ORDER BY used_at_ms, embedding_id LIMIT greatest(0,"
            " (SELECT count(*) FROM embeddings WHERE agent_id = %(agent)s) - %(most)s::bigint))",
            {"most": max_entries},
        )
        return int(pruned.rowcount)

    def drop_unused(self, life_ms: int) -> None:
        """Deletes the vectors that nothing has used for so long."""
        self._transaction.write(
            "DELETE FROM embeddings WHERE agent_id = %(agent)s"
            f" AND used_at_ms > 0 AND used_at_ms <= {NOW_MS} - %(life)s::bigint",
            {"life": life_ms},
        )

    def drop_superseded(self, kept: Sequence[Fingerprint]) -> None:
        self._transaction.write(
            "DELETE FROM fingerprints WHERE agent_id = %(agent)s"
            " AND NOT digest = ANY(%(digests)s::bytea[])",
            {"digests": [fingerprint.digest() for fingerprint in kept]},
        )
        self._transaction.forget_state()

    def _row_for(self, fingerprint: Fingerprint, dimensions: int) -> int:
        """Returns the row of a fingerprint, a new one if there is none with these dimensions."""
        digest = fingerprint.digest()
        known = self._transaction.state.fingerprints.get(digest)
        if known is not None and known.dimensions == dimensions:
            return known.fingerprint_id
        row = {
            "digest": digest,
            "dimensions": dimensions,
            "description": msgspec.json.encode(fingerprint).decode(),
        }
        others = (
            "DELETE FROM fingerprints WHERE agent_id = %(agent)s AND digest = %(digest)s"
            " AND dimensions <> %(dimensions)s"
        )
        *_, made = self._transaction.write_all((others, row), (_MAKE_FINGERPRINT, row))
        self._transaction.forget_state()
        ((number,),) = made
        return int(number)


# --- Batch jobs ------------------------------------------------------------------------------------

_COLUMNS: Final = JobRecord.__struct_fields__
_FIELDS: Final = tuple(name for name in _COLUMNS if name != "id")
# They stay if cancelling was requested after the record was read, and a person's reason stays until the job is done.
_IS_NEWS: Final = "cancelling AND NOT %(cancelling)s"
_KEPT: Final = {
    "cancelling": "cancelling OR %(cancelling)s",
    "next_at_ms": f"CASE WHEN {_IS_NEWS} THEN next_at_ms ELSE %(next_at_ms)s END",
    "reason": f"CASE WHEN {_IS_NEWS}"
    f" OR (cancelling AND reason = '{BY_REQUEST}' AND %(reason)s::text IS NOT NULL)"
    " THEN reason ELSE %(reason)s::text END",
}
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM batch_jobs WHERE agent_id = %(agent)s"
_SELECT_TEXTS: Final = """
    SELECT b.text_hash, c.text, x.start, x."end" FROM batch_items AS b
    CROSS JOIN LATERAL (
        SELECT chunk_id, start, "end" FROM excerpts AS y
        WHERE y.agent_id = b.agent_id AND y.text_hash = b.text_hash ORDER BY excerpt_id LIMIT 1
    ) AS x
    JOIN chunks AS c ON c.agent_id = b.agent_id AND c.chunk_id = x.chunk_id
    WHERE b.agent_id = %(agent)s AND b.job_id = %(job)s
"""
_ITEMS: Final = "FROM batch_items WHERE agent_id = %(agent)s AND job_id = %(job)s"


class PostgresJobs:
    """`JobWrites` in one transaction; a view uses only the reading half."""

    def __init__(self, transaction: AgentTransaction) -> None:
        self._transaction = transaction

    def open(self, digest: bytes) -> list[JobRecord]:
        return self._select(
            "AND digest = %(digest)s AND state <> 'closed' ORDER BY id", {"digest": digest}
        )

    def recent(self) -> list[JobRecord]:
        return self._select("ORDER BY id DESC", {})

    def waiting(self, digest: bytes) -> int:
        (count,) = self._transaction.one(
            "SELECT count(*) FROM batch_items WHERE agent_id = %(agent)s AND digest = %(digest)s",
            {"digest": digest},
        )
        return int(count)

    def texts(self, job: JobRecord) -> Iterator[tuple[bytes, str]]:
        for text_hash, text, start, end in self._transaction.run(_SELECT_TEXTS, {"job": job.id}):
            yield text_hash, text.decode()[start:end]

    def waiting_hashes(self, job: JobRecord) -> set[bytes]:
        rows = self._transaction.run(f"SELECT text_hash {_ITEMS}", {"job": job.id})
        return {text_hash for (text_hash,) in rows}

    def wish_to_cancel(self, job: JobRecord) -> str | None:
        row = self._transaction.run(
            "SELECT reason FROM batch_jobs WHERE agent_id = %(agent)s AND id = %(job)s AND cancelling",
            {"job": job.id},
        ).fetchone()
        return row[0] if row else None

    def _select(self, condition: str, parameters: dict[str, object]) -> list[JobRecord]:
        rows = self._transaction.run(f"{_SELECT} {condition}", parameters)
        return [
            msgspec.convert(
                dict(zip(_COLUMNS, row, strict=True)), prepared(JobRecord), strict=False
            )
            for row in rows
        ]

    def add(self, job: JobRecord, text_hashes: Sequence[bytes]) -> None:
        values = ", ".join(f"%({name})s" for name in _FIELDS)
        insert = (
            f"INSERT INTO batch_jobs (agent_id, {', '.join(_FIELDS)})"
            f" VALUES (%(agent)s, {values}) RETURNING id"
        )
        rows = self._transaction.write(insert, _row(job))
        ((number,),) = rows
        self._transaction.write(
            "INSERT INTO batch_items (agent_id, digest, text_hash, job_id)"
            " SELECT %(agent)s, %(digest)s, h, %(job)s FROM unnest(%(hashes)s::bytea[]) AS h",
            {"digest": job.digest, "hashes": list(text_hashes), "job": number},
        )

    def save(self, job: JobRecord) -> None:
        changes = ", ".join(f"{name} = {_KEPT.get(name, f'%({name})s')}" for name in _FIELDS)
        # A restored database repeats numbers, but not labels.
        own = "agent_id = %(agent)s AND id = %(id)s AND label = %(label)s"
        update = f"UPDATE batch_jobs SET {changes} WHERE {own}"
        self._transaction.write(update, _row(job))

    def release(self, job: JobRecord, text_hashes: Sequence[bytes] | None = None) -> None:
        only = "" if text_hashes is None else " AND text_hash = ANY(%(hashes)s::bytea[])"
        row = {"job": job.id, "hashes": list(text_hashes or ())}
        self._transaction.write(f"DELETE {_ITEMS}{only}", row)

    def ask_to_cancel(self, job_id: int) -> bool:
        asked = self._transaction.write(
            "UPDATE batch_jobs SET cancelling = true, next_at_ms = 0, reason = %(reason)s"
            " WHERE agent_id = %(agent)s AND id = %(job)s"
            " AND state IN ('prepared', 'uploaded', 'submitted')",
            {"reason": BY_REQUEST, "job": job_id},
        )
        return asked.rowcount > 0

    def forget_closed(self, kept: int) -> None:
        self._transaction.write(
            "DELETE FROM batch_jobs WHERE agent_id = %(agent)s AND state = 'closed'"
            " AND id NOT IN (SELECT id FROM batch_jobs WHERE agent_id = %(agent)s"
            " AND state = 'closed' ORDER BY id DESC LIMIT %(kept)s::bigint)",
            {"kept": kept},
        )


def _row(job: JobRecord) -> dict[str, object]:
    row = msgspec.structs.asdict(job)
    return {name: plain(value) if isinstance(value, str) else value for name, value in row.items()}
