"""Which texts go into batch jobs: only those of a large backlog, in as few jobs as will hold them.

Owns the threshold below which ordinary requests are used, the newest texts that always get those, and
how many texts a job takes. Texts that were refused before are left to ordinary requests, which find
out which one is at fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import apsw
from msgspec.structs import replace

from backends.builtin.batch import dividing, records
from backends.builtin.storage import wrecks
from backends.builtin.vectors import store
from providers.batch.interface import JobLimits
from providers.fingerprint import Fingerprint

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
    been embedded before, and while vectors may still be taken over from a damaged index.
    """
    if wrecks.unread(connection):
        return 0
    digest = fingerprint.digest()
    number = store.fingerprint_id(connection, fingerprint)
    rows = connection.execute(_SELECT_BACKLOG, {"fingerprint": number, "digest": digest})
    backlog: list[tuple[bytes, int]] = list(rows)
    if len(backlog) < THRESHOLD - KEPT_BACK:
        return 0
    learned = dividing.capacity(connection, digest) or limits.max_items
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
