"""The one durable copy of each vector, keyed by provider fingerprint and text; texts that a provider refused."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from backends.builtin.store.sqlite.connections import int64s
from backends.interface import Coverage, FailedText
from providers.interface import Fingerprint

if TYPE_CHECKING:
    from providers.interface import Vector


_KEY = "embedding_serial"


class Serial(msgspec.Struct, frozen=True):
    epoch: str = ""
    """Random, so that the numbers of two index files are never taken for each other."""
    last: int = 0
    """The highest number given so far."""


def current_serial(connection: apsw.Connection) -> Serial:
    text = connection.execute("SELECT value FROM meta WHERE key = ?", (_KEY,)).get
    return msgspec.json.decode(text, type=Serial) if text else Serial()


def reserve_ids(connection: apsw.Connection, count: int) -> range:
    """`count` new ids, inside the caller's write transaction."""
    serial = current_serial(connection)
    highest = connection.execute("SELECT coalesce(max(id), 0) FROM embeddings").get
    first = max(serial.last, highest) + 1
    new = Serial(serial.epoch or secrets.token_hex(8), first + count - 1)
    connection.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (_KEY, msgspec.json.encode(new).decode()),
    )
    return range(first, first + count)


FIRST_RETRY_MS: Final = 5_000
LONGEST_RETRY_MS: Final = 24 * 3600 * 1000
_MOST_DOUBLINGS: Final = 16
"""Beyond the longest pause."""


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


_BYTES_A_NUMBER: Final = 4
_LENGTH_TOLERANCE: Final = 1e-3
_UNFIT: Final = "The provider's vector is not one of finite numbers and length 1 like the others."
_LEARNED_KEY: Final = "learned_limits"

# Only the chosen rows are read with their texts. SQLite would end a text at U+0000, so it cuts nothing.
_SELECT_PENDING: Final = """
    SELECT p.text_hash, c.text, p.start, p."end" FROM (
        SELECT x.text_hash, x.chunk_id, x.start, x."end", max(f.mtime_ns) AS mtime_ns, x.file_id
        FROM excerpts AS x JOIN files AS f ON f.id = x.file_id
        WHERE NOT EXISTS (SELECT 1 FROM embeddings AS e
            WHERE e.text_hash = x.text_hash AND e.fingerprint_id = :fingerprint)
        AND NOT EXISTS (SELECT 1 FROM embedding_failures AS y
            WHERE y.digest = :digest AND y.text_hash = x.text_hash AND y.retry_at_ms > :now)
        AND NOT EXISTS (SELECT 1 FROM batch_items AS b
            WHERE b.digest = :digest AND b.text_hash = x.text_hash)
        GROUP BY x.text_hash ORDER BY 5 DESC, 6, 2, 3 LIMIT :limit
    ) AS p CROSS JOIN chunks AS c ON c.id = p.chunk_id
    ORDER BY p.mtime_ns DESC, p.file_id, c.start, p.start
"""


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
    """Stores vectors by the hash of their text.

    What is no vector of length 1 like the others is recorded as a failure instead. A host that
    changed its dimensions under the same fingerprint has changed its model: the vectors of before
    go, so that the two are never compared.
    """
    dimensions = len(vectors[0][1])
    faults = [
        (text_hash, _UNFIT) for text_hash, vector in vectors if not _is_fit(vector, dimensions)
    ]
    if faults:
        record_failures(connection, fingerprint, faults)
        unfit = dict(faults)
        vectors = [(text_hash, vector) for text_hash, vector in vectors if text_hash not in unfit]
    if not vectors:
        return
    number = _row_for(connection, fingerprint, dimensions)
    ids = reserve_ids(connection, len(vectors))
    connection.executemany(
        "INSERT OR REPLACE INTO embeddings (id, fingerprint_id, text_hash, vector, used_at_ms)"
        " VALUES (?, ?, ?, ?, 0)",
        [
            (row_id, number, text_hash, vector.astype("<f4").tobytes())
            for row_id, (text_hash, vector) in zip(ids, vectors, strict=True)
        ],
    )
    forgive(connection, fingerprint, (text_hash for text_hash, _ in vectors))


def pending_texts(
    connection: apsw.Connection,
    fingerprint: Fingerprint,
    *,
    limit: int,
    dimensions: int | None = None,
) -> list[tuple[bytes, str]]:
    """Different texts without a vector of this fingerprint, the newest files first.

    Texts that wait for a batch job are left out. `dimensions` is what the provider gives now, as far
    as that is known: stored vectors of another length are of no use any more.
    """
    number = connection.execute(
        "SELECT id FROM fingerprints WHERE digest = ? AND dimensions = ifnull(?, dimensions)",
        (fingerprint.digest(), dimensions),
    ).get
    rows = connection.execute(
        _SELECT_PENDING,
        {
            "fingerprint": number,
            "digest": fingerprint.digest(),
            "now": now_ms(),
            "limit": limit,
        },
    )
    return [(text_hash, text[start:end]) for text_hash, text, start, end in rows]


def is_complete(connection: apsw.Connection, fingerprint_id: int, dimensions: int) -> bool:
    """Whether every stored text has a vector of this fingerprint and length."""
    complete: int = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM fingerprints WHERE id = :number AND dimensions = :dimensions)"
        " AND NOT EXISTS (SELECT 1 FROM excerpts AS c WHERE NOT EXISTS"
        "  (SELECT 1 FROM embeddings AS e"
        "   WHERE e.fingerprint_id = :number AND e.text_hash = c.text_hash))",
        {"number": fingerprint_id, "dimensions": dimensions},
    ).get
    return bool(complete)


def superseded(connection: apsw.Connection, current: Fingerprint) -> Fingerprint | None:
    """The fingerprint whose vectors cover more of the stored texts than those of `current` do.

    None when there is none: then `current` has read as much as any other.
    """
    best, most = None, _texts_read(connection, current.digest())
    others: list[Any] = connection.execute(
        "SELECT digest, description FROM fingerprints WHERE digest != ?", (current.digest(),)
    ).fetchall()
    for digest, description in others:
        read = _texts_read(connection, digest)
        if read > most:
            best, most = msgspec.json.decode(description, type=Fingerprint), read
    return best


def _texts_read(connection: apsw.Connection, digest: bytes) -> int:
    read: int = connection.execute(
        "SELECT count(*) FROM embeddings AS e JOIN fingerprints AS f ON f.id = e.fingerprint_id"
        " WHERE f.digest = ?"
        " AND EXISTS (SELECT 1 FROM excerpts AS c WHERE c.text_hash = e.text_hash)",
        (digest,),
    ).get
    return read


def coverage(connection: apsw.Connection, fingerprint: Fingerprint) -> Coverage:
    number = fingerprint_id(connection, fingerprint)
    total, embedded, failed, stored, dimensions = connection.execute(
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


def fallen_out_of_use(connection: apsw.Connection) -> list[int]:
    """Vectors that no chunk uses any more and that are not noted as such. Reads a whole index."""
    rows = connection.execute(
        "SELECT e.id FROM embeddings AS e WHERE NOT EXISTS"
        " (SELECT 1 FROM excerpts AS c WHERE c.text_hash = e.text_hash)"
        " AND NOT EXISTS (SELECT 1 FROM embeddings AS u WHERE u.used_at_ms > 0 AND u.id = e.id)"
    )
    return [number for (number,) in rows]


def refresh_use(connection: apsw.Connection, fallen: Sequence[int]) -> None:
    """Notes which vectors came out of use since the last call, and which came back: `prune` drops
    first what came out of use first.

    `fallen` is what `fallen_out_of_use` said a moment ago, so that nobody waits for that to write.
    Writes only the rows whose state changed: 0 stands for "in use", whatever the time.
    """
    connection.execute(
        "UPDATE embeddings SET used_at_ms = ? WHERE id IN (SELECT value FROM carray(?))"
        " AND used_at_ms = 0"
        " AND NOT EXISTS (SELECT 1 FROM excerpts AS c WHERE c.text_hash = embeddings.text_hash)",
        (now_ms(), int64s(fallen)),
    )
    connection.execute(
        "UPDATE embeddings SET used_at_ms = 0 WHERE used_at_ms > 0 AND EXISTS"
        " (SELECT 1 FROM excerpts AS c WHERE c.text_hash = embeddings.text_hash)"
    )


def prune(connection: apsw.Connection, max_entries: int | None) -> int:
    """Drops the longest unused vectors beyond `max_entries`; those in use always stay.

    Returns how many went. None: no bound. `refresh_use` comes first, in the same transaction.
    """
    if max_entries is None:
        return 0
    before = connection.total_changes()
    connection.execute(
        "DELETE FROM embeddings WHERE id IN (SELECT id FROM embeddings WHERE used_at_ms > 0"
        " ORDER BY used_at_ms, id LIMIT max(0, (SELECT count(*) FROM embeddings) - ?))",
        (max_entries,),
    )
    return connection.total_changes() - before


def drop_superseded(connection: apsw.Connection, kept: Sequence[Fingerprint]) -> None:
    """The vectors of all other fingerprints go, in the caller's one transaction."""
    digests = {fingerprint.digest() for fingerprint in kept}
    for number, digest in connection.execute("SELECT id, digest FROM fingerprints").fetchall():
        if digest not in digests:
            connection.execute("DELETE FROM fingerprints WHERE id = ?", (number,))


def vector_bytes_per_chunk(connection: apsw.Connection) -> float | None:
    """Bytes of the numbers of all stored vectors, for each chunk. Counted without reading them."""
    chunks = connection.execute("SELECT coalesce(sum(chunk_count), 0) FROM files").get
    numbers = connection.execute(
        "SELECT coalesce(sum(f.dimensions * (SELECT count(*) FROM embeddings AS e"
        " WHERE e.fingerprint_id = f.id)), 0) FROM fingerprints AS f"
    ).get
    return round(numbers * _BYTES_A_NUMBER / chunks, 1) if chunks else None


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


def _row_for(connection: apsw.Connection, fingerprint: Fingerprint, dimensions: int) -> int:
    """The row of a fingerprint, a new one when there is none with these dimensions."""
    connection.execute(
        "DELETE FROM fingerprints WHERE digest = ? AND dimensions != ?",
        (fingerprint.digest(), dimensions),
    )
    connection.execute(
        "INSERT INTO fingerprints (digest, description, dimensions) VALUES (?, ?, ?)"
        " ON CONFLICT (digest) DO NOTHING",
        (fingerprint.digest(), msgspec.json.encode(fingerprint).decode(), dimensions),
    )
    number = fingerprint_id(connection, fingerprint)
    assert number is not None
    return number


def _is_fit(vector: Vector, dimensions: int) -> bool:
    if vector.shape != (dimensions,):
        return False
    return abs(float(vector @ vector) - 1.0) <= 2 * _LENGTH_TOLERANCE  # false for NaN
