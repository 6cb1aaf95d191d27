"""Giving back the space of deleted rows.

Owns when that is worth the writing, and in which steps. SQLite keeps the pages of deleted rows for new
ones, so only a file that holds many of them is shortened.
"""

from __future__ import annotations

from typing import Final

from backends.builtin.storage.database import Database

MIN_UNUSED_PAGES: Final = 1_024
"""4 MiB."""
UNUSED_SHARE: Final = 8
"""One page in so many may stay unused."""
PAGES_A_STEP: Final = 512
"""A write transaction of some milliseconds, so that others get their turns."""
MAX_STEPS: Final = 128
"""256 MiB; what is left then goes the next time."""


def give_back_unused(database: Database) -> int:
    """Shortens the file while much of it is unused; returns the pages given back.

    Blocks. Raises IndexUnavailableError.
    """
    given = 0
    with database.reading() as connection:
        unused, pages = connection.pragma("freelist_count"), connection.pragma("page_count")
    while (
        unused > max(MIN_UNUSED_PAGES, pages // UNUSED_SHARE) and given < MAX_STEPS * PAGES_A_STEP
    ):
        with database.writing() as connection:
            connection.execute(f"PRAGMA incremental_vacuum({PAGES_A_STEP})").fetchall()
            left = connection.pragma("freelist_count")
        given += unused - left
        if left >= unused:
            break  # an index that was made without this ability
        pages -= unused - left
        unused = left
    return given
