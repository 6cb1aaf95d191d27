"""How background indexing makes room for searches.

Owns the count of the searches that run, and the pause that indexing takes while there are any: as long
as it worked, so that it never has more than half of what both share, and never stands still either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio

LONGEST_PAUSE_S: Final = 0.25
"""A slice that took long (one large file) is not paid for in full: the index must get level."""


class Courtesy:
    """Shared by the searches of one index and its syncs. Lives on one event loop."""

    def __init__(self) -> None:
        self._searches = 0

    @contextmanager
    def searching(self) -> Iterator[None]:
        self._searches += 1
        try:
            yield
        finally:
            self._searches -= 1

    async def give_way(self, worked_s: float) -> None:
        """Pauses after so much work in one piece, when anybody searches."""
        if self._searches:
            await anyio.sleep(min(worked_s, LONGEST_PAUSE_S))
