"""The one durable copy of each vector, keyed by provider fingerprint and text.

Owns the statements on `fingerprints`, `embeddings` and `embedding_failures`. Each function runs inside
the caller's transaction. Vectors are float32, little-endian, of length 1: half the precision would
save half the space and cost exactness for models whose best scores lie close together.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from providers.fingerprint import Fingerprint

if TYPE_CHECKING:
    from providers.interface import Vector

RETRY_FAILED_MS: Final = 24 * 3600 * 1000
"""A text that a provider refused is offered again after a day: the host may have changed."""
_LEARNED_KEY: Final = "learned_limits"


def fingerprint_id(connection: apsw.Connection, fingerprint: Fingerprint) -> int | None:
    """The row of a fingerprint that has vectors; None before its first vector."""
    found: int | None = connection.execute(
        "SELECT id FROM fingerprints WHERE digest = ?", (fingerprint.digest(),)
    ).get
    return found


def put_vectors(
    connection: apsw.Connection,
    fingerprint: Fingerprint,
    vectors: Sequence[tuple[bytes, Vector]],
) -> None:
    """Stores validated vectors by the hash of their text.

    A host that changed its dimensions under the same fingerprint has changed its model: the vectors
    of before go, so that the two are never compared.
    """
    dimensions = len(vectors[0][1])
    row = connection.execute(
        "SELECT id, dimensions FROM fingerprints WHERE digest = ?", (fingerprint.digest(),)
    ).fetchone()
    if row is not None and row[1] != dimensions:
        connection.execute("DELETE FROM fingerprints WHERE id = ?", (row[0],))
        row = None
    number = row[0] if row is not None else _new_fingerprint(connection, fingerprint, dimensions)
    now = _now_ms()
    connection.executemany(
        "INSERT OR REPLACE INTO embeddings (fingerprint_id, text_hash, vector, used_at_ms)"
        " VALUES (?, ?, ?, ?)",
        [(number, text_hash, vector.astype("<f4").tobytes(), now) for text_hash, vector in vectors],
    )
    connection.executemany(
        "DELETE FROM embedding_failures WHERE digest = ? AND text_hash = ?",
        [(fingerprint.digest(), text_hash) for text_hash, _ in vectors],
    )


def pending_texts(
    connection: apsw.Connection, fingerprint: Fingerprint, *, limit: int
) -> list[tuple[bytes, str]]:
    """Different texts without a vector of this fingerprint, the newest files first."""
    return [
        (text_hash, text)
        for text_hash, text in connection.execute(
            "SELECT c.text_hash, c.text FROM chunks AS c JOIN files AS f ON f.id = c.file_id"
            " WHERE NOT EXISTS (SELECT 1 FROM embeddings AS e WHERE e.text_hash = c.text_hash"
            "  AND e.fingerprint_id = :fingerprint)"
            " AND NOT EXISTS (SELECT 1 FROM embedding_failures AS x WHERE x.digest = :digest"
            "  AND x.text_hash = c.text_hash AND x.failed_at_ms > :due)"
            " GROUP BY c.text_hash ORDER BY max(f.mtime_ns) DESC, c.file_id, c.start LIMIT :limit",
            {
                "fingerprint": fingerprint_id(connection, fingerprint),
                "digest": fingerprint.digest(),
                "due": _now_ms() - RETRY_FAILED_MS,
                "limit": limit,
            },
        )
    ]


def record_failures(
    connection: apsw.Connection, fingerprint: Fingerprint, failures: Iterable[tuple[bytes, str]]
) -> None:
    """Remembers which texts the provider refused, and why, so that the rest goes on."""
    now = _now_ms()
    connection.executemany(
        "INSERT INTO embedding_failures VALUES (?, ?, ?, 1, ?)"
        " ON CONFLICT (digest, text_hash) DO UPDATE SET reason = excluded.reason,"
        " attempts = attempts + 1, failed_at_ms = excluded.failed_at_ms",
        [(fingerprint.digest(), text_hash, reason, now) for text_hash, reason in failures],
    )


class Coverage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Counts of different texts."""

    total: int
    embedded: int
    failed: int
    dimensions: int | None
    stored: int
    """Vectors in the database, also those that no stored text uses."""


def coverage(connection: apsw.Connection, fingerprint: Fingerprint) -> Coverage:
    number = fingerprint_id(connection, fingerprint)
    total, embedded, failed, stored, dimensions = connection.execute(
        "SELECT (SELECT count(DISTINCT text_hash) FROM chunks),"
        " (SELECT count(DISTINCT c.text_hash) FROM chunks AS c JOIN embeddings AS e"
        "   ON e.text_hash = c.text_hash AND e.fingerprint_id = :number),"
        " (SELECT count(*) FROM embedding_failures WHERE digest = :digest"
        "   AND text_hash IN (SELECT text_hash FROM chunks)),"
        " (SELECT count(*) FROM embeddings),"
        " (SELECT dimensions FROM fingerprints WHERE id = :number)",
        {"number": number, "digest": fingerprint.digest()},
    ).get
    return Coverage(
        total=total, embedded=embedded, failed=failed, dimensions=dimensions, stored=stored
    )


def refresh_use(connection: apsw.Connection) -> None:
    """Vectors of stored texts count as used now: what is pruned first was dropped first."""
    connection.execute(
        "UPDATE embeddings SET used_at_ms = ? WHERE text_hash IN (SELECT text_hash FROM chunks)",
        (_now_ms(),),
    )


def prune(connection: apsw.Connection, max_entries: int | None) -> int:
    """Drops the longest unused vectors beyond `max_entries`; those in use always stay.

    Returns how many went. None: no bound.
    """
    if max_entries is None:
        return 0
    before = connection.total_changes()
    connection.execute(
        "DELETE FROM embeddings WHERE id IN (SELECT e.id FROM embeddings AS e"
        " WHERE NOT EXISTS (SELECT 1 FROM chunks AS c WHERE c.text_hash = e.text_hash)"
        " ORDER BY e.used_at_ms, e.id LIMIT max(0, (SELECT count(*) FROM embeddings) - ?))",
        (max_entries,),
    )
    return connection.total_changes() - before


def drop_superseded(connection: apsw.Connection, kept: Sequence[Fingerprint]) -> None:
    """The vectors of all other fingerprints go, in the caller's one transaction."""
    digests = {fingerprint.digest() for fingerprint in kept}
    for number, digest in connection.execute("SELECT id, digest FROM fingerprints").fetchall():
        if digest not in digests:
            connection.execute("DELETE FROM fingerprints WHERE id = ?", (number,))


def load_learned(connection: apsw.Connection) -> dict[bytes, Mapping[str, Any]]:
    """Request limits that hosts taught an earlier process, by fingerprint digest."""
    text = connection.execute("SELECT value FROM meta WHERE key = ?", (_LEARNED_KEY,)).get
    learned: dict[str, Mapping[str, Any]] = msgspec.json.decode(text) if text else {}
    return {bytes.fromhex(digest): limits for digest, limits in learned.items()}


def save_learned(connection: apsw.Connection, learned: Mapping[bytes, Mapping[str, Any]]) -> None:
    known = {**load_learned(connection), **learned}
    text = msgspec.json.encode({digest.hex(): limits for digest, limits in known.items()}).decode()
    connection.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (_LEARNED_KEY, text),
    )


def _new_fingerprint(connection: apsw.Connection, fingerprint: Fingerprint, dimensions: int) -> int:
    number: int = connection.execute(
        "INSERT INTO fingerprints (digest, description, dimensions) VALUES (?, ?, ?) RETURNING id",
        (fingerprint.digest(), msgspec.json.encode(fingerprint).decode(), dimensions),
    ).get
    return number


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
