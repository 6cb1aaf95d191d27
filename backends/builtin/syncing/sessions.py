"""Indexing transcripts, one stretch at a time, when they have grown enough: the plan, and its steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from backends.builtin.store.port import (
    START,
    Checkpoint,
    IndexedTranscript,
    OvertakenError,
    Store,
    TranscriptPiece,
    Version,
    View,
)
from backends.builtin.syncing.planning import Change, FileOutcome, ObsoleteFile
from backends.builtin.syncing.preparing import Preparer
from backends.files.safe_open import MomentarilyUnreadableError, RefusedFileError
from backends.interface import FileUnreadableError, SkippedFile
from backends.transcripts.source import (
    BEGINNING,
    PREFIX,
    SUFFIX,
    Entries,
    FoundTranscript,
    OpenTranscript,
    Position,
    TranscriptListing,
    TranscriptSource,
    is_claude,
    is_jsonl,
)
from config.paths import host_database
from config.settings import SessionSyncSettings, Settings

SILENCE_NS: Final = 10 * 60 * 1_000_000_000
"""After so long without a new line a conversation counts as over for now."""


def is_grown_enough(
    grown_bytes: int,
    grown_lines: Callable[[], int],
    silent_ns: int,
    thresholds: SessionSyncSettings,
) -> bool:
    """Returns whether so much growth, this long ago, is to be indexed.

    `deltaBytes` 0 means any growth, `deltaMessages` 0 that lines do not count. Lines (`grown_lines`) are
    only counted when the bytes do not decide.
    """
    if grown_bytes <= 0:
        return False
    if grown_bytes >= thresholds.delta_bytes or silent_ns >= SILENCE_NS:
        return True
    return 0 < thresholds.delta_messages <= grown_lines()


PART_BYTES: Final = 1024 * 1024
"""The bytes that one step takes in: memory stays bounded, and no step takes long."""

IsDue = Callable[[FoundTranscript, Position], bool]
"""Returns whether a transcript that grew beyond this place has reached its thresholds."""


class TranscriptPart(msgspec.Struct, frozen=True):
    """One step: take in the transcript up to `until`, from the place that the index has reached."""

    path: str
    until: int
    """The byte of the transcript at which the step ends."""
    size: int
    """Bytes that are expected to be read."""
    is_last: bool
    restart: bool = False
    """Take in everything again, also what seems unchanged."""

    @property
    def begin(self) -> int:
        """The byte at which the step before it is expected to have ended."""
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
    outdated: frozenset[str] = frozenset()
    """See `SyncPlan`."""

    @property
    def due(self) -> frozenset[str]:
        return frozenset(part.path for part in self.parts)


class _Need(msgspec.Struct, frozen=True, gc=False):
    begin: Position
    """The place at which the first step is expected to begin."""
    is_certain: bool
    """True if it is to be read whatever the thresholds say."""


def plan_sessions(
    listing: TranscriptListing,
    indexed: Mapping[str, IndexedTranscript],
    *,
    pipeline: Callable[[str], str],
    is_due: IsDue,
    force: bool = False,
    enabled: bool = True,
) -> SessionPlan:
    """Returns the plan. Without `enabled` transcripts are no source, and all that this viewpoint may remove goes."""
    parts: list[TranscriptPart] = []
    added, outdated, waiting = [], [], 0
    for found in sorted(listing.files, key=lambda found: (-found.mtime_ns, found.path)):
        known = indexed.get(found.path)
        need = _need(found, known, pipeline(found.path), force=force)
        if need is None or (not need.is_certain and not is_due(found, need.begin)):
            waiting += need is not None and found.size > need.begin.byte
            continue
        parts += _parts(found, need.begin.byte, restart=force)
        if known is None or not known.pipeline:
            added.append(found.path)
        elif known.stamps == found.stamps:
            outdated.append(found.path)
    on_disk = {found.path for found in listing.files}
    orphans_go = bool(listing.files) or not enabled  # a directory without any may not be mounted
    return SessionPlan(
        listing=listing,
        parts=tuple(parts),
        to_remove=tuple(
            ObsoleteFile(path, known.read_at_ns, "sessions")
            for path, known in indexed.items()
            if path not in on_disk
            and listing.covers(path)
            and (known.seen == "here" or (known.seen == "nowhere" and orphans_go))
        ),
        added=frozenset(added),
        waiting=waiting,
        unchanged=len(listing.files) - len({part.path for part in parts}),
        outdated=frozenset(outdated),
    )


def _need(
    found: FoundTranscript, known: IndexedTranscript | None, pipeline: str, *, force: bool
) -> _Need | None:
    """Returns None if the file is as it was. A file that changed other than by growing must be read at once."""
    if known is None:
        return _Need(BEGINNING, is_certain=force)
    if force or known.pipeline != pipeline:
        return _Need(BEGINNING, is_certain=True)
    if known.stamps == found.stamps:
        return None
    if found.inode != known.inode or found.size <= known.size:
        return _Need(BEGINNING, is_certain=True)
    return _Need(Position(known.end_byte, known.end_line), is_certain=False)


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


FILES: Final = "sessions"
"""The name under which the JSONL files are enrolled as a source."""
DATABASE: Final = "sessions of the host"
"""The name under which the host's database is enrolled as a source."""
CLAUDE: Final = "sessions of Claude Code"
"""The name under which the conversations of Claude Code are enrolled as a source."""
_SOURCES: Final = (FILES, DATABASE, CLAUDE)


def places_of(settings: Settings) -> dict[str, Path]:
    """Returns the place at which each source has its conversations."""
    places = {
        FILES: settings.sessions_dir,
        DATABASE: host_database(settings.state_dir, settings.agent_id),
    }
    if settings.claude_projects is not None:
        places[CLAUDE] = settings.claude_projects
    return places


class Begin(msgspec.Struct, frozen=True, gc=False):
    checkpoint: Checkpoint
    is_rewritten: bool = False
    """True if content that was taken in beyond it is no longer in the transcript."""
    is_checked: bool = False
    """True if everything before it was read again and compared."""


def find_begin(
    transcript: OpenTranscript,
    known: IndexedTranscript,
    taken: Sequence[Checkpoint],
    *,
    restart: bool,
) -> Begin:
    """Returns where to go on. `taken` are the checkpoints in the index, `START` first. Raises OSError."""
    found, last = transcript.found, taken[-1]
    still_there = found.size >= last.end_byte and transcript.tail(last.place) == last.tail
    only_grew = still_there and found.inode == known.inode and found.size > known.size
    if restart:
        return Begin(START, is_rewritten=not still_there)
    if only_grew:
        return Begin(last)
    good = _last_good(transcript, taken)
    return Begin(good, is_rewritten=good != last, is_checked=True)


def render(
    entries: Entries, turn_of: Callable[[bytes], str | None], give_way: Callable[[], None]
) -> tuple[str, tuple[int, ...]]:
    """Returns the turns of some entries, one per line of the text, and the number of each turn's entry.

    `give_way` is called before each turn: masking secrets in a stretch takes as long as indexing it.
    """
    turns = []
    for number, line in zip(entries.numbers, entries.lines, strict=True):
        give_way()
        if line is not None and (turn := turn_of(line)) is not None:
            turns.append((number, turn))
    return "".join(f"{turn}\n" for _, turn in turns), tuple(number for number, _ in turns)


def _last_good(transcript: OpenTranscript, taken: Sequence[Checkpoint]) -> Checkpoint:
    """Returns the last checkpoint up to which the transcript still has what was taken in."""
    good = taken[0]
    for before, after in pairwise(taken):
        if after.end_byte > transcript.found.size:
            break
        if transcript.digest(before.place, after.place) != after.digest:
            break
        good = after
    return good


class SessionIndexer:
    """Indexes the transcripts of one agent; if not `enabled`, it only removes what is left of them."""

    def __init__(
        self,
        store: Store,
        transcripts: TranscriptSource,
        preparer: Preparer,
        thresholds: SessionSyncSettings,
        *,
        enabled: bool,
    ) -> None:
        self.enabled = enabled
        self._store = store
        self._transcripts = transcripts
        self._preparer = preparer
        self._thresholds = thresholds
        self._nothing_left_at: Version | None = None
        """The version of the files at which nothing of a transcript was left to remove, if not `enabled`."""

    def listing(self) -> TranscriptListing:
        return self._transcripts.listing() if self.enabled else TranscriptListing()

    def is_gone(self, path: str) -> bool:
        """Returns whether it is certain that no transcript has this index path."""
        return self._transcripts.is_gone(path)

    def survey(self, *, eager: bool = False, force: bool = False) -> SessionPlan:
        """Returns what is to do. `eager`: whatever the thresholds say; `force`: everything again."""
        listing = self.listing()
        with self._store.view() as view:
            version = view.files_version()
            if version == self._nothing_left_at:
                return SessionPlan()
            enrolled = view.transcripts.enrolled(_SOURCES)
            if not self._unenrolled(enrolled, listing):
                plan = self.compare(view, listing, eager=eager, force=force)
                if not (self.enabled or plan.to_remove):
                    self._nothing_left_at = version
                return plan
        self._switch(enrolled, listing)
        with self._store.view() as view:
            return self.compare(view, listing, eager=eager, force=force)

    def compare(
        self, view: View, listing: TranscriptListing, *, eager: bool = False, force: bool = False
    ) -> SessionPlan:
        """Returns what is to do, as of this transaction."""
        indexed = view.transcripts.indexed()
        if not (indexed or listing.files):
            return SessionPlan(listing=listing)
        taken = {path: known.taken(path) for path, known in indexed.items() if known.pipeline}

        def is_due(found: FoundTranscript, since: Position) -> bool:
            # One that was a file could otherwise not be found for a while.
            was_a_file = found.path + SUFFIX in indexed
            return found.size > since.byte and (eager or was_a_file or self._is_due(found, since))

        return plan_sessions(
            replace(listing, files=self._transcripts.measured(listing.files, taken)),
            indexed,
            pipeline=self._pipeline,
            is_due=is_due,
            force=force,
            enabled=self.enabled,
        )

    def is_due(self, reference: str) -> bool:
        """Returns whether the transcript with this name from a client has reached its thresholds."""
        path = self._transcripts.path_of(reference) if self.enabled else None
        return path is not None and any(part.path == path for part in self.survey().parts)

    def _is_due(self, found: FoundTranscript, since: Position) -> bool:
        return is_grown_enough(
            found.size - since.byte,
            partial(self._transcripts.entries_beyond, found, since),
            time.time_ns() - found.mtime_ns,
            self._thresholds,
        )

    def _pipeline(self, path: str) -> str:
        return f"{self._preparer.pipeline}, {self._transcripts.rendering(path)}"

    def apply(self, part: TranscriptPart, patience_s: float | None) -> FileOutcome:
        """Takes in one stretch. Raises IndexUnavailableError, and OvertakenError; see `Indexer.apply`."""
        read_at_ns = time.time_ns()
        try:
            return self._take_in(part, read_at_ns, patience_s)
        except FileNotFoundError:
            return self._forget(part.path, patience_s)
        except RefusedFileError as error:
            with self._store.writer(patience_s) as writer:
                writer.files.remove("sessions", part.path)
            skipped = SkippedFile(path=part.path, reason=error.reason)
            return FileOutcome(Change.SKIPPED, skipped=skipped)
        except FileUnreadableError as error:
            may_pass = isinstance(error, MomentarilyUnreadableError)
            return FileOutcome.unreadable(part.path, str(error), may_pass=may_pass)

    def _take_in(
        self, part: TranscriptPart, read_at_ns: int, patience_s: float | None
    ) -> FileOutcome:
        with self._store.view() as view:
            known = view.transcripts.one(part.path)
            taken = view.transcripts.checkpoints(known.file_id) if known else [START]
        with self._transcripts.open(part.path, known.taken(part.path) if known else None) as opened:
            stamps = opened.found.stamps
            is_outdated = known is not None and known.pipeline != self._pipeline(part.path)
            restart = part.restart or is_outdated
            if known and not restart and known.stamps == stamps:
                return FileOutcome(Change.SAME)
            begin = Begin(START)
            if known is not None:
                begin = find_begin(opened, known, taken, restart=restart)
            if known is not None and known.seen == "elsewhere" and begin.is_rewritten:
                # What another host took in is kept: a copy that is new here may be an old one.
                with self._store.writer(patience_s) as writer:
                    writer.transcripts.touch(part.path, stamps, read_at_ns)
                return FileOutcome(Change.SAME)
            start = begin.checkpoint.place
            if start.byte < part.begin and not begin.is_checked:
                return FileOutcome(Change.LATER)  # the step before this one was left out
            entries = opened.read(start, min(part.until, start.byte + PART_BYTES))
            if not entries.lines and not part.is_last and not begin.is_checked:
                return FileOutcome(Change.SAME)
            ready = self._prepare(opened, part.path, begin, entries, read_at_ns)
            with self._store.writer(patience_s) as writer:
                if writer.transcripts.one(part.path) != known:
                    raise OvertakenError
                if not opened.is_current(entries.end):
                    return FileOutcome(Change.LATER)
                written = writer.transcripts.publish(ready)
        change = Change.WRITTEN if entries.lines or begin.is_rewritten else Change.SAME
        if entries.end.byte < part.until and not entries.is_last:
            change = Change.LATER  # more had to be read again than this step may take
        return FileOutcome(change, written, entries.end.byte - start.byte)

    def _prepare(
        self, opened: OpenTranscript, path: str, begin: Begin, entries: Entries, read_at_ns: int
    ) -> TranscriptPiece:
        start, end = begin.checkpoint, entries.end
        turn_of = partial(self._transcripts.render, path)
        text, numbers = render(entries, turn_of, self._preparer.give_way)
        name = path.removeprefix(PREFIX).removesuffix(SUFFIX)
        stamps = opened.found.stamps
        is_last = entries.is_last or end.byte >= stamps[0]
        return TranscriptPiece(
            path=path,
            # No transcript has such times, so one that is indexed in part never seems complete.
            stamps=stamps if is_last else (end.byte, 0, 0, stamps[3]),
            pipeline=self._pipeline(path),
            read_at_ns=read_at_ns,
            begin=start,
            end=Checkpoint(
                end.byte,
                end.line,
                start.end_turn + len(numbers),
                start.end_char + len(text),
                opened.tail(end),
                entries.digest,
            ),
            numbers=numbers,
            prepared=self._preparer.prepare(name, text),
            is_last=is_last,
            is_rewritten=begin.is_rewritten,
        )

    def _forget(self, path: str, patience_s: float | None) -> FileOutcome:
        """Removes a transcript that vanished after it was listed, unless it is back by now."""
        with self._store.writer(patience_s) as writer:
            if not self._transcripts.is_gone(path):
                return FileOutcome(Change.LATER)
            writer.files.remove("sessions", path)
        return FileOutcome(Change.GONE)

    def _unenrolled(self, enrolled: frozenset[str], listing: TranscriptListing) -> frozenset[str]:
        """Returns what was no source until now, or is none any more."""
        if not self.enabled:
            return enrolled
        there = set()
        if listing.failure is None:
            there.add(FILES)
        if listing.database is not None and listing.database.failure is None:
            there.add(DATABASE)
        if listing.claude is not None and listing.claude.failure is None:
            there.add(CLAUDE)
        given_up = {CLAUDE} & enrolled if listing.claude is None else set()
        return frozenset((there - enrolled) | given_up)

    def _switch(self, enrolled: frozenset[str], listing: TranscriptListing) -> None:
        with self._store.writer() as writer:
            if not self.enabled:
                writer.transcripts.disenrol(_SOURCES)
                return
            for source in self._unenrolled(enrolled, listing):
                if source in enrolled:
                    writer.transcripts.disenrol((source,))
                    continue
                paths = [one.path for one in listing.files]
                writer.transcripts.enrol(source, [p for p in paths if source_of(p) == source])


def source_of(path: str) -> str:
    """Returns the source of a conversation with this index path."""
    if is_claude(path):
        return CLAUDE
    return FILES if is_jsonl(path) else DATABASE


def skipped_transcripts(plan: SessionPlan) -> tuple[SkippedFile, ...]:
    """Returns what the listing had to leave out, with reasons."""
    failed = [SkippedFile(path=path, reason=why) for path, why, _ in plan.listing.failures]
    return (*plan.listing.skipped, *failed)
