"""Jobs that a vendor finds too large: the same texts in smaller ones, and how much it takes at once.

Vendors bound what may wait with them, by numbers that depend on the account and are seldom told. So the
number of texts is halved until they are taken; what was learned is kept in `meta` for a week. Each
function runs inside the caller's transaction.
"""

from __future__ import annotations

from typing import Final

import apsw
import msgspec
from msgspec.structs import replace

from backends.builtin.batch import records
from backends.builtin.batch.records import JobRecord
from backends.builtin.vectors.refusals import now_ms

SMALLEST: Final = 100
"""Texts of a job: when even so few are refused, the size is not the reason."""
_KEPT_MS: Final = 7 * 24 * 3600 * 1000
"""Accounts are promoted, and what was learned is tried again."""
_KEY: Final = "batch_capacity"


class _Capacity(msgspec.Struct, frozen=True):
    digest: str
    items: int
    learned_at_ms: int


def capacity(connection: apsw.Connection, digest: bytes) -> int | None:
    """How many texts the vendor takes at once, in all open jobs; None: not known to be bounded."""
    text = connection.execute("SELECT value FROM meta WHERE key = ?", (_KEY,)).get
    if not text:
        return None
    learned = msgspec.json.decode(text, type=_Capacity)
    is_valid = learned.digest == digest.hex() and now_ms() < learned.learned_at_ms + _KEPT_MS
    return learned.items if is_valid else None


def divide(connection: apsw.Connection, job: JobRecord, reason: str) -> bool:
    """Puts the texts of a refused job into others; False if it is too small for that.

    Beside other jobs it was perhaps the sum that was too large: then the same number of texts is tried
    again when those have ended. The vendor's file of the refused job is still to be deleted.
    """
    open_jobs = records.open_jobs(connection, job.digest)
    others = sum(other.items for other in open_jobs if _is_under_way(other) and other.id != job.id)
    items = max(job.items, others) if others else job.items // 2
    if items < SMALLEST:
        return False
    _learn(connection, job.digest, items)
    refused = replace(job, state="read", outcome="divided", reason=reason, attempts=0, next_at_ms=0)
    _replace(connection, refused, items)
    for other in open_jobs:
        if other.state == "prepared" and other.items > items and not other.cancelling:
            _replace(connection, replace(other, state="closed", outcome="divided"), items)
    return True


def _is_under_way(job: JobRecord) -> bool:
    return job.state in ("uploaded", "submitted")


def _replace(connection: apsw.Connection, job: JobRecord, items: int) -> None:
    texts = sorted(records.waiting_hashes(connection, job))
    records.release(connection, job)
    records.save(connection, job)
    for begin in range(0, len(texts), items):
        records.add(connection, job.digest, texts[begin : begin + items])


def _learn(connection: apsw.Connection, digest: bytes, items: int) -> None:
    learned = _Capacity(digest.hex(), items, now_ms())
    connection.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (_KEY, msgspec.json.encode(learned).decode()),
    )
