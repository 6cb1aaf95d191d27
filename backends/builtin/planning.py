"""What a sync has to do: the difference between a scan of the disk and the index. Pure.

Owns the rule by which a file counts as unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from backends.files.scan import FoundFile, ScanResult
from config.settings import Source

RACY_NS: Final = 50_000_000
"""A file stamped this shortly before it was read may have been written once more with the same stamp
(the clock of a file system moves in steps of some milliseconds), so it is read again."""
COARSE_RACY_NS: Final = 2_000_000_000
"""The same where the stamp is a whole second: file systems exist that count in two seconds (FAT)."""
_SECOND_NS: Final = 1_000_000_000


class IndexedFile(NamedTuple):
    """What the index remembers of one file."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    content_hash: bytes
    pipeline: str
    read_at_ns: int


class ObsoleteFile(NamedTuple):
    """A file whose rows should go, as of the reading that they stem from."""

    path: str
    read_at_ns: int
    source: Source = "memory"


class SyncPlan(msgspec.Struct, frozen=True):
    to_read: tuple[FoundFile, ...]
    """New, changed and doubtful files, the newest first."""
    to_remove: tuple[ObsoleteFile, ...]
    added: frozenset[str]
    doubtful: frozenset[str]
    """Files that look unchanged and were read too shortly after their stamp to be sure."""
    unchanged: int


def plan_sync(
    scan: ScanResult, indexed: Mapping[str, IndexedFile], *, pipeline: str, force: bool = False
) -> SyncPlan:
    """The newest changes come first: they are what a person asks about."""
    to_read, doubtful = [], []
    for found in scan.files:
        known = indexed.get(found.path)
        if known is not None and not force and _is_same(found, known, pipeline):
            if not _is_racy(known):
                continue
            doubtful.append(found.path)
        to_read.append(found)
    to_read.sort(key=lambda found: (-found.mtime_ns, found.path))
    on_disk = {found.path for found in scan.files}
    return SyncPlan(
        to_read=tuple(to_read),
        to_remove=tuple(
            ObsoleteFile(path, known.read_at_ns)
            for path, known in indexed.items()
            if path not in on_disk and not scan.keeps(path)
        ),
        added=frozenset(found.path for found in to_read if found.path not in indexed),
        doubtful=frozenset(doubtful),
        unchanged=len(scan.files) - len(to_read),
    )


def _is_same(found: FoundFile, known: IndexedFile, pipeline: str) -> bool:
    return (found.size, found.mtime_ns, found.ctime_ns, found.inode, pipeline) == (
        known.size,
        known.mtime_ns,
        known.ctime_ns,
        known.inode,
        known.pipeline,
    )


def _is_racy(known: IndexedFile) -> bool:
    return any(
        abs(known.read_at_ns - stamp) <= (RACY_NS if stamp % _SECOND_NS else COARSE_RACY_NS)
        for stamp in (known.mtime_ns, known.ctime_ns)
    )
