"""Numbers for stored vectors that are given once and never again.

Owns the counter. SQLite would give the id of a deleted last row anew; who remembers vectors by their id,
as the resident engine does, must be able to rely on it, also when another file takes this index's place.
"""

from __future__ import annotations

import secrets

import apsw
import msgspec

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
