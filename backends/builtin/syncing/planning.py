"""What a sync has to do: the difference between the disk and the index, for notes and for transcripts; and what became of each step."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, auto
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from backends.builtin.store.port import IndexedFile, IndexedTranscript
from backends.files.scan import FoundFile, ScanResult
from backends.interface import SkippedFile
from backends.transcripts.source import BEGINNING, FoundTranscript, Place, TranscriptListing
from config.settings import Source

RACY_NS: Final = 50_000_000
"""A file stamped this shortly before it was read may have been written once more with the same stamp
(the clock of a file system moves in steps of some milliseconds), so it is read again."""
COARSE_RACY_NS: Final = 2_000_000_000
"""The same where the stamp is a whole second: file systems exist that count in two seconds (FAT)."""
_SECOND_NS: Final = 1_000_000_000
VERIFIED_FILES: Final = 200
VERIFIED_BYTES: Final = 8_000_000
"""How much one verifying sync reads again, in files and in all; one file however large it is."""


class ObsoleteFile(NamedTuple):
    """A file whose rows should go, as of the reading that they stem from."""

    path: str
    read_at_ns: int
    source: Source = "memory"
    is_orphan: bool = False
    """No viewpoint saw it that is not forgotten."""


class Held(NamedTuple):
    """Files of one place that are gone from the disk and stay in the index for now."""

    place: str
    files: int
    reason: str


class SyncPlan(msgspec.Struct, frozen=True):
    to_read: tuple[FoundFile, ...]
    """New, changed and doubtful files, the newest first."""
    to_remove: tuple[ObsoleteFile, ...]
    added: frozenset[str]
    doubtful: frozenset[str]
    """Files that look unchanged and are read again all the same: their stamps may deceive."""
    unchanged: int
    held: tuple[Held, ...] = ()

    @classmethod
    def level(cls, files: int) -> SyncPlan:
        """Nothing to do: all these files are in the index as they are on the disk."""
        return cls((), (), frozenset(), frozenset(), unchanged=files)


def plan_sync(
    scan: ScanResult,
    indexed: Mapping[str, IndexedFile],
    *,
    pipeline: str,
    force: bool = False,
    verify: bool = False,
) -> SyncPlan:
    """The newest changes come first: they are what a person asks about.

    What this viewpoint has not seen is read once, and is no deletion of its when it is not on the disk.
    """
    to_read, doubtful, level = [], [], []
    for found in scan.files:
        known = indexed.get(found.path)
        if known is None or force or not _is_same(found, known, pipeline):
            to_read.append(found)
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
    )


def _due_for_verification(level: Iterable[tuple[int, FoundFile]]) -> Iterable[FoundFile]:
    """Those that were read longest ago: file systems and tools exist that keep all stamps."""
    left = VERIFIED_BYTES
    oldest = heapq.nsmallest(VERIFIED_FILES, level, key=lambda one: (one[0], one[1].path))
    for _, found in oldest:
        if left > 0:
            yield found
        left -= found.size


def _is_same(found: FoundFile, known: IndexedFile, pipeline: str) -> bool:
    return (
        found.mtime_ns == known.mtime_ns
        and found.size == known.size
        and found.ctime_ns == known.ctime_ns
        and found.inode == known.inode
        and pipeline == known.pipeline
    )


def _is_racy(known: IndexedFile) -> bool:
    newest = max(known.mtime_ns, known.ctime_ns)
    if known.read_at_ns - newest > COARSE_RACY_NS:
        return False
    return any(
        abs(known.read_at_ns - stamp) <= (RACY_NS if stamp % _SECOND_NS else COARSE_RACY_NS)
        for stamp in (known.mtime_ns, known.ctime_ns)
    )


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


PART_BYTES: Final = 1024 * 1024
"""What one step takes in: memory stays bounded, and no step takes long."""

IsDue = Callable[[FoundTranscript, Place], bool]
"""Whether a transcript that grew beyond this place has reached its thresholds."""


class TranscriptPart(msgspec.Struct, frozen=True):
    """One step: take in the transcript up to `until`, from wherever the index stands."""

    path: str
    until: int
    """Byte of the transcript."""
    size: int
    """Bytes that are expected to be read."""
    is_last: bool
    restart: bool = False
    """Take in everything again, also what seems unchanged."""

    @property
    def begin(self) -> int:
        """Where the step before it is expected to have ended."""
        return self.until - self.size


class SessionPlan(msgspec.Struct, frozen=True):
    listing: TranscriptListing = TranscriptListing()
    parts: tuple[TranscriptPart, ...] = ()
    """The transcript that changed last comes first."""
    to_remove: tuple[ObsoleteFile, ...] = ()
    added: frozenset[str] = frozenset()
    waiting: int = 0
    """Transcripts that grew, but not beyond their thresholds."""
    unchanged: int = 0

    @property
    def due(self) -> frozenset[str]:
        return frozenset(part.path for part in self.parts)


class _Need(NamedTuple):
    begin: Place
    """Where the first step is expected to begin."""
    is_certain: bool
    """Whatever the thresholds say."""


def plan_sessions(
    listing: TranscriptListing,
    indexed: Mapping[str, IndexedTranscript],
    *,
    pipeline: Callable[[str], str],
    is_due: IsDue,
    force: bool = False,
    enabled: bool = True,
) -> SessionPlan:
    """Not `enabled`: transcripts are no source, and whatever this viewpoint may take out goes."""
    parts: list[TranscriptPart] = []
    added, waiting = [], 0
    for found in sorted(listing.files, key=lambda found: (-found.mtime_ns, found.path)):
        known = indexed.get(found.path)
        need = _need(found, known, pipeline(found.path), force=force)
        if need is None or (not need.is_certain and not is_due(found, need.begin)):
            waiting += need is not None and found.size > need.begin.byte
            continue
        parts += _parts(found, need.begin.byte, restart=force)
        if known is None or not known.pipeline:
            added.append(found.path)
    on_disk = {found.path for found in listing.files}
    orphans_go = bool(listing.files) or not enabled  # a directory without any may be away
    return SessionPlan(
        listing=listing,
        parts=tuple(parts),
        to_remove=tuple(
            ObsoleteFile(path, known.read_at_ns, "sessions")
            for path, known in indexed.items()
            if path not in on_disk
            and listing.tells_of(path)
            and (known.seen == "here" or (known.seen == "nowhere" and orphans_go))
        ),
        added=frozenset(added),
        waiting=waiting,
        unchanged=len(listing.files) - len({part.path for part in parts}),
    )


def _need(
    found: FoundTranscript, known: IndexedTranscript | None, pipeline: str, *, force: bool
) -> _Need | None:
    """None: the file is as it was. A file that did anything but grow must be looked at at once."""
    if known is None:
        return _Need(BEGINNING, is_certain=force)
    if force or known.pipeline != pipeline:
        return _Need(BEGINNING, is_certain=True)
    if known.stamps == found.stamps:
        return None
    if found.inode != known.inode or found.size <= known.size:
        return _Need(BEGINNING, is_certain=True)
    return _Need(Place(known.end_byte, known.end_line), is_certain=False)


def _parts(found: FoundTranscript, begin: int, *, restart: bool) -> Iterator[TranscriptPart]:
    ends = [begin, *range(begin + PART_BYTES, found.size, PART_BYTES), max(begin, found.size)]
    for start, end in pairwise(ends):
        yield TranscriptPart(
            path=found.path,
            until=end,
            size=end - start,
            is_last=end == ends[-1],
            restart=restart and start == begin,
        )
