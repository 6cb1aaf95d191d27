"""The rows of batch jobs, and of the texts that wait for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from backends.builtin.store.port import BY_REQUEST, JobRecord
from backends.builtin.store.postgres.file_rows import plain

if TYPE_CHECKING:
    from backends.builtin.store.postgres.transactions import AgentTransaction, WritingTransaction

_COLUMNS: Final = JobRecord.__struct_fields__
_FIELDS: Final = tuple(name for name in _COLUMNS if name != "id")
# While a wish stands that the record in hand does not know, and a person's for as long as the job is not done.
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
    """`JobReads` in one transaction."""

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
            msgspec.convert(dict(zip(_COLUMNS, row, strict=True)), JobRecord, strict=False)
            for row in rows
        ]


class PostgresJobWrites(PostgresJobs):
    """`JobWrites` in one transaction."""

    def __init__(self, transaction: WritingTransaction) -> None:
        super().__init__(transaction)
        self._writing = transaction

    def add(self, job: JobRecord, text_hashes: Sequence[bytes]) -> None:
        values = ", ".join(f"%({name})s" for name in _FIELDS)
        insert = (
            f"INSERT INTO batch_jobs (agent_id, {', '.join(_FIELDS)})"
            f" VALUES (%(agent)s, {values}) RETURNING id"
        )
        rows = self._writing.write(insert, _row(job))
        ((number,),) = rows
        self._writing.write(
            "INSERT INTO batch_items (agent_id, digest, text_hash, job_id)"
            " SELECT %(agent)s, %(digest)s, h, %(job)s FROM unnest(%(hashes)s::bytea[]) AS h",
            {"digest": job.digest, "hashes": list(text_hashes), "job": number},
        )

    def save(self, job: JobRecord) -> None:
        changes = ", ".join(f"{name} = {_KEPT.get(name, f'%({name})s')}" for name in _FIELDS)
        # Numbers come again in a database that was restored, labels do not.
        own = "agent_id = %(agent)s AND id = %(id)s AND label = %(label)s"
        update = f"UPDATE batch_jobs SET {changes} WHERE {own}"
        self._writing.write(update, _row(job))

    def release(self, job: JobRecord, text_hashes: Sequence[bytes] | None = None) -> None:
        only = "" if text_hashes is None else " AND text_hash = ANY(%(hashes)s::bytea[])"
        row = {"job": job.id, "hashes": list(text_hashes or ())}
        self._writing.write(f"DELETE {_ITEMS}{only}", row)

    def ask_to_cancel(self, job_id: int) -> bool:
        asked = self._writing.write(
            "UPDATE batch_jobs SET cancelling = true, next_at_ms = 0, reason = %(reason)s"
            " WHERE agent_id = %(agent)s AND id = %(job)s"
            " AND state IN ('prepared', 'uploaded', 'submitted')",
            {"reason": BY_REQUEST, "job": job_id},
        )
        return asked.rowcount > 0

    def forget_closed(self, kept: int) -> None:
        self._writing.write(
            "DELETE FROM batch_jobs WHERE agent_id = %(agent)s AND state = 'closed'"
            " AND id NOT IN (SELECT id FROM batch_jobs WHERE agent_id = %(agent)s"
            " AND state = 'closed' ORDER BY id DESC LIMIT %(kept)s::bigint)",
            {"kept": kept},
        )


def _row(job: JobRecord) -> dict[str, object]:
    row = msgspec.structs.asdict(job)
    return {name: plain(value) if isinstance(value, str) else value for name, value in row.items()}
