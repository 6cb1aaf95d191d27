"""Texts that a provider refused: why, how often, and when each is offered again.

Owns the statements on `embedding_failures`. A host's slip must not keep a text out for long, and a text
that displeases it must not be sent again and again: the pause grows fourfold with each refusal.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

import apsw
import msgspec

from providers.fingerprint import Fingerprint

FIRST_RETRY_MS: Final = 5_000
LONGEST_RETRY_MS: Final = 24 * 3600 * 1000
_MOST_DOUBLINGS: Final = 16
"""Beyond the longest pause."""


class FailedText(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """For `status`: one place where a refused text stands."""

    path: str
    start_line: int
    reason: str
    attempts: int


def record_failures(
    connection: apsw.Connection, fingerprint: Fingerprint, failures: Iterable[tuple[bytes, str]]
) -> None:
    """Remembers which texts the provider refused, and why, so that the rest goes on."""
    now, digest = now_ms(), fingerprint.digest()
    connection.executemany(
        "INSERT INTO embedding_failures (digest, text_hash, reason, attempts, retry_at_ms)"
        " VALUES (:digest, :text_hash, :reason, 1, :now + :first)"
        " ON CONFLICT (digest, text_hash) DO UPDATE SET reason = excluded.reason,"
        " attempts = attempts + 1,"
        " retry_at_ms = :now + min(:longest, :first << min(2 * attempts, :doublings))",
        [
            {
                "digest": digest,
                "text_hash": text_hash,
                "reason": reason,
                "now": now,
                "first": FIRST_RETRY_MS,
                "longest": LONGEST_RETRY_MS,
                "doublings": _MOST_DOUBLINGS,
            }
            for text_hash, reason in failures
        ],
    )


def forgive(
    connection: apsw.Connection, fingerprint: Fingerprint, text_hashes: Iterable[bytes]
) -> None:
    """These texts have their vectors now."""
    connection.executemany(
        "DELETE FROM embedding_failures WHERE digest = ? AND text_hash = ?",
        [(fingerprint.digest(), text_hash) for text_hash in text_hashes],
    )


def forget_gone(connection: apsw.Connection) -> None:
    """Nothing is remembered of texts that are in no note any more."""
    connection.execute(
        "DELETE FROM embedding_failures WHERE NOT EXISTS"
        " (SELECT 1 FROM excerpts AS c WHERE c.text_hash = embedding_failures.text_hash)"
    )


def next_retry_s(connection: apsw.Connection, fingerprint: Fingerprint) -> float | None:
    """Seconds until the first refused text is due again; None when none was refused."""
    due: int | None = connection.execute(
        "SELECT min(retry_at_ms) FROM embedding_failures WHERE digest = ?",
        (fingerprint.digest(),),
    ).get
    return None if due is None else max(0.0, (due - now_ms()) / 1000)


def failed_texts(
    connection: apsw.Connection, fingerprint: Fingerprint, *, limit: int
) -> tuple[FailedText, ...]:
    """Those that wait the longest, each with one place where the text stands."""
    rows = connection.execute(
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


def now_ms() -> int:
    return time.time_ns() // 1_000_000
