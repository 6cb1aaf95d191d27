"""Taking transcripts into the index, one stretch at a time.

Owns the way of a stretch from the disk into the index. Everything here blocks and runs in worker
threads; several may work on one transcript, since a step that another one overtook publishes nothing.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import apsw

from backends.builtin.notes.outcome import Change, FileOutcome
from backends.builtin.notes.preparing import Preparer
from backends.builtin.notes.publishing import remove_file
from backends.builtin.sessions import state
from backends.builtin.sessions.growth import Growth
from backends.builtin.sessions.planning import (
    PART_BYTES,
    SessionPlan,
    TranscriptPart,
    plan_sessions,
)
from backends.builtin.sessions.publishing import Part, publish_part
from backends.builtin.sessions.reading import Begin, find_begin, render
from backends.builtin.sessions.state import START, Checkpoint
from backends.builtin.storage.database import Database
from backends.errors import FileUnreadableError
from backends.files.safe_open import MomentarilyUnreadableError, RefusedFileError, opened
from backends.interface import SkippedFile
from backends.transcripts.listing import (
    PREFIX,
    SUFFIX,
    FoundTranscript,
    TranscriptListing,
    list_transcripts,
    location_of,
    transcript_path,
)
from backends.transcripts.stretches import Stretch, read_stretch, tail_of
from backends.transcripts.turns import RENDERING_VERSION
from config.settings import SessionSyncSettings


class SessionIndexer:
    """Indexes the transcripts of one agent; switched off, it only takes out what is left of them."""

    def __init__(
        self,
        database: Database,
        directory: Path,
        preparer: Preparer,
        thresholds: SessionSyncSettings,
        *,
        enabled: bool,
    ) -> None:
        self.enabled = enabled
        self._database = database
        self._directory = directory
        self._preparer = preparer
        self._growth = Growth(directory, thresholds)
        self._pipeline = f"{preparer.pipeline}, {RENDERING_VERSION}"

    def listing(self) -> TranscriptListing:
        return list_transcripts(self._directory) if self.enabled else TranscriptListing()

    def absolute(self, path: str) -> str:
        """Where the transcript with this index path is."""
        location = location_of(self._directory, path)
        return str(Path(location.anchor, *location.names))

    def survey(self, *, eager: bool = False, force: bool = False) -> SessionPlan:
        """What is to do. `eager`: whatever the thresholds say; `force`: everything again."""
        listing = self.listing()
        with self._database.reading() as connection:
            if state.is_enrolled(connection) == self.enabled:
                return self.compare(connection, listing, eager=eager, force=force)
        self._switch(listing)
        with self._database.reading() as connection:
            return self.compare(connection, listing, eager=eager, force=force)

    def compare(
        self,
        connection: apsw.Connection,
        listing: TranscriptListing,
        *,
        eager: bool = False,
        force: bool = False,
    ) -> SessionPlan:
        """What is to do, as of this transaction."""
        self._growth.forget_others(frozenset(found.path for found in listing.files))
        return plan_sessions(
            listing,
            state.indexed_transcripts(connection),
            pipeline=self._pipeline,
            is_due=_has_grown if eager else self._growth.is_due,
            force=force,
        )

    def is_due(self, reference: str) -> bool:
        """Whether the transcript that a client names so has reached its thresholds."""
        path = transcript_path(self._directory, reference) if self.enabled else None
        return path is not None and any(part.path == path for part in self.survey().parts)

    def apply(self, part: TranscriptPart, patience_s: float | None) -> FileOutcome:
        """Takes in one stretch. Raises IndexUnavailableError; see `Indexer.apply`."""
        read_at_ns = time.time_ns()
        try:
            with opened(location_of(self._directory, part.path)) as descriptor:
                return self._take_in(descriptor, part, read_at_ns, patience_s)
        except FileNotFoundError:
            return self._forget(part.path, patience_s)
        except RefusedFileError as error:
            with self._database.writing(patience_s) as connection:
                remove_file(connection, "sessions", part.path)
            skipped = SkippedFile(path=part.path, reason=error.reason)
            return FileOutcome(Change.SKIPPED, skipped=skipped)
        except FileUnreadableError as error:
            may_pass = isinstance(error, MomentarilyUnreadableError)
            return FileOutcome.unreadable(part.path, str(error), may_pass=may_pass)

    def _take_in(
        self, descriptor: int, part: TranscriptPart, read_at_ns: int, patience_s: float | None
    ) -> FileOutcome:
        status = os.fstat(descriptor)
        with self._database.reading() as connection:
            known = state.indexed_transcript(connection, part.path)
            taken = state.checkpoints(connection, known.file_id) if known else [START]
        restart = part.restart or (known is not None and known.pipeline != self._pipeline)
        if known and not restart and known.stamps == _stamps(status):
            return FileOutcome(Change.SAME)
        begin = Begin(START)
        if known is not None:
            begin = find_begin(descriptor, status, known, taken, restart=restart)
        start = begin.checkpoint.end_byte
        if start < part.begin and not begin.is_checked:
            return FileOutcome(Change.LATER)  # the step before this one was left out
        stretch = read_stretch(descriptor, start, min(part.until, start + PART_BYTES))
        if not stretch.lines and not part.is_last and not begin.is_checked:
            return FileOutcome(Change.SAME)
        ready = self._prepare(descriptor, status, part.path, begin, stretch, read_at_ns)
        with self._database.writing(patience_s) as connection:
            overtaken = state.indexed_transcript(connection, part.path) != known
            if overtaken or not self._is_current(part.path, status, stretch.end):
                return FileOutcome(Change.LATER)
            written = publish_part(connection, ready)
        change = Change.WRITTEN if stretch.lines or begin.is_rewritten else Change.SAME
        if stretch.end < part.until and not stretch.is_last:
            change = Change.LATER  # more had to be read again than this step may take
        return FileOutcome(change, written, stretch.end - start)

    def _prepare(
        self,
        descriptor: int,
        status: os.stat_result,
        path: str,
        begin: Begin,
        stretch: Stretch,
        read_at_ns: int,
    ) -> Part:
        start = begin.checkpoint
        rendered = render(stretch, start)
        name = path.removeprefix(PREFIX).removesuffix(SUFFIX)
        is_last = stretch.is_last or stretch.end >= status.st_size
        stamps = _stamps(status)
        return Part(
            path=path,
            stamps=stamps if is_last else (stretch.end, *stamps[1:]),
            pipeline=self._pipeline,
            read_at_ns=read_at_ns,
            begin=start,
            end=Checkpoint(
                stretch.end,
                start.end_line + len(stretch.lines),
                start.end_turn + len(rendered.lines),
                start.end_char + len(rendered.text),
                tail_of(descriptor, stretch.end),
                stretch.digest,
            ),
            lines=rendered.lines,
            prepared=self._preparer.prepare(name, rendered.text),
            is_last=is_last,
            is_rewritten=begin.is_rewritten,
        )

    def _is_current(self, path: str, status: os.stat_result, end: int) -> bool:
        """Whether the path still leads to the file that was read, with all of what was read."""
        try:
            now = os.lstat(self._directory / path.removeprefix(PREFIX))
        except OSError:
            return False
        return now.st_ino == status.st_ino and now.st_size >= end

    def _forget(self, path: str, patience_s: float | None) -> FileOutcome:
        """Removes a transcript that vanished after it was listed, unless it is back by now."""
        with self._database.writing(patience_s) as connection:
            if os.path.lexists(self._directory / path.removeprefix(PREFIX)):
                return FileOutcome(Change.LATER)
            remove_file(connection, "sessions", path)
        return FileOutcome(Change.GONE)

    def _switch(self, listing: TranscriptListing) -> None:
        with self._database.writing() as connection:
            if not self.enabled:
                state.disenrol(connection)
            elif listing.failure is None:
                state.enrol(connection, [found.path for found in listing.files])


def _has_grown(found: FoundTranscript, since: int) -> bool:
    return found.size > since


def _stamps(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
