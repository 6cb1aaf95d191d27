"""What every memory backend offers to the floor above, in types.

Owns the request and answer records and the `MemoryBackend` protocol. Answers carry the names of the wire,
where fields that have their defaults are left out. Nothing here assumes SQLite, a local path or a single
writer, so that another store can stand behind the same interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final, Literal, Protocol

import msgspec

from config.errors import ErrorKind
from config.settings import CitationsMode, Source

Outcome = Literal["ok", "empty", "denied", "disabled", "partial"]
Mode = Literal["hybrid", "keyword", "vector", "rerank"]


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
    """First day that is too late (exclusive)."""
    tags: tuple[str, ...] = ()
    """Of the front matter: a note must have all of them, or ones below them."""
    explain: bool = False


class Hit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One passage. Lines count from 1, ends included, and are those of the snippet in the file."""

    path: str
    start_line: int
    end_line: int
    score: float
    """0..1."""
    snippet: str
    source: Source
    citation: str | None = None
    """Where it stands, for people; the gateway adds it where it is due."""
    vector_score: float | None = None
    text_score: float | None = None
    explain: Mapping[str, Any] | None = None
    events: tuple[int, int] | None = None
    """Of a conversation in the host's database: the `seq` of the first and the last turn shown. The
    lines are then those of the rendered conversation, one a turn."""
    title: str | None = None
    """Of the note's front matter, as `tags`."""
    tags: tuple[str, ...] = ()


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """The answer may miss recent changes: how many files, and why."""

    files: int
    reason: str


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """Something else than what was configured answered. Wire name of `origin` is `from`."""

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
    """Of the error; `path_not_allowed` for every refusal."""
    links: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The wiki links in `text` that lead to a note, by their names: its path."""


BY_HAND: Final = frozenset({"manual", "cli"})
"""Reasons of syncs that a person asked for."""


class SyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    reason: str = "manual"
    """Several are joined by a comma and a space."""
    force: bool = False
    """Index every file again, also those that seem unchanged."""
    verify: bool = False
    """Also read some files that seem unchanged, those that were read longest ago, and compare."""

    @property
    def is_by_hand(self) -> bool:
        """A person asked: nothing that changed may be left to a later sync."""
        return self.force or not BY_HAND.isdisjoint(self.reason.split(", "))


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
    added: int
    changed: int
    removed: int
    unchanged: int
    skipped: tuple[SkippedFile, ...]
    chunks_written: int
    bytes_read: int
    duration_ms: float
    complete: bool
    """False when a deadline or cancellation ended the sync before every change was indexed."""
    error: str | None = None


class SourceCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    source: Source
    on_disk: int
    indexed: int
    pending: int
    skipped: int
    chunks: int


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
    """What a person should know."""
    weaknesses: tuple[str, ...] = ()
    """Why answers are weaker than the configuration asks for; empty when all is well."""
    details: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Backend-specific sections (keyword engine, vector engine, QMD), JSON-ready."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a memory that was just asked to do its work."""

    part: Literal["provider", "vectors", "qmd"]
    outcome: Literal["ok", "failed", "skipped"]
    """`skipped`: it has nothing to do under these settings, or not yet."""
    detail: str
    """What answered, why not, or why it was not tried."""
    remedy: str | None = None
    ms: float = 0


ProgressCallback = Callable[[SyncProgress], None]


class MemoryBackend(Protocol):
    """A memory that can be searched, read and brought up to date.

    All methods may be cancelled; none blocks the event loop. Errors: `IndexUnavailableError`,
    `PathNotAllowedError`, `FileUnreadableError` (all of `backends.errors`).
    """

    async def search(self, request: SearchRequest) -> SearchAnswer: ...

    async def read(self, request: ReadRequest) -> ReadAnswer: ...

    async def sync(
        self, request: SyncRequest, *, progress: ProgressCallback | None = None
    ) -> SyncReport: ...

    async def transcript_grew(self, reference: str) -> bool:
        """Whether a sync is due for this transcript (session id, file name or path) by now.

        False for what is no transcript of this agent, and while transcripts are no source.
        """
        ...

    async def status(self) -> BackendStatus: ...

    async def weaknesses(self) -> tuple[str, ...]:
        """Why answers are weaker than the configuration asks for, as far as that is known.

        For probes: cheap, without network and without listing the disk. Raises as the others when
        the index cannot answer.
        """
        ...

    async def try_out(self, timeout_s: float) -> tuple[Trial, ...]:
        """Asks every part that answers take part in, each within `timeout_s`; network included.

        What is wrong with a part is told, not raised.
        """
        ...
