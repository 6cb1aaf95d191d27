"""The interface of every memory backend to the floor above, and the errors of this floor.

Answers have the names of the wire, where fields with their default values are left out. Nothing here
assumes SQLite, a local path or a single writer, so that another store can have the same interface.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from config.errors import ErrorKind, MemoryGatewayError
from config.runtime.files import Denial, denial_of
from config.settings import CitationsMode, Source
from providers.provider_interface import EmbeddingsState, ProviderCandidate

Outcome = Literal["ok", "empty", "denied", "disabled", "partial"]
Mode = Literal["hybrid", "keyword", "vector", "rerank"]

MAX_QUERY_CHARS: Final = 20_000
"""The rest of a query is ignored: a pasted log file must not cost seconds. The caller cuts it, and says so."""


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One search. Limits are already validated: `max_results >= 1`, `0 <= min_score <= 1`."""

    query: str
    max_results: int | None = None
    """None: the configured default."""
    min_score: float | None = None
    sources: tuple[Source, ...] | None = None
    include: tuple[str, ...] = ()
    """Path globs; if there are any, a hit must match one of them."""
    exclude: tuple[str, ...] = ()
    after: date | None = None
    """First day (inclusive) of the note's own date."""
    before: date | None = None
    """The day after the last one (exclusive)."""
    tags: tuple[str, ...] = ()
    """Tags of the front matter: a note must have all of them, or tags below them."""
    explain: bool = False
    today: date | None = None
    """The date at the caller's place, by which `yesterday` is understood; None: that of this machine."""
    vector_patience_s: float | None = None
    """The longest wait for the query's vector, whatever the provider may take; None: as configured."""


GAP: Final = "\n…\n"
"""Separates, in snippets only, stretches of a file that do not follow one another."""
BREADCRUMB: Final = "§ "
"""Begins, in snippets only, a line with the headings above what follows."""


class Stretch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Lines of one file, from 1, ends included."""

    start_line: int
    end_line: int


Confidence = Literal["likely", "maybe", "unlikely"]
"""The chance that a passage answers: at least one in two, at least one in six, or less."""


class SameLine(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    line: int


class Hit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One passage. Lines count from 1, ends included, and are those of the snippet in the file."""

    path: str
    start_line: int
    end_line: int
    score: float
    """0..1."""
    snippet: str
    """At most 700 UTF-16 units. With several `stretches`, each is as in the file, and a line `…` marks what is
    left out.
    """
    source: Source
    confidence: Confidence | None = None
    """The score in a word; None for an engine whose scores are no probabilities."""
    citation: str | None = None
    """The place of the passage, for people; the gateway adds it if citations are on."""
    vector_score: float | None = None
    text_score: float | None = None
    explain: Mapping[str, Any] | None = None
    events: tuple[int, int] | None = None
    """The `seq` of the first and the last turn shown, if the hit is a conversation in the host's database.
    Its lines are then those of the rendered conversation, one for each turn."""
    title: str | None = None
    """The title in the note's front matter, which also has the `tags`."""
    tags: tuple[str, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    """The lines of each part of a snippet that leaves some out; empty where it leaves none out."""
    headings: tuple[str, ...] = ()
    """The headings that the best line is under, outermost first. If the snippet does not show them otherwise, it
    begins with a line `§ ` that does.
    """
    also_in: tuple[SameLine, ...] = ()
    """Other places with the same line, in notes that are not shown again for it."""


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """The answer may miss recent changes: how many files, and why."""

    files: int
    reason: str


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """Something other than what was configured answered. The wire name of `origin` is `from`."""

    origin: str = msgspec.field(name="from")
    reason: str


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Backends set who answered, and how; only the gateway sets `citations`, `disabled` and `error`."""

    hits: tuple[Hit, ...] = msgspec.field(name="results")
    outcome: Outcome
    provider: str | None = None
    model: str | None = None
    fallback: Fallback | None = None
    citations: CitationsMode | None = None
    backend: Literal["builtin", "qmd"] | None = None
    mode: Mode | None = None
    stale: Stale | None = None
    warning: str | None = None
    """The reason why the answer is weaker than asked (a dead provider, a lane that is missing)."""
    timings_ms: dict[str, float] = msgspec.field(name="timings", default_factory=dict)
    disabled: bool = False
    error: str | None = None
    kind: ErrorKind | None = None
    """The kind of the error."""
    undated: int = 0
    """Files that `after` or `before` left out because they have no date."""


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Part of one file. `first_line` counts from 1; None for both means the whole file."""

    path: str
    first_line: int | None = None
    line_count: int | None = None


class ReadAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`status` is `not_found` for a permitted path without a file. Backends raise refusals, which the
    gateway turns into a status of `error`.
    """

    text: str
    path: str
    status: Literal["ok", "not_found", "error"]
    first_line: int = msgspec.field(name="from")
    line_count: int = msgspec.field(name="lines")
    truncated: bool = False
    next_line: int | None = msgspec.field(name="nextFrom", default=None)
    """The line at which to go on reading if `truncated`."""
    denied: bool = False
    disabled: bool = False
    error: str | None = None
    kind: ErrorKind | None = None
    """The kind of the error; `path_not_allowed` for every path that may not be read."""
    links: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The paths of the notes that wiki links in `text` lead to, by the names of the links."""


MANUAL_REASONS: Final = frozenset({"manual", "cli"})
"""The reasons that are given when a person asks for a sync."""


class SyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    reason: str = "manual"
    """Several reasons are joined by a comma and a space."""
    force: bool = False
    """Index every file again, even those that seem unchanged."""
    verify: bool = False
    """Also read and compare some files that seem unchanged, those read longest ago first."""

    @property
    def is_manual(self) -> bool:
        """True if a person asked: no change may be left to a later sync."""
        return self.force or not MANUAL_REASONS.isdisjoint(self.reason.split(", "))


class SyncProgress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    done: int
    total: int
    path: str | None = None
    bytes_done: int = 0
    bytes_total: int = 0


class SkippedFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    reason: str


class SyncReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    reason: str
    scanned: int
    """Files, without those that were skipped."""
    added: int
    changed: int
    removed: int
    unchanged: int
    skipped: tuple[SkippedFile, ...]
    chunks_written: int
    bytes_read: int
    duration_ms: float
    complete: bool
    """False when a deadline or cancellation ended the sync before every change was indexed, or, without an error,
    when a file was being written."""
    error: str | None = None


class SourceCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    source: Source
    on_disk: int
    indexed: int
    pending: int
    skipped: int
    chunks: int


class KeywordDetails(msgspec.Struct, frozen=True):
    engine: str
    available: bool
    languages: tuple[str, ...]
    """The languages that were recognised in the notes."""


class VectorStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The engine that searches the stored vectors, and their size."""

    configured: str
    engine: str | None
    """The engine that would answer now; None if none can."""
    unavailable: dict[str, str]
    """The reason why each engine before that one would not."""
    dimensions: int | None
    """None before the first vector."""
    bytes_per_chunk: float | None
    """Bytes in the database, of all stored vectors."""
    resident_vectors: int
    resident_bytes: int


class Coverage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Counts of different texts."""

    total: int
    embedded: int
    failed: int
    dimensions: int | None
    stored: int
    """Vectors in the database, also those that no stored text uses."""


class FailedText(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One place of a text that the provider refused."""

    path: str
    start_line: int
    reason: str
    attempts: int


class BackfillState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The progress of embedding the stored texts."""

    running: bool
    last_error: str | None
    coverage: Coverage
    failed_texts: tuple[FailedText, ...]
    """Some of those that the provider refused."""


class JobReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One batch job. `state` is ours, `remote_state` the vendor's; ages and waits are in seconds."""

    id: int
    state: str
    remote_state: str | None
    outcome: str | None
    items: int
    done: int
    stored: int
    refused: int
    age_s: int
    next_poll_s: float | None
    reason: str | None


class BatchReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`reason`: why no jobs are made at present, or why the last one failed."""

    enabled: bool
    reason: str | None
    threshold: int
    """The number of texts without a vector from which on they go into jobs."""
    failures: int = 0
    off_for_s: int | None = None
    capacity: int | None = None
    """Texts that the vendor takes at once, as learned from its refusals."""
    waiting: int = 0
    """Texts that wait for a job."""
    jobs: tuple[JobReport, ...] = ()
    """The newest first, with some that are closed."""


class EmbeddingModel(msgspec.Struct, frozen=True):
    provider: str
    model: str


class VectorDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Embedding and vector search; fields that are unset do not exist under these settings."""

    enabled: bool
    requested: str
    """The provider, as configured."""
    reason: str
    """The reason why this provider is in use, or why none is."""
    candidates: tuple[ProviderCandidate, ...] = ()
    provider: EmbeddingsState | UnsetType = UNSET
    search: VectorStatus | UnsetType | None = UNSET
    answered_by: EmbeddingModel | UnsetType = UNSET
    """The former model, as long as its vectors cover more notes."""
    backfill: BackfillState | UnsetType = UNSET
    batch: BatchReport | UnsetType = UNSET


class DatabaseDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The host's database of conversations."""

    path: str
    version: int | None
    known: bool
    """True if its layout is one that was tested."""
    left_out: Mapping[str, int]
    failure: str | None


class SessionDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    enabled: bool
    below_thresholds: int | UnsetType = UNSET
    """Transcripts that have grown, but not enough to be read again."""
    database: DatabaseDetails | UnsetType | None = UNSET
    """None while the host has none."""


class QmdServer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    warm: bool
    pid: int | None
    port: int | None
    starts: int
    memory_bytes: int | None
    last_error: str | None


class QmdDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields that are unset are known only of a QMD that is `available`."""

    available: bool
    command: str
    home: str
    search_mode: str
    """The configured one."""
    version: str | UnsetType = UNSET
    runs: tuple[str, ...] | UnsetType = UNSET
    """The command that is run, as a person would type it."""
    effective_search_mode: str | UnsetType = UNSET
    missing_models: tuple[str, ...] | UnsetType = UNSET
    collections: tuple[str, ...] | UnsetType = UNSET
    running: str | UnsetType | None = UNSET
    last_update_seconds_ago: float | UnsetType | None = UNSET
    last_embed_seconds_ago: float | UnsetType | None = UNSET
    last_error: str | UnsetType | None = UNSET
    next_try_in_seconds: float | UnsetType = UNSET
    server: QmdServer | UnsetType = UNSET


StoreRole = Literal["owner", "leader", "follower", "idle"]
"""`owner`: of a file that no other gateway writes. Of a shared store: `leader` does the work that one gateway at a time
does, `follower` knows another one that does it, `idle` knows none that does."""


class StoreDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The store of the index; fields that are unset belong to a shared store only."""

    driver: Literal["sqlite", "postgres"]
    schema_version: int
    role: StoreRole
    server: str | UnsetType = UNSET
    """Its kind and version."""
    read_only: bool | UnsetType = UNSET
    """True if it is a standby, which answers and cannot be written."""
    lag_s: float | UnsetType | None = UNSET
    """The seconds that a standby is behind; None for a server that writes."""
    leases: Mapping[str, str] | UnsetType = UNSET
    """The host and process that do each kind of work at this moment."""


class StoreCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The findings of a check of the store, in sentences."""

    place: str
    schema_version: int | None = None
    """None if there is no index yet."""
    facts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class ViewpointDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The viewpoints whose stamps of the files are kept in an index that several hosts share."""

    here: str
    others: tuple[str, ...]
    """The ones used last come first."""
    only_elsewhere: int
    """Notes and transcripts that only other hosts saw. They are searched like all others."""


class Details(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parts of a backend. Those that a backend does not have are unset, and not written."""

    keyword: KeywordDetails | UnsetType = UNSET
    vector: VectorDetails | UnsetType = UNSET
    store: StoreDetails | UnsetType = UNSET
    journal: str | UnsetType = UNSET
    """The journal mode of SQLite: `wal`, or `delete` if other hosts may share the file system."""
    viewpoints: ViewpointDetails | UnsetType = UNSET
    """Unset if no other host shares the index."""
    sessions: SessionDetails | UnsetType = UNSET
    left_out: Mapping[str, int] | UnsetType = UNSET
    """Files that rules of the user leave out, by rule."""
    qmd: QmdDetails | UnsetType = UNSET
    fallback: Fallback | UnsetType = UNSET
    skipped: Mapping[str, int] | UnsetType = UNSET
    """The number of files that cannot be indexed, by reason."""


class BackendStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot: every count in it was taken from the same state of disk and index."""

    backend: Literal["builtin", "qmd"]
    provider: str | None
    model: str | None
    workspace: str
    database_path: str
    database_bytes: int
    sources: tuple[SourceCount, ...]
    skipped: tuple[SkippedFile, ...]
    dirty: bool
    syncing: SyncProgress | None
    recent_syncs: tuple[SyncReport, ...]
    issues: tuple[str, ...]
    """Warnings for a person to read."""
    weaknesses: tuple[str, ...] = ()
    """The reasons why answers are weaker than the configuration asks for; empty if all is well."""
    details: Details = Details()


class DayCount(msgspec.Struct, frozen=True):
    """The number of files with this date."""

    source: Source
    day: str | None
    """`2026-02-08`; where there are very many days, `2026-02` or `2026`. None: undated files."""
    files: int


class SizeCount(msgspec.Struct, frozen=True):
    """The number of files of about this size."""

    from_bytes: int
    """Files of this size up to ten times of it (exclusive); 0 also counts empty files."""
    files: int
    bytes: int
    """The size of all of them together."""


class LanguageCount(msgspec.Struct, frozen=True):
    """The number of files with text that was stemmed in this language."""

    language: str
    files: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what the index contains; no file is named, however many there are."""

    days: tuple[DayCount, ...]
    """In the order of days; undated files first."""
    sizes: tuple[SizeCount, ...]
    """The sizes of notes, the smallest first."""
    languages: tuple[LanguageCount, ...]
    """The most frequent one first."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a memory that was just asked to do its work."""

    part: Literal["provider", "vectors", "qmd"]
    outcome: Literal["ok", "failed", "skipped"]
    """`skipped`: it has nothing to do under these settings, or not yet."""
    detail: str
    """The part that answered, or the reason why none did or why it was not tried."""
    remedy: str | None = None
    ms: float = 0


ProgressCallback = Callable[[SyncProgress], None]


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One path, or all notes and conversations whose date is this long ago."""

    path: str | None = None
    older_than_ms: int | None = None
    remove: bool = False
    """Remove what is kept, and not only report it."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One note or conversation that is in the index."""

    path: str
    source: Source
    chunks: int
    is_there: bool
    """True if the file is still there, so that it stays indexed."""


class ForgetReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    kept: tuple[Kept, ...] = ()
    """The notes and conversations that were found before anything was removed."""
    removed: int = 0
    """Notes and conversations."""
    searched_for: int = 0
    """The number of lines that only the removed files had; they were looked for afterwards."""
    files: tuple[str, ...] = ()
    """The files in which they were looked for: all files of the index."""
    found: tuple[str, ...] = ()
    """Those of the files in which one was found."""
    remarks: tuple[str, ...] = ()


class MemoryBackend(Protocol):
    """A memory that can be searched, read and brought up to date.

    All methods may be cancelled; none blocks the event loop. Errors: `IndexUnavailableError`,
    `PathNotAllowedError`, `FileUnreadableError` (all of `backends.interface`).
    """

    async def search(self, request: SearchRequest) -> SearchAnswer: ...

    async def read(self, request: ReadRequest) -> ReadAnswer: ...

    async def sync(
        self, request: SyncRequest, *, progress: ProgressCallback | None = None
    ) -> SyncReport: ...

    async def embed(self, *, progress: ProgressCallback | None = None) -> BackfillState | None:
        """Waits until every stored text has its vector, or until the provider fails; returns how far it is.

        None where no texts get vectors: without a provider, or when others do it.
        """

    def retire(self) -> None:
        """Stops embedding, since another backend of the same index answers from now on: otherwise both would pay for
        the same texts. Earlier requests are still answered.
        """

    async def transcript_grew(self, reference: str) -> bool:
        """Returns whether a sync is due by now for this transcript (session id, file name or path).

        False if it is no transcript of this agent, and while transcripts are no source.
        """

    async def forget(self, request: ForgetRequest) -> ForgetReport:
        """Removes what all our files still contain of files that are gone, and looks for it afterwards."""

    async def status(self) -> BackendStatus: ...

    async def overview(self) -> Overview:
        """Returns counts of what the index contains at present; the disk is not looked at."""

    async def weaknesses(self) -> tuple[str, ...]:
        """Returns why answers are weaker than the configuration asks for, as far as that is known.

        For probes: cheap, without network and without listing the disk. Raises what the others raise when
        the index cannot answer.
        """

    async def try_out(self, timeout_s: float) -> tuple[Trial, ...]:
        """Asks every part that contributes to answers, each within `timeout_s`; network included.

        A failure of a part is reported, not raised.
        """


# --- Errors ---------------------------------------------------------------------------------------


class IndexUnavailableError(MemoryGatewayError):
    """The index cannot be opened, read or written."""

    kind = ErrorKind.INDEX_UNAVAILABLE


DISK_IS_FULL: Final = "The disk is full: free some space."
"""The remedy for a full disk. Clients of a gateway recognise the cause by this text."""


class IndexFullError(IndexUnavailableError):
    """There is no space left for the index."""


def index_full(path: Path, error: BaseException) -> IndexFullError:
    return IndexFullError(
        f"The index {path} cannot be used: {getattr(error, 'strerror', None) or error}.",
        remedy=DISK_IS_FULL,
    )


def index_denied(path: Path, error: OSError, what: str = "used") -> IndexUnavailableError:
    """Returns the error to raise for `error`, which occurred at an index at this path. Blocks."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return index_full(path, error)
    denial = write_denial(path)
    cause = error.strerror or str(error)
    remedy = f"See the permissions and the free space of its directory, or {ANOTHER_PLACE}"
    if isinstance(error, PermissionError) and denial is not None:
        cause = f"{cause[:1].lower()}{cause[1:]}, {denial}"
        remedy = f"{ANOTHER_PLACE[:1].upper()}{ANOTHER_PLACE[1:]} Or give this user access: {denial.remedy}."
    return IndexUnavailableError(f"The index {path} cannot be {what}: {cause}.", remedy=remedy)


def write_denial(index: Path) -> Denial | None:
    """Returns why this user cannot write an index at this path: the denial of the index, of a file that SQLite keeps
    beside it, or of the directory. SQLite gives a file beside an index the mode of the index.
    """
    beside = (index.with_name(f"{index.name}{ending}") for ending in ("-wal", "-shm", "-journal"))
    denials = (denial_of(one, os.R_OK | os.W_OK) for one in (index, *beside))
    return next(filter(None, denials), None) or denial_of(index.parent, os.W_OK)


MAY_HANG: Final = "See whether a network mount hangs, then try it again."
ANOTHER_PLACE: Final = "name another place: --state-dir, or store.path."


class IndexMisconfiguredError(IndexUnavailableError):
    """The settings do not say where the index is: nothing but other settings helps."""

    kind = ErrorKind.CONFIG_INVALID


class PathNotAllowedError(MemoryGatewayError):
    """The path is outside what this agent may read, or is a link, or is not Markdown.

    One message for every cause: it must not reveal what exists outside.
    """

    kind = ErrorKind.PATH_NOT_ALLOWED

    def __init__(self, path: str, *, of_notes: bool = False) -> None:
        """`of_notes`: the memory is a folder of notes."""
        allowed = (
            "Allowed are MEMORY.md, memory.md, USER.md, memory/**/*.md and what extraPaths names"
        )
        if of_notes:
            allowed = "Allowed is what is indexed of the folder of notes"
        super().__init__(
            f"Reading {path!r} is not allowed.",
            remedy=f"{allowed}; links are never followed.",
        )


class WritingRefusedError(PathNotAllowedError):
    """A note that was to be written is a link, or no regular file.

    The gateway chose its path, so the cause reveals nothing.
    """

    def __init__(self, path: str, cause: str) -> None:
        MemoryGatewayError.__init__(
            self,
            f"{path!r} cannot be written: {cause}.",
            remedy="Put a file of its own there, then try again.",
        )


class FileUnreadableError(MemoryGatewayError):
    """A permitted file exists and cannot be read."""

    kind = ErrorKind.FILE_UNREADABLE


def out_of_reach(path: str, reason: str) -> FileUnreadableError:
    """Returns the error for a file that was not found because its whole place is unavailable: it may still exist."""
    return FileUnreadableError(
        f"{path!r} cannot be read: {reason}.",
        remedy="Check that its disk is mounted and that its directory is where it should be.",
    )


class FileUnwritableError(MemoryGatewayError):
    """A file cannot be written; its content is unchanged."""

    kind = ErrorKind.FILE_UNWRITABLE


def unwritable(file: Path, error: OSError) -> FileUnwritableError:
    """Returns the error for a file that a person named."""
    remedy = "Name a file in a directory that exists and that you may write to."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = DISK_IS_FULL
    return FileUnwritableError(f"{file} cannot be written: {error.strerror}.", remedy=remedy)
