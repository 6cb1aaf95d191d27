"""The rows of embeddings: the one durable copy of each vector, keyed by provider fingerprint and text; texts that a
provider refused; batch jobs, and the texts that wait for them.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import apsw
import msgspec
from msgspec.structs import asdict

from backends.builtin.store.port import (
    BY_REQUEST,
    FIRST_RETRY_MS,
    LONGEST_RETRY_MS,
    MOST_DOUBLINGS,
    Failures,
    JobRecord,
    fit_and_unfit,
    now_ms,
)
from backends.builtin.store.sqlite.connections import int64s
from backends.builtin.store.sqlite.erasing import DELETE_FAILURES, mark_deletion
from backends.interface import Coverage, FailedText
from config.runtime.decoding import prepared
from providers.provider_interface import Fingerprint

if TYPE_CHECKING:
    from providers.provider_interface import Vector


_KEY = "embedding_serial"


class Serial(msgspec.Struct, frozen=True):
    epoch: str = ""
    """Random, so that the numbers of two index files are never confused."""
    last: int = 0
    """The highest number given so far."""


def current_serial(connection: apsw.Connection) -> Serial:
    text = connection.execute("SELECT value FROM meta WHERE key = ?", (_KEY,)).get
    return msgspec.json.decode(text, type=prepared(Serial)) if text else Serial()


def reserve_ids(connection: apsw.Connection, count: int) -> range:
    """Returns `count` new ids, inside the caller's write transaction."""
    serial = current_serial(connection)
    highest = connection.execute("SELECT coalesce(max(id), 0) FROM embeddings").get
    first = max(serial.last, highest) + 1
    new = Serial(serial.epoch or secrets.token_hex(8), first + count - 1)
    connection.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (_KEY, msgspec.json.encode(new).decode()),
    )
    return range(first, first + count)


BYTES_A_NUMBER: Final = 4

# Only the chosen rows are read with their texts. SQLite would end a text at U+0000, so it cuts nothing.
_SELECT_PENDING: Final = """
    SELECT p.text_hash, c.text, p.start, p."end" FROM (
        SELECT x.text_hash, x.chunk_id, x.start, x."end", max(f.mtime_ns) AS mtime_ns, x.file_id
        FROM excerpts AS x JOIN files AS f ON f.id = x.file_id
        WHERE NOT EXISTS (SELECT 1 FROM embeddings AS e
            WHERE e.text_hash = x.text_hash AND e.fingerprint_id = :fingerprint)
        AND NOT EXISTS (SELECT 1 FROM embedding_failures AS y
            WHERE y.digest = :digest AND y.text_hash = x.text_hash
                AND y.retry_at_ms > :now AND y.retry_at_ms <= :now + :longest)
        AND NOT EXISTS (SELECT 1 FROM batch_items AS b
            WHERE b.digest = :digest AND b.text_hash = x.text_hash)
        GROUP BY x.text_hash ORDER BY 5 DESC, 6, 2, 3 LIMIT :limit
    ) AS p CROSS JOIN chunks AS c ON c.id = p.chunk_id
    ORDER BY p.mtime_ns DESC, p.file_id, c.start, p.start
"""
_IS_IN_USE: Final = "SELECT EXISTS (SELECT 1 FROM excerpts WHERE text_hash = ?)"
_SELECT_BACKLOG: Final = """
    SELECT x.text_hash, max(x."end" - x.start) FROM excerpts AS x
    WHERE NOT EXISTS (SELECT 1 FROM embeddings AS e
        WHERE e.text_hash = x.text_hash AND e.fingerprint_id = :fingerprint)
    AND NOT EXISTS (SELECT 1 FROM embedding_failures AS y
        WHERE y.digest = :digest AND y.text_hash = x.text_hash)
    AND NOT EXISTS (SELECT 1 FROM batch_items AS b
        WHERE b.digest = :digest AND b.text_hash = x.text_hash)
    GROUP BY x.text_hash
"""


def fingerprint_id(connection: apsw.Connection, fingerprint: Fingerprint) -> int | None:
    """Returns the row of a fingerprint that has vectors; None before its first vector."""
    found: int | None = connection.execute(
        "SELECT id FROM fingerprints WHERE digest = ?", (fingerprint.digest(),)
    ).get
    return found


class SqliteEmbeddings:
    """`EmbeddingWrites`; a view uses only the reading half."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def dimensions(self) -> dict[bytes, int]:
        return dict(self._connection.execute("SELECT digest, dimensions FROM fingerprints"))

    def fingerprints(self) -> list[Fingerprint]:
        rows = self._connection.execute("SELECT description FROM fingerprints ORDER BY id")
        return [
            msgspec.json.decode(description, type=prepared(Fingerprint)) for (description,) in rows
        ]

    def vectors_of(
        self, fingerprint: Fingerprint, text_hashes: Sequence[bytes]
    ) -> list[tuple[bytes, Vector]]:
        number = fingerprint_id(self._connection, fingerprint)
        select = "SELECT vector FROM embeddings WHERE fingerprint_id = ? AND text_hash = ?"
        found = [
            (text_hash, self._connection.execute(select, (number, text_hash)).get)
            for text_hash in text_hashes
        ]
        return [(key, array("f", blob)) for key, blob in found if blob is not None]

    def pending(
        self, fingerprint: Fingerprint, *, limit: int, dimensions: int | None = None
    ) -> list[tuple[bytes, str]]:
        number = self._connection.execute(
            "SELECT id FROM fingerprints WHERE digest = ? AND dimensions = ifnull(?, dimensions)",
            (fingerprint.digest(), dimensions),
        ).get
        rows = self._connection.execute(
            _SELECT_PENDING,
            {
                "fingerprint": number,
                "digest": fingerprint.digest(),
                "now": now_ms(),
                "longest": LONGEST_RETRY_MS,
                "limit": limit,
            },
        )
        return [(text_hash, text[start:end]) for text_hash, text, start, end in rows]

    def backlog(self, fingerprint: Fingerprint) -> list[tuple[bytes, int]]:
        number = fingerprint_id(self._connection, fingerprint)
        wanted = {"fingerprint": number, "digest": fingerprint.digest()}
        return list(self._connection.execute(_SELECT_BACKLOG, wanted))

    def superseded(self, current: Fingerprint) -> Fingerprint | None:
        most = self._connection.execute(
            "SELECT f.digest, f.description, (SELECT count(*) FROM embeddings AS e"
            "   WHERE e.fingerprint_id = f.id"
            "   AND EXISTS (SELECT 1 FROM excerpts AS c WHERE c.text_hash = e.text_hash)) AS texts"
            " FROM fingerprints AS f ORDER BY texts DESC, f.digest != ?, f.id LIMIT 1",
            (current.digest(),),
        ).fetchone()
        if most is None or most[0] == current.digest() or not most[2]:
            return None
        return msgspec.json.decode(most[1], type=prepared(Fingerprint))

    def coverage(self, fingerprint: Fingerprint) -> Coverage:
        number = fingerprint_id(self._connection, fingerprint)
        total, embedded, failed, stored, dimensions = self._connection.execute(
            "SELECT (SELECT count(*) FROM (SELECT 1 FROM excerpts GROUP BY text_hash)),"
            " (SELECT count(*) FROM embeddings AS e WHERE e.fingerprint_id = :number"
            "   AND EXISTS (SELECT 1 FROM excerpts AS c WHERE c.text_hash = e.text_hash)),"
            " (SELECT count(*) FROM embedding_failures AS x WHERE x.digest = :digest"
            "   AND EXISTS (SELECT 1 FROM excerpts AS c WHERE c.text_hash = x.text_hash)),"
            " (SELECT count(*) FROM embeddings),"
            " (SELECT dimensions FROM fingerprints WHERE id = :number)",
            {"number": number, "digest": fingerprint.digest()},
        ).get
        return Coverage(
            total=total, embedded=embedded, failed=failed, dimensions=dimensions, stored=stored
        )

    def failed_texts(self, fingerprint: Fingerprint, *, limit: int) -> tuple[FailedText, ...]:
        rows = self._connection.execute(
            "SELECT f.path, c.start_line + e.line, x.reason, x.attempts"
            " FROM embedding_failures AS x CROSS JOIN excerpts AS e ON e.text_hash = x.text_hash"
            " JOIN chunks AS c ON c.id = e.chunk_id JOIN files AS f ON f.id = c.file_id WHERE x.digest = ?"
            " GROUP BY x.text_hash ORDER BY x.retry_at_ms DESC, f.path, 2 LIMIT ?",
            (fingerprint.digest(), limit),
        )
        return tuple(
            FailedText(path=path, start_line=line, reason=reason, attempts=attempts)
            for path, line, reason, attempts in rows
        )

    def claims_end_s(self) -> None:
        """Returns None: only one process sends texts."""

    def next_retry_s(self, fingerprint: Fingerprint) -> float | None:
        now = now_ms()
        pause_ms: int | None = self._connection.execute(
            "SELECT min(CASE WHEN retry_at_ms <= ?1 + ?2 THEN max(0, retry_at_ms - ?1) ELSE 0 END)"
            " FROM embedding_failures WHERE digest = ?3",
            (now, LONGEST_RETRY_MS, fingerprint.digest()),
        ).get
        return None if pause_ms is None else pause_ms / 1000

    def fallen_out_of_use(self) -> list[int]:
        rows = self._connection.execute(
            "SELECT e.id FROM embeddings AS e WHERE NOT EXISTS"
            " (SELECT 1 FROM excerpts AS c WHERE c.text_hash = e.text_hash)"
            " AND NOT EXISTS (SELECT 1 FROM embeddings AS u WHERE u.used_at_ms > 0 AND u.id = e.id)"
        )
        return [number for (number,) in rows]

    def put(self, fingerprint: Fingerprint, vectors: Sequence[tuple[bytes, Vector]]) -> None:
        import numpy as np  # noqa: PLC0415 - to embed takes it, to search need not

        fit, faults = fit_and_unfit(vectors)
        self.record_failures(fingerprint, faults)
        if not fit:
            return
        number = self._row_for(fingerprint, len(fit[0][1]))
        ids = reserve_ids(self._connection, len(fit))
        self._connection.executemany(
            "INSERT OR REPLACE INTO embeddings (id, fingerprint_id, text_hash, vector, used_at_ms)"
            " VALUES (?, ?, ?, ?, 0)",
            [
                (row_id, number, text_hash, np.asarray(vector, "<f4").tobytes())
                for row_id, (text_hash, vector) in zip(ids, fit, strict=True)
            ],
        )
        self._connection.executemany(
            "DELETE FROM embedding_failures WHERE digest = ? AND text_hash = ?",
            [(fingerprint.digest(), text_hash) for text_hash, _ in fit],
        )
        if any(not self._connection.execute(_IS_IN_USE, (text_hash,)).get for text_hash, _ in fit):
            mark_deletion(self._connection)  # the note went while its text was at the provider

    def record_failures(
        self, fingerprint: Fingerprint, failures: Failures, *, longest_ms: int = LONGEST_RETRY_MS
    ) -> None:
        common = {
            "digest": fingerprint.digest(),
            "now": now_ms(),
            "first": FIRST_RETRY_MS,
            "longest": longest_ms,
            "doublings": MOST_DOUBLINGS,
        }
        self._connection.executemany(
            "INSERT INTO embedding_failures (digest, text_hash, reason, attempts, retry_at_ms)"
            " VALUES (:digest, :text_hash, :reason, 1, :now + :first)"
            " ON CONFLICT (digest, text_hash) DO UPDATE SET reason = excluded.reason,"
            " attempts = attempts + 1,"
            " retry_at_ms = :now + min(:longest, :first << min(2 * attempts, :doublings))",
            [{**common, "text_hash": key, "reason": reason} for key, reason in failures],
        )

    def offer_again(self, fingerprint: Fingerprint) -> None:
        self._connection.execute(
            "UPDATE embedding_failures SET retry_at_ms = 0 WHERE digest = ?",
            (fingerprint.digest(),),
        )

    def forget_gone(self) -> None:
        self._connection.execute(DELETE_FAILURES)

    def refresh_use(self, fallen: Sequence[int]) -> None:
        self._connection.execute(
            "UPDATE embeddings SET used_at_ms = ? WHERE id IN (SELECT value FROM carray(?))"
            " AND used_at_ms = 0"
            " AND NOT EXISTS (SELECT 1 FROM excerpts AS c WHERE c.text_hash = embeddings.text_hash)",
            (now_ms(), int64s(fallen)),
        )
        self._connection.execute(
            "UPDATE embeddings SET used_at_ms = 0 WHERE used_at_ms > 0 AND EXISTS"
            " (SELECT 1 FROM excerpts AS c WHERE c.text_hash = embeddings.text_hash)"
        )

    def prune(self, max_entries: int | None) -> int:
        if max_entries is None:
            return 0
        before = self._connection.total_changes()
        self._connection.execute(
            "DELETE FROM embeddings WHERE id IN (SELECT id FROM embeddings WHERE used_at_ms > 0"
            " ORDER BY used_at_ms, id LIMIT max(0, (SELECT count(*) FROM embeddings) - ?))",
            (max_entries,),
        )
        return self._connection.total_changes() - before

    def drop_superseded(self, kept: Sequence[Fingerprint]) -> None:
        digests = {fingerprint.digest() for fingerprint in kept}
        for digest in self.dimensions().keys() - digests:
            self._connection.execute("DELETE FROM fingerprints WHERE digest = ?", (digest,))

    def _row_for(self, fingerprint: Fingerprint, dimensions: int) -> int:
        """Returns the row of a fingerprint, a new one if there is none with these dimensions."""
        self._connection.execute(
            "DELETE FROM fingerprints WHERE digest = ? AND dimensions != ?",
            (fingerprint.digest(), dimensions),
        )
        self._connection.execute(
            "INSERT INTO fingerprints (digest, description, dimensions) VALUES (?, ?, ?)"
            " ON CONFLICT (digest) DO NOTHING",
            (fingerprint.digest(), msgspec.json.encode(fingerprint).decode(), dimensions),
        )
        number = fingerprint_id(self._connection, fingerprint)
        assert number is not None
        return number


def is_complete(connection: apsw.Connection, fingerprint_id: int, dimensions: int) -> bool:
    """Returns whether every stored text has a vector of this fingerprint and length."""
    complete = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM fingerprints WHERE id = :number AND dimensions = :dimensions)"
        " AND NOT EXISTS (SELECT 1 FROM excerpts AS c WHERE NOT EXISTS"
        "  (SELECT 1 FROM embeddings AS e"
        "   WHERE e.fingerprint_id = :number AND e.text_hash = c.text_hash))",
        {"number": fingerprint_id, "dimensions": dimensions},
    ).get
    return bool(complete)


def vector_bytes_per_chunk(connection: apsw.Connection) -> float | None:
    """Returns the bytes of all stored vectors divided by the number of chunks. Reads no vector."""
    chunks = connection.execute("SELECT coalesce(sum(chunk_count), 0) FROM files").get
    numbers = connection.execute(
        "SELECT coalesce(sum(f.dimensions * (SELECT count(*) FROM embeddings AS e"
        " WHERE e.fingerprint_id = f.id)), 0) FROM fingerprints AS f"
    ).get
    return round(numbers * BYTES_A_NUMBER / chunks, 1) if chunks else None


# --- Batch jobs ------------------------------------------------------------------------------------

_COLUMNS: Final = JobRecord.__struct_fields__
_FIELDS: Final = tuple(name for name in _COLUMNS if name != "id")
# They stay if cancelling was requested after the record was read, and a person's reason stays until the job is done.
_KEPT: Final = {
    "cancelling": "max(cancelling, :cancelling)",
    "next_at_ms": "CASE WHEN cancelling > :cancelling THEN next_at_ms ELSE :next_at_ms END",
    "reason": "CASE WHEN cancelling > :cancelling"
    f" OR (cancelling AND reason = '{BY_REQUEST}' AND :reason IS NOT NULL)"
    " THEN reason ELSE :reason END",
}
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM batch_jobs"  # noqa: S608 - our own fields


class SqliteJobs:
    """`JobWrites`; a view uses only the reading half."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def open(self, digest: bytes) -> list[JobRecord]:
        return self._select("WHERE digest = ? AND state != 'closed' ORDER BY id", (digest,))

    def recent(self) -> list[JobRecord]:
        return self._select("ORDER BY id DESC", ())

    def waiting(self, digest: bytes) -> int:
        count: int = self._connection.execute(
            "SELECT count(*) FROM batch_items WHERE digest = ?", (digest,)
        ).get
        return count

    def texts(self, job: JobRecord) -> Iterator[tuple[bytes, str]]:
        # SQLite would end a text at U+0000, so it cuts nothing.
        rows = self._connection.execute(
            'SELECT b.text_hash, c.text, x.start, x."end"'
            " FROM batch_items AS b CROSS JOIN excerpts AS x ON x.id ="
            " (SELECT min(y.id) FROM excerpts AS y WHERE y.text_hash = b.text_hash)"
            " CROSS JOIN chunks AS c ON c.id = x.chunk_id WHERE b.job_id = ?",
            (job.id,),
        )
        for text_hash, text, start, end in rows:
            yield text_hash, text[start:end]

    def waiting_hashes(self, job: JobRecord) -> set[bytes]:
        rows = self._connection.execute(
            "SELECT text_hash FROM batch_items WHERE job_id = ?", (job.id,)
        )
        return {text_hash for (text_hash,) in rows}

    def wish_to_cancel(self, job: JobRecord) -> str | None:
        reason: str | None = self._connection.execute(
            "SELECT reason FROM batch_jobs WHERE id = ? AND cancelling", (job.id,)
        ).get
        return reason

    def add(self, job: JobRecord, text_hashes: Sequence[bytes]) -> None:
        names = ", ".join(_FIELDS)
        values = ", ".join(f":{name}" for name in _FIELDS)
        insert = f"INSERT INTO batch_jobs ({names}) VALUES ({values})"  # noqa: S608 - our own fields
        self._connection.execute(insert, asdict(job))
        number = self._connection.last_insert_rowid()
        self._connection.executemany(
            "INSERT INTO batch_items (digest, text_hash, job_id) VALUES (?, ?, ?)",
            ((job.digest, text_hash, number) for text_hash in text_hashes),
        )

    def save(self, job: JobRecord) -> None:
        changes = ", ".join(f"{name} = {_KEPT.get(name, f':{name}')}" for name in _FIELDS)
        update = f"UPDATE batch_jobs SET {changes} WHERE id = :id"  # noqa: S608 - our own fields
        self._connection.execute(update, asdict(job))

    def release(self, job: JobRecord, text_hashes: Sequence[bytes] | None = None) -> None:
        if text_hashes is None:
            self._connection.execute("DELETE FROM batch_items WHERE job_id = ?", (job.id,))
            return
        self._connection.executemany(
            "DELETE FROM batch_items WHERE job_id = ? AND text_hash = ?",
            [(job.id, text_hash) for text_hash in text_hashes],
        )

    def ask_to_cancel(self, job_id: int) -> bool:
        self._connection.execute(
            "UPDATE batch_jobs SET cancelling = 1, next_at_ms = 0, reason = ? WHERE id = ?"
            " AND state IN ('prepared', 'uploaded', 'submitted')",
            (BY_REQUEST, job_id),
        )
        return self._connection.changes() > 0

    def forget_closed(self, kept: int) -> None:
        self._connection.execute(
            "DELETE FROM batch_jobs WHERE state = 'closed' AND id NOT IN (SELECT id FROM batch_jobs"
            " WHERE state = 'closed' ORDER BY id DESC LIMIT ?)",
            (kept,),
        )

    def _select(self, condition: str, bindings: tuple[bytes, ...]) -> list[JobRecord]:
        rows = self._connection.execute(f"{_SELECT} {condition}", bindings)
        return [
            msgspec.convert(
                dict(zip(_COLUMNS, row, strict=True)), prepared(JobRecord), strict=False
            )
            for row in rows
        ]
