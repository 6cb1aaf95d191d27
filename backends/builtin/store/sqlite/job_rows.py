"""The rows of batch jobs, and of the texts that wait for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import apsw
import msgspec

from backends.builtin.store.port import BY_REQUEST, JobRecord

_COLUMNS: Final = JobRecord.__struct_fields__
_FIELDS: Final = tuple(name for name in _COLUMNS if name != "id")
# While a wish stands that the record in hand does not know, and a person's for as long as the job is not done.
_KEPT: Final = {
    "cancelling": "max(cancelling, :cancelling)",
    "next_at_ms": "CASE WHEN cancelling > :cancelling THEN next_at_ms ELSE :next_at_ms END",
    "reason": "CASE WHEN cancelling > :cancelling"
    f" OR (cancelling AND reason = '{BY_REQUEST}' AND :reason IS NOT NULL)"
    " THEN reason ELSE :reason END",
}
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM batch_jobs"  # noqa: S608 - our own fields


class SqliteJobs:
    """`JobWrites`; of a view only the reading half is used."""

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
        self._connection.execute(insert, _row(job))
        number = self._connection.last_insert_rowid()
        self._connection.executemany(
            "INSERT INTO batch_items (digest, text_hash, job_id) VALUES (?, ?, ?)",
            ((job.digest, text_hash, number) for text_hash in text_hashes),
        )

    def save(self, job: JobRecord) -> None:
        changes = ", ".join(f"{name} = {_KEPT.get(name, f':{name}')}" for name in _FIELDS)
        update = f"UPDATE batch_jobs SET {changes} WHERE id = :id"  # noqa: S608 - our own fields
        self._connection.execute(update, _row(job))

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
            msgspec.convert(dict(zip(_COLUMNS, row, strict=True)), JobRecord, strict=False)
            for row in rows
        ]


def _row(job: JobRecord) -> dict[str, object]:
    row = msgspec.structs.asdict(job)
    return {**row, "cancelling": int(job.cancelling)}
