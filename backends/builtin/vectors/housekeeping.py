"""The space that vectors take on disk, and giving back what deleted ones left.

Owns the statements; when to run them is the caller's business. SQLite keeps the pages of deleted rows for
new ones, so only a file that holds many of them is worth the writing.
"""

from __future__ import annotations

import apsw

_BYTES_A_NUMBER = 4


def vector_bytes(connection: apsw.Connection) -> int:
    """Bytes of the numbers of all stored vectors. Counted in an index, without reading them."""
    stored: int = connection.execute(
        "SELECT coalesce(sum(f.dimensions * (SELECT count(*) FROM embeddings AS e"
        " WHERE e.fingerprint_id = f.id)), 0) FROM fingerprints AS f"
    ).get
    return stored * _BYTES_A_NUMBER


def give_back(connection: apsw.Connection, max_pages: int) -> int:
    """Shortens the file by up to `max_pages` unused pages; returns how many are left.

    Inside a write transaction, which stays short because it is bounded.
    """
    connection.execute(f"PRAGMA incremental_vacuum({max_pages:d})").fetchall()
    free: int = connection.pragma("freelist_count")
    return free
