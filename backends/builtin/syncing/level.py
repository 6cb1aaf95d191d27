"""Knowing, without comparing file by file, that disk and index are still level.

Owns the memory of comparisons that found nothing to do. The same stamps of the same files against the
same rows give the same plan, so before most searches neither thousands of rows are read nor compared;
the disk itself is looked at all the same.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

import apsw

from backends.files.scan import ScanResult


class Level(NamedTuple):
    """What was level: one state of the disk and one of the index."""

    version: int
    """Of the index as this connection sees it: changes with every commit of any other connection,
    in this process or another (sqlite.org/pragma.html, data_version)."""
    pipeline: str
    found: ScanResult


class LevelMemory:
    """For each reading connection, which of its comparisons was the last with nothing to do."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[apsw.Connection, Level] = weakref.WeakKeyDictionary()

    def holds(self, connection: apsw.Connection, found: ScanResult, pipeline: str) -> bool:
        """Whether a comparison in this transaction would have nothing to do."""
        known = self._known.get(connection)
        return known is not None and known == Level(_version(connection), pipeline, found)

    def keep(self, connection: apsw.Connection, found: ScanResult, pipeline: str) -> None:
        """A comparison in this transaction had nothing to do."""
        self._known[connection] = Level(_version(connection), pipeline, found)


def _version(connection: apsw.Connection) -> int:
    ((version,),) = connection.execute("PRAGMA data_version")
    return int(version)
