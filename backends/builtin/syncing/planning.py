"""The plan of a sync, which is the difference between the disk and the index of notes, and the outcome of each step."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

import msgspec

from backends.builtin.store.port import IndexedFile
from backends.files.scan import FoundFile, ScanResult
from backends.interface import SkippedFile
from config.settings import Source

RACY_NS: Final = 50_000_000
"""A file stamped this shortly before it was read may have been written once more with the same stamp
(the clock of a file system moves in steps of some milliseconds), so it is read again."""
COARSE_RACY_NS: Final = 2_000_000_000
"""The same where the stamp is a whole second: some file systems count in steps of two seconds (FAT)."""
_SECOND_NS: Final = 1_000_000_000
VERIFIED_FILES: Final = 200
VERIFIED_BYTES: Final = 8_000_000
"""The most that one verifying sync reads again, in files and in bytes; the last file may exceed the bytes."""


class ObsoleteFile(msgspec.Struct, frozen=True, gc=False):
    """A file whose rows are to be removed, if they are still those of this reading."""

    path: str
    read_at_ns: int
    source: Source = "memory"
    is_orphan: bool = False
    """True if no viewpoint that is still known saw it."""


class Retained(msgspec.Struct, frozen=True, gc=False):
    """Files of one place that are gone from the disk, or may not be read, and stay in the index for now."""

    place: str
    files: int
    reason: str
    remedy: str | None = None
    """The way to give this user access to a place that may not be read; None: its files are gone."""

    @property
    def explanation(self) -> str:
        return f"{self.reason} (to mend it: {self.remedy})" if self.remedy else self.reason


def explanations(retained: Iterable[Retained]) -> tuple[str, ...]:
    """Returns each explanation once: a workspace that is missing is that of several places."""
    return tuple(dict.fromkeys(one.explanation for one in retained))


class SyncPlan(msgspec.Struct, frozen=True):
    to_read: tuple[FoundFile, ...]
    """New, changed and doubtful files, the newest first."""
    to_remove: tuple[ObsoleteFile, ...]
    added: frozenset[str]
    doubtful: frozenset[str]
    """Files that look unchanged and are read again all the same: their stamps may deceive."""
    unchanged: int
    retained: tuple[Retained, ...] = ()
    outdated: frozenset[str] = frozenset()
    """Files that did not change; what is stored of them was made by other settings or an earlier release."""


def plan_sync(
    scan: ScanResult,
    indexed: Mapping[str, IndexedFile],
    *,
    pipeline: str,
    force: bool = False,
    verify: bool = False,
) -> SyncPlan:
    """Returns the plan of a sync. The newest changes come first: they are what a person asks about.

    A file that this viewpoint has not seen is read once; if it is not on the disk, that is no deletion here.
    """
    to_read, doubtful, level, outdated = [], [], [], []
    for found in scan.files:
        known = indexed.get(found.path)
        if known is None or force or not _is_same(found, known):
            to_read.append(found)
        elif known.pipeline != pipeline:
            to_read.append(found)
            outdated.append(found.path)
        elif _is_racy(known):
            doubtful.append(found)
        elif verify:
            level.append((known.read_at_ns, found))
    doubtful += _due_for_verification(level)
    to_read += doubtful
    to_read.sort(key=lambda found: (-found.mtime_ns, found.path))
    on_disk = {found.path for found in scan.files}
    return SyncPlan(
        to_read=tuple(to_read),
        to_remove=tuple(
            ObsoleteFile(path, known.read_at_ns, is_orphan=known.seen == "nowhere")
            for path, known in indexed.items()
            if path not in on_disk and known.seen != "elsewhere" and not scan.keeps(path)
        ),
        added=frozenset(found.path for found in to_read if found.path not in indexed),
        doubtful=frozenset(found.path for found in doubtful),
        unchanged=len(scan.files) - len(to_read),
        outdated=frozenset(outdated),
    )


def _due_for_verification(level: Iterable[tuple[int, FoundFile]]) -> Iterable[FoundFile]:
    """Yields those that were read longest ago: some file systems and tools keep all stamps."""
    left = VERIFIED_BYTES
    oldest = heapq.nsmallest(VERIFIED_FILES, level, key=lambda one: (one[0], one[1].path))
    for _, found in oldest:
        if left > 0:
            yield found
        left -= found.size


def _is_same(found: FoundFile, known: IndexedFile) -> bool:
    is_touched = found.mtime_ns != known.mtime_ns or found.ctime_ns != known.ctime_ns
    return not is_touched and found.size == known.size and found.inode == known.inode


def _is_racy(known: IndexedFile) -> bool:
    newest = max(known.mtime_ns, known.ctime_ns)
    if known.read_at_ns - newest > COARSE_RACY_NS:
        return False
    return any(
        abs(known.read_at_ns - stamp) <= (RACY_NS if stamp % _SECOND_NS else COARSE_RACY_NS)
        for stamp in (known.mtime_ns, known.ctime_ns)
    )


class Change(Enum):
    """The outcome for one file."""

    WRITTEN = auto()
    SAME = auto()
    """Its content was indexed already: only the time stamp was new, or it was written again by force."""
    GONE = auto()
    LATER = auto()
    """It changed meanwhile, its place became unavailable, or the work was ended; the next sync tries it again."""
    SKIPPED = auto()
    """A rule leaves it out."""
    DENIED = auto()
    """This user may not read it; its rows stay."""
    UNREAD = auto()
    """It could not be read this time; the index may have an old state of it, or nothing."""


class FileOutcome(msgspec.Struct, frozen=True, gc=False):
    change: Change
    chunks: int = 0
    bytes_read: int = 0
    skipped: SkippedFile | None = None

    @classmethod
    def unreadable(cls, path: str, reason: str, *, may_pass: bool) -> FileOutcome:
        """Returns the outcome for a file that cannot be read; its rows stay."""
        change = Change.UNREAD if may_pass else Change.DENIED
        return cls(change, skipped=SkippedFile(path=path, reason=reason))
