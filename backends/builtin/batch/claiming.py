"""Which texts go into which batch job, and dividing a job that a vendor finds too large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import apsw
import msgspec
from msgspec.structs import replace

from backends.builtin.batch import records
from backends.builtin.batch.records import JobRecord
from backends.builtin.store.sqlite.vectors import store
from backends.builtin.store.sqlite.vectors.store import now_ms
from providers.batch.hosts import JobLimits
from providers.interface import Fingerprint

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


THRESHOLD: Final = 1_000
"""Texts without a vector from which on a backlog goes into jobs."""
KEPT_BACK: Final = 100
"""The newest texts of a backlog: what was just saved does not wait for a job."""
_BYTES_A_LINE: Final = 512
"""What a line needs beside its text, amply."""
_BYTES_A_CHARACTER: Final = 4
"""In UTF-8, at most; few of a text's characters take two as a part of a JSON string."""

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


def claim(connection: apsw.Connection, fingerprint: Fingerprint, limits: JobLimits) -> int:
    """Puts the backlog into new jobs; returns how many jobs.

    None are made when fewer texts are left than the threshold without the newest ones, which have
    been embedded before.
    """
    digest = fingerprint.digest()
    number = store.fingerprint_id(connection, fingerprint)
    rows = connection.execute(_SELECT_BACKLOG, {"fingerprint": number, "digest": digest})
    backlog: list[tuple[bytes, int]] = list(rows)
    if len(backlog) < THRESHOLD - KEPT_BACK:
        return 0
    learned = capacity(connection, digest) or limits.max_items
    jobs = list(divided(backlog, replace(limits, max_items=min(learned, limits.max_items))))
    for texts in jobs:
        records.add(connection, digest, texts)
    return len(jobs)


def divided(backlog: Sequence[tuple[bytes, int]], limits: JobLimits) -> Iterator[list[bytes]]:
    """Texts of so many characters each, in jobs within the limits of lines and bytes."""
    texts: list[bytes] = []
    filled = 0
    for text_hash, length in backlog:
        needed = _BYTES_A_CHARACTER * length + _BYTES_A_LINE
        if texts and (len(texts) == limits.max_items or filled + needed > limits.max_bytes):
            yield texts
            texts, filled = [], 0
        texts.append(text_hash)
        filled += needed
    if texts:
        yield texts
