"""Reading all of an index now and then, so that damage is found before an answer needs the page.

Owns how that is done and for how long at most. What is found is set aside like any other damage.
"""

from __future__ import annotations

import time
from typing import Final

import apsw

from backends.builtin.storage.database import Database

LIMIT_S: Final = 20.0
"""A reader for so long keeps the log from being folded in."""
_STEPS_BETWEEN_LOOKS: Final = 1_000
"""Virtual machine instructions of SQLite: a fraction of a millisecond."""


def scrub(database: Database, limit_s: float = LIMIT_S) -> bool:
    """Whether all of it could be read in time. Blocks.

    On a connection of its own: one that was used before does not read again what it remembers, and FTS5
    would compare what it remembers of its segments with words that were merged since (as of SQLite 3.54),
    which looks like damage. Raises IndexDamagedError, IndexUnavailableError.
    """
    ends = time.monotonic() + limit_s
    with database.reading(remembering=False) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS_BETWEEN_LOOKS)
        try:
            verdict: str = connection.execute("PRAGMA quick_check(1)").get
        except apsw.InterruptError:
            return False
        finally:
            connection.set_progress_handler(None)
        if verdict != "ok":
            raise apsw.CorruptError(verdict)
    return True
