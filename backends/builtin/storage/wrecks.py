"""Which damaged file an index took the place of, for as long as that matters.

Owns the mark in `meta`. It is written with the new index itself, so that neither a kill nor another process
comes between. It changes when the file's embeddings were read, and goes when the texts that may use them
have been indexed again.
"""

from __future__ import annotations

from typing import Final

import apsw

_KEY: Final = "wreck"
_READ: Final = ""


def remember(connection: apsw.Connection, name: str) -> None:
    """The index takes the place of this file, which lies beside it."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_KEY, name))


def unread(connection: apsw.Connection) -> str | None:
    """The name of the file whose embeddings have yet to be read, if there is one."""
    return _value(connection) or None


def is_recent(connection: apsw.Connection) -> bool:
    """Whether the texts of that file may still be missing."""
    return _value(connection) is not None


def set_read(connection: apsw.Connection) -> None:
    """What was of use in the file is in the index."""
    remember(connection, _READ)


def forget(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE key = ?", (_KEY,))


def _value(connection: apsw.Connection) -> str | None:
    value: str | None = connection.execute("SELECT value FROM meta WHERE key = ?", (_KEY,)).get
    return value
