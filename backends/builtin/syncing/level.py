"""Knowing, without comparing file by file, that disk and index are still level.

Owns the memory of comparisons that found nothing to do. The same stamps of the same files against the
same rows give the same plan, so before most searches neither thousands of rows are read nor compared;
the disk itself is looked at all the same.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

import apsw

from backends.files.scan import ScanResult


@dataclass(frozen=True, slots=True)
class _Level:
    """One state of the disk, and which states of the index were level with it."""

    found: ScanResult
    pipeline: str
    versions: weakref.WeakKeyDictionary[apsw.Connection, int] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    """As each connection numbers them, see `_version`."""


class LevelMemory:
    """The last state of the disk that was level with some state of the index. For any thread."""

    def __init__(self) -> None:
        self._level: _Level | None = None

    def holds(self, connection: apsw.Connection, found: ScanResult, pipeline: str) -> bool:
        """Whether a comparison in this transaction of a reader would have nothing to do."""
        level = self._level
        return (
            level is not None
            and level.versions.get(connection) == _version(connection)
            and (level.pipeline, level.found) == (pipeline, found)
        )

    def keep(self, connection: apsw.Connection, found: ScanResult, pipeline: str) -> None:
        """A comparison in this transaction of a reader had nothing to do."""
        level = self._level
        if level is None or (level.pipeline, level.found) != (pipeline, found):
            self._level = level = _Level(found, pipeline)
        level.versions[connection] = _version(connection)


def _version(connection: apsw.Connection) -> int:
    """Of the index as this connection sees it: another one after every commit of any other connection,
    in this process or another (sqlite.org/pragma.html, data_version).
    """
    ((version,),) = connection.execute("PRAGMA data_version")
    return int(version)
