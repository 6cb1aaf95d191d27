"""What every memory backend offers to the floor above, in types.

Answers carry the names of the wire, where fields that have their defaults are left out. Nothing here
assumes SQLite, a local path or a single writer, so that another store can stand behind the same interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from config.errors import ErrorKind
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
    """Path globs; a hit must match one of them when there are any."""
    exclude: tuple[str, ...] = ()
    after: date | None = None
    """First day (inclusive) of the note's own date."""
    before: date | None = None
    """The day after the last one (exclusive)."""
    tags: tuple[str, ...] = ()
    """Tags of the front matter: a note must have all of them, or tags below them."""
    explain: bool = False
    today: date | None = None
    """The day at the caller's place, by which `yesterday` is understood; None: this machine's."""
    vector_patience_s: float | None = None
    """How long to wait for the query's vector, whatever the provider may take; None: as configured."""


GAP: Final = "\n…\n"
"""Stands in a snippet and in no file: between stretches that do not follow one another."""
BREADCRUMB: Final = "§ "
"""Stands in a snippet and in no file: begins a line with the headings above what follows."""


class Stretch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Lines of one file, from 1, ends included."""

    start_line: int
    end_line: int


Confidence = Literal["likely", "maybe", "unlikely"]
"""Whether a passage answers: at least as often as not, at least one time in six, or seldom."""


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
    """At most 700 UTF-16 units. Where `stretches` are several, each stands in the file as it is, and a line
    `…` where something is left out.
    """
    source: Source
    confidence: Confidence | None = None
    """The score in a word; None for an engine whose scores are no probabilities."""
    citation: str | None = None
    """Where it stands, for people; the gateway adds it if citations are on."""
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
    """The path of headings that the best line stands below, outermost first. Where the snippet does not show them, it
    begins with a line `§ ` that does.
    """
    also_in: tuple[SameLine, ...] = ()
    """Where else the same line stands, in notes that are not shown for it again."""


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """The answer may miss recent changes: how many files, and why."""

    files: int
    reason: str


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """Something other than what was configured answered. The wire name of `origin` is `from`."""

    origin: str = msgspec.field(name="from")
    reason: str


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Backends say who answered, and how; the gateway alone says `citations`, `disabled` and `error`."""

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
    """Why the answer is weaker than asked (a dead provider, a lane that is missing)."""
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
    """`status` is `not_found` for a permitted path where no file is. Backends raise refusals, which the
    gateway turns into a status of `error`.
    """

    text: str
    path: str
    status: Literal["ok", "not_found", "error"]
    first_line: int = msgspec.field(name="from")
    line_count: int = msgspec.field(name="lines")
    truncated: bool = False
    next_line: int | None = msgspec.field(name="nextFrom", default=None)
    """Where to go on reading when `truncated`."""
    denied: bool = False
    disabled: bool = False
    error: str | None = None
    kind: ErrorKind | None = None
    """The kind of the error; `path_not_allowed` for every path that may not be read."""
    links: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The wiki links in `text` that lead to a note, by their names: its path."""


MANUAL_REASONS: Final = frozenset({"manual", "cli"})
"""The reasons that are given when a person asks for a sync."""


class SyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    reason: str = "manual"
    """Several reasons are joined by a comma and a space."""
    force: bool = False
    """Index every file again, even those that seem unchanged."""
    verify: bool = False
    """Also read and compare some files that seem unchanged, those first that were read longest ago."""

    @property
    def is_manual(self) -> bool:
        """A person asked: no change may be left to a later sync."""
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
    """What searches the stored vectors."""

    configured: str
    engine: str | None
    """What would answer now; None when nothing can."""
    unavailable: dict[str, str]
    """Why each engine before that one would not."""
    dimensions: int | None
    """None before the first vector."""
    bytes_per_chunk: float | None
    """In the database, of all stored vectors."""
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
    """One place where a refused text stands."""

    path: str
    start_line: int
    reason: str
    attempts: int


class BackfillState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far the embedding of stored texts is."""

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
    """How many texts it takes to make a job of them."""
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
    """How vectors are made and searched; fields that are unset do not exist under these settings."""

    enabled: bool
    requested: str
    """The provider, as configured."""
    reason: str
    """Why the provider in use is the one, or why there is none."""
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
    """Whether its layout is one that was tested."""
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
does, `follower` knows another one that does it, `idle`: nobody has any."""


class StoreDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the index is kept; fields that are unset belong to a shared store only."""

    driver: Literal["sqlite", "postgres"]
    schema_version: int
    role: StoreRole
    server: str | UnsetType = UNSET
    """Its kind and version."""
    read_only: bool | UnsetType = UNSET
    """Whether it is a standby, which answers and takes nothing."""
    lag_s: float | UnsetType | None = UNSET
    """How far a standby is behind; None for a server that writes."""
    leases: Mapping[str, str] | UnsetType = UNSET
    """Which host and process does which work at this moment."""


class StoreCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The findings of a check of the store, in sentences."""

    place: str
    schema_version: int | None = None
    """None where nothing was made yet."""
    facts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class ViewpointDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The viewpoints whose stamps of the files are kept in an index that several hosts share."""

    here: str
    others: tuple[str, ...]
    """The ones used last come first."""
    only_elsewhere: int
    """Notes and transcripts that only other hosts saw. They are searched like all."""


class Details(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parts of a backend. Those that a backend does not have are unset, and not written."""

    keyword: KeywordDetails | UnsetType = UNSET
    vector: VectorDetails | UnsetType = UNSET
    store: StoreDetails | UnsetType = UNSET
    journal: str | UnsetType = UNSET
    """How SQLite keeps its transactions: `wal`, or `delete` where other hosts may share the file system."""
    viewpoints: ViewpointDetails | UnsetType = UNSET
    """Unset where no other host shares the index."""
    sessions: SessionDetails | UnsetType = UNSET
    left_out: Mapping[str, int] | UnsetType = UNSET
    """Files that rules of the user leave out, by rule."""
    qmd: QmdDetails | UnsetType = UNSET
    fallback: Fallback | UnsetType = UNSET
    skipped: Mapping[str, int] | UnsetType = UNSET
    """How many files cannot be indexed, by reason."""


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
    """Why answers are weaker than the configuration asks for; empty when all is well."""
    details: Details = Details()


class DayCount(msgspec.Struct, frozen=True):
    """How many files have this date."""

    source: Source
    day: str | None
    """`2026-02-08`; where there are very many days, `2026-02` or `2026`. None: undated files."""
    files: int


class SizeCount(msgspec.Struct, frozen=True):
    """How many files are this long."""

    from_bytes: int
    """Files of this size up to ten times of it (exclusive); 0 also counts empty files."""
    files: int
    bytes: int
    """The size of all of them together."""


class LanguageCount(msgspec.Struct, frozen=True):
    """How many files have text that was stemmed in this language."""

    language: str
    files: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What the index holds, in counts: no file is named, however many there are."""

    days: tuple[DayCount, ...]
    """By day; undated files first."""
    sizes: tuple[SizeCount, ...]
    """How long the notes are, the shortest first."""
    languages: tuple[LanguageCount, ...]
    """The most frequent one first."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a memory that was just asked to do its work."""

    part: Literal["provider", "vectors", "qmd"]
    outcome: Literal["ok", "failed", "skipped"]
    """`skipped`: it has nothing to do under these settings, or not yet."""
    detail: str
    """What answered, or why nothing did, or why it was not tried."""
    remedy: str | None = None
    ms: float = 0


ProgressCallback = Callable[[SyncProgress], None]


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One path, or all whose date is so long ago."""

    path: str | None = None
    older_than_ms: int | None = None
    remove: bool = False
    """Otherwise it is only reported what is kept."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the index holds of one note or conversation."""

    path: str
    source: Source
    chunks: int
    is_there: bool
    """The file is still there, so it stays indexed."""


class ForgetReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    kept: tuple[Kept, ...] = ()
    """What was found before anything was removed."""
    removed: int = 0
    """Notes and conversations."""
    searched_for: int = 0
    """Lines of what was removed that stand in nothing else, which were looked for afterwards."""
    files: tuple[str, ...] = ()
    """Where they were looked for: all files of the index."""
    found: tuple[str, ...] = ()
    """Those of the files in which one was found."""
    remarks: tuple[str, ...] = ()


class MemoryBackend(Protocol):
    """A memory that can be searched, read and brought up to date.

    All methods may be cancelled; none blocks the event loop. Errors: `IndexUnavailableError`,
    `PathNotAllowedError`, `FileUnreadableError` (all of `backends.backend_errors`).
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
        ...

    def retire(self) -> None:
        """Another backend of the same index answers from now on: this one embeds nothing any more, lest both pay for
        the same texts. What it was asked before is answered.
        """
        ...

    async def transcript_grew(self, reference: str) -> bool:
        """Whether a sync is due for this transcript (session id, file name or path) by now.

        False for what is no transcript of this agent, and while transcripts are no source.
        """
        ...

    async def forget(self, request: ForgetRequest) -> ForgetReport:
        """Removes what is kept of files that are gone, from everything that is ours, and looks for it afterwards."""
        ...

    async def status(self) -> BackendStatus: ...

    async def overview(self) -> Overview:
        """Counts of what the index holds at present; the disk is not looked at."""
        ...

    async def weaknesses(self) -> tuple[str, ...]:
        """Why answers are weaker than the configuration asks for, as far as that is known.

        For probes: cheap, without network and without listing the disk. Raises as the others when
        the index cannot answer.
        """
        ...

    async def try_out(self, timeout_s: float) -> tuple[Trial, ...]:
        """Asks every part that answers take part in, each within `timeout_s`; network included.

        What is wrong with a part is reported, not raised.
        """
        ...
