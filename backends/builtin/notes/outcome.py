"""What became of one step of a sync: one file, or one stretch of a transcript."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from backends.interface import SkippedFile


class Change(Enum):
    """What became of one file."""

    WRITTEN = auto()
    SAME = auto()
    """Its content was indexed already; only the time stamp was new."""
    GONE = auto()
    LATER = auto()
    """It was changing while we looked; the next sync looks again."""
    SKIPPED = auto()
    """By rule, or because it cannot be read and that will stay so until somebody changes it."""
    UNREAD = auto()
    """It could not be read this time; what the index holds of it may be old, or nothing."""


class FileOutcome(NamedTuple):
    change: Change
    chunks: int = 0
    bytes_read: int = 0
    skipped: SkippedFile | None = None

    @classmethod
    def unreadable(cls, path: str, reason: str, *, may_pass: bool) -> FileOutcome:
        """The system refuses to give it out; its rows stay."""
        change = Change.UNREAD if may_pass else Change.SKIPPED
        return cls(change, skipped=SkippedFile(path=path, reason=reason))
