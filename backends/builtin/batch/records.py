"""The durable record of batch jobs, and whether batch jobs are used at present."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import apsw
import msgspec

from backends.builtin.store.sqlite.vectors.store import now_ms
from providers.batch.hosts import Outcome

State = Literal["prepared", "uploaded", "submitted", "ended", "read", "closed"]
"""`prepared`: texts chosen; `uploaded`: the vendor has the file; `submitted`: it works on the job;
`ended`: results may be read; `read`: they are stored, the vendor's files are still to be deleted."""

BY_REQUEST: Final = "It was cancelled on request."
_KEPT_CLOSED: Final = 20


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `batch_jobs`."""

    id: int = 0
    label: str
    digest: bytes
    state: State = "prepared"
    items: int
    stored: int = 0
    refused: int = 0
    created_at_ms: int
    submitted_at_ms: int | None = None
    next_at_ms: int = 0
    attempts: int = 0
    cancelling: bool = False
    remote_id: str | None = None
    remote_state: str | None = None
    remote_done: int = 0
    input_file: str | None = None
    result_files: str = ""
    outcome: Outcome | Literal["divided"] | None = None
    """`divided`: its texts went into smaller jobs."""
    reason: str | None = None


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


def add(connection: apsw.Connection, digest: bytes, text_hashes: Sequence[bytes]) -> None:
    """A new job that these texts wait for; they wait for no other."""
    job = JobRecord(
        label=secrets.token_hex(12), digest=digest, items=len(text_hashes), created_at_ms=now_ms()
    )
    names = ", ".join(_FIELDS)
    values = ", ".join(f":{name}" for name in _FIELDS)
    insert = f"INSERT INTO batch_jobs ({names}) VALUES ({values})"  # noqa: S608 - our own fields
    connection.execute(insert, _row(job))
    number = connection.last_insert_rowid()
    connection.executemany(
        "INSERT INTO batch_items (digest, text_hash, job_id) VALUES (?, ?, ?)",
        ((job.digest, text_hash, number) for text_hash in text_hashes),
    )


def save(connection: apsw.Connection, job: JobRecord) -> None:
    """Writes down how far the job is. A wish to cancel it that came meanwhile stays, with its reason."""
    changes = ", ".join(f"{name} = {_KEPT.get(name, f':{name}')}" for name in _FIELDS)
    update = f"UPDATE batch_jobs SET {changes} WHERE id = :id"  # noqa: S608 - our own fields
    connection.execute(update, _row(job))


def open_jobs(connection: apsw.Connection, digest: bytes) -> list[JobRecord]:
    """The jobs of one provider that need something done, the oldest first."""
    return _jobs(connection, "WHERE digest = ? AND state != 'closed' ORDER BY id", (digest,))


def recent_jobs(connection: apsw.Connection) -> list[JobRecord]:
    """All that is remembered, the newest first."""
    return _jobs(connection, "ORDER BY id DESC", ())


def is_waiting(connection: apsw.Connection, digest: bytes) -> bool:
    """Whether any text waits for a job of this provider."""
    waiting: int = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM batch_items WHERE digest = ?)", (digest,)
    ).get
    return bool(waiting)


def texts_of(connection: apsw.Connection, job: JobRecord) -> Iterator[tuple[bytes, str]]:
    """The texts that wait for this job, by hash; those that are in no note any more are left out."""
    # SQLite would end a text at U+0000, so it cuts nothing.
    rows = connection.execute(
        'SELECT b.text_hash, c.text, x.start, x."end"'
        " FROM batch_items AS b CROSS JOIN excerpts AS x ON x.id ="
        " (SELECT min(y.id) FROM excerpts AS y WHERE y.text_hash = b.text_hash)"
        " CROSS JOIN chunks AS c ON c.id = x.chunk_id WHERE b.job_id = ?",
        (job.id,),
    )
    for text_hash, text, start, end in rows:
        yield text_hash, text[start:end]


def waiting_hashes(connection: apsw.Connection, job: JobRecord) -> set[bytes]:
    rows = connection.execute("SELECT text_hash FROM batch_items WHERE job_id = ?", (job.id,))
    return {text_hash for (text_hash,) in rows}


def release(
    connection: apsw.Connection, job: JobRecord, text_hashes: Sequence[bytes] | None = None
) -> None:
    """These texts, or all, wait for this job no longer."""
    if text_hashes is None:
        connection.execute("DELETE FROM batch_items WHERE job_id = ?", (job.id,))
        return
    connection.executemany(
        "DELETE FROM batch_items WHERE job_id = ? AND text_hash = ?",
        [(job.id, text_hash) for text_hash in text_hashes],
    )


def ask_to_cancel(connection: apsw.Connection, job_id: int) -> bool:
    """Whether there is such a job under way; it will be cancelled when it is looked after next."""
    connection.execute(
        "UPDATE batch_jobs SET cancelling = 1, next_at_ms = 0, reason = ? WHERE id = ?"
        " AND state IN ('prepared', 'uploaded', 'submitted')",
        (BY_REQUEST, job_id),
    )
    return connection.changes() > 0


def wish_to_cancel(connection: apsw.Connection, job: JobRecord) -> str | None:
    """Why the job is to be cancelled, also if that came after it was read; None while it is not."""
    reason: str | None = connection.execute(
        "SELECT reason FROM batch_jobs WHERE id = ? AND cancelling", (job.id,)
    ).get
    return reason


def forget_old(connection: apsw.Connection) -> None:
    """Of the closed jobs only the latest are kept."""
    connection.execute(
        "DELETE FROM batch_jobs WHERE state = 'closed' AND id NOT IN (SELECT id FROM batch_jobs"
        " WHERE state = 'closed' ORDER BY id DESC LIMIT ?)",
        (_KEPT_CLOSED,),
    )


def _jobs(
    connection: apsw.Connection, condition: str, bindings: tuple[bytes, ...]
) -> list[JobRecord]:
    rows = connection.execute(f"{_SELECT} {condition}", bindings)
    return [
        msgspec.convert(dict(zip(_COLUMNS, row, strict=True)), JobRecord, strict=False)
        for row in rows
    ]


def _row(job: JobRecord) -> dict[str, object]:
    row = msgspec.structs.asdict(job)
    return {**row, "cancelling": int(job.cancelling)}


MOST_FAILURES: Final = 2
OFF_MS: Final = 3600 * 1000
UNAVAILABLE_MS: Final = 24 * 3600 * 1000
"""A host without batch jobs does not get them soon."""
_KEY: Final = "batch_switch"


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` is that of the provider it holds for, in hexadecimal."""

    digest: str
    failures: int = 0
    off_until_ms: int = 0
    reason: str | None = None

    def is_off(self, now_ms: int) -> bool:
        return now_ms < self.off_until_ms

    def failed(self, reason: str, now_ms: int) -> Switch:
        """After another failed job. One that is tried after a pause switches off at once again."""
        failures = self.failures + 1
        off = now_ms + OFF_MS if failures >= MOST_FAILURES else self.off_until_ms
        return msgspec.structs.replace(self, failures=failures, off_until_ms=off, reason=reason)

    def switched_off(self, reason: str, now_ms: int, for_ms: int = OFF_MS) -> Switch:
        """At once, whatever the count."""
        return msgspec.structs.replace(self, off_until_ms=now_ms + for_ms, reason=reason)

    def succeeded(self) -> Switch:
        return Switch(digest=self.digest)


def load(connection: apsw.Connection, digest: bytes) -> Switch:
    """Of this provider; one that was kept for another is forgotten."""
    text = connection.execute("SELECT value FROM meta WHERE key = ?", (_KEY,)).get
    if text:
        switch = msgspec.json.decode(text, type=Switch)
        if switch.digest == digest.hex():
            return switch
    return Switch(digest=digest.hex())


def save_switch(connection: apsw.Connection, switch: Switch) -> None:
    connection.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (_KEY, msgspec.json.encode(switch).decode()),
    )
