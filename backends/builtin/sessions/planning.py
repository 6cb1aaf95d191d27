"""What a sync has to do about transcripts: listing against index, thresholds applied. Pure.

Owns which transcripts are due and the division of the work: stretches short enough that a sync can be
cancelled, report progress and let memory files have their turn between any two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from backends.builtin.notes.planning import ObsoleteFile
from backends.builtin.store.port import IndexedTranscript
from backends.transcripts.source import BEGINNING, FoundTranscript, Place, TranscriptListing

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
) -> SessionPlan:
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
    return SessionPlan(
        listing=listing,
        parts=tuple(parts),
        to_remove=tuple(
            ObsoleteFile(path, known.read_at_ns, "sessions")
            for path, known in indexed.items()
            if path not in on_disk and listing.tells_of(path)
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
