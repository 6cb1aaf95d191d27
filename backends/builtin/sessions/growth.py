"""How much transcripts grew since they were taken in, against the thresholds.

Owns the count of new lines, which is remembered only to save reading: what counts is kept in the index,
which knows how far each transcript was taken in, so a restart forgets nothing.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, NamedTuple

from backends.errors import FileUnreadableError, PathNotAllowedError
from backends.files.safe_open import opened
from backends.transcripts.listing import FoundTranscript, location_of
from backends.transcripts.stretches import count_lines
from backends.transcripts.thresholds import is_due
from config.settings import SessionSyncSettings

_COUNTED_BYTES: Final = 8 * 1024 * 1024
"""What one look counts at most; the next one goes on from there."""


class _Counted(NamedTuple):
    inode: int
    since: int
    until: int
    lines: int


class Growth:
    """May be used by several threads at the same time."""

    def __init__(self, directory: Path, thresholds: SessionSyncSettings) -> None:
        self._directory = directory
        self._thresholds = thresholds
        self._counted: dict[str, _Counted] = {}

    def is_due(self, found: FoundTranscript, since: int) -> bool:
        """Whether the transcript grew enough beyond the offset `since`."""
        return is_due(
            found.size - since,
            lambda: self._lines(found, since),
            time.time_ns() - found.mtime_ns,
            self._thresholds,
        )

    def forget_others(self, paths: frozenset[str]) -> None:
        """Only these transcripts exist any more."""
        for path in self._counted.keys() - paths:
            self._counted.pop(path, None)

    def _lines(self, found: FoundTranscript, since: int) -> int:
        counted = self._counted.get(found.path)
        if (
            counted is None
            or (counted.inode, counted.since) != (found.inode, since)
            or counted.until > found.size
        ):
            counted = _Counted(found.inode, since, since, 0)
        if counted.until == found.size:
            return counted.lines
        until = min(found.size, counted.until + _COUNTED_BYTES)
        try:
            with opened(location_of(self._directory, found.path)) as descriptor:
                lines = count_lines(descriptor, counted.until, until)
        except (FileNotFoundError, FileUnreadableError, PathNotAllowedError):
            return 0  # the step that takes it in will tell
        counted = counted._replace(until=until, lines=counted.lines + lines)
        self._counted[found.path] = counted
        return counted.lines
