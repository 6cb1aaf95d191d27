"""`status`, `health` and `metrics`: one snapshot of an agent's memory, for people, for probes and for monitoring."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec

from backends.interface import (
    BackendStatus,
    Details,
    Overview,
    SkippedFile,
    SourceCount,
    StoreDetails,
    SyncProgress,
    SyncReport,
    Trial,
)
from config.errors import ConfigInvalidError, MemoryGatewayError
from config.host_keys import Switch, switches
from config.settings import Settings, StartedAs
from gateway.metrics import Activity, Counted, Family, Metrics, Sample, single
from gateway.rpc.registry import Params
from gateway.version import VERSION
from gateway.watching import WatchState
from providers.provider_interface import EmbeddingsState

HealthState = Literal["ok", "degraded", "failing"]


class Health(msgspec.Struct, frozen=True):
    """`ok`: everything works; `degraded`: it answers, but weaker; `failing`: it cannot answer."""

    status: HealthState
    reasons: tuple[str, ...] = ()
    trials: tuple[Trial, ...] | msgspec.UnsetType = msgspec.UNSET
    """The outcome of each part that a deep look tried."""


class HealthParams(Params, frozen=True):
    deep: bool = False
    """Also ask provider, vector engine and QMD to do their work; this takes seconds, and network."""


def judge_health(
    weaknesses: Sequence[str] = (),
    *,
    disabled: str | None = None,
    failure: str | None = None,
    sync_error: str | None = None,
    config_error: str | None = None,
) -> Health:
    """Returns the health; a memory that is switched off on purpose is healthy."""
    if failure is not None:
        return Health("failing", (failure,))
    reasons = []
    if config_error is not None:
        reasons.append(f"The configuration in force is an older one: {config_error}")
    if sync_error is not None:
        reasons.append(f"The last background sync failed: {sync_error}")
    reasons += weaknesses
    return Health("degraded" if reasons else "ok", (*reasons, *([disabled] if disabled else ())))


def judge_trials(health: Health, trials: Sequence[Trial]) -> Health:
    """Returns the health with the outcome of the trials: a part that failed degrades it."""
    reasons = (*health.reasons, *_failures(trials, health.reasons))
    degraded = health.status == "ok" and any(one.outcome == "failed" for one in trials)
    return Health("degraded" if degraded else health.status, reasons, tuple(trials))


def _failures(trials: Sequence[Trial], known: Sequence[str]) -> Iterator[str]:
    """Yields one sentence for each failure that no reason mentions already."""
    for one in trials:
        if one.outcome == "failed" and not any(one.detail in reason for reason in known):
            remedy = f" {one.remedy}" if one.remedy else ""
            yield f"Tried {one.part}: {one.detail}{remedy}"


_SHOWN_SKIPPED = 50


class StatusResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    agent_id: str
    version: str
    pid: int
    enabled: bool
    workspace: str
    notes: bool = False
    """True if a folder of notes is the whole memory; it is the workspace then."""
    claude_code: bool = False
    """True if what Claude Code remembers is searched, too."""
    config_path: str | None
    """The file in force; where there is none, the invalid one."""
    disabled: str | None = None
    """The reason why memory is off, when it is."""
    started_as: StartedAs = "sidecar"
    switches: tuple[Switch, ...] = ()
    """Keys that ask for memory to be off, and whether they are obeyed."""
    backend: str | None = None
    provider: str | None = None
    model: str | None = None
    requested_provider: str | None = None
    citations: str | None = None
    files: int = 0
    chunks: int = 0
    dirty: bool = False
    sources: tuple[SourceCount, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    syncing: SyncProgress | None = None
    recent_syncs: tuple[SyncReport, ...] = ()
    last_sync_error: str | None = None
    config_error: str | None = None
    """The reason why the newest configuration is not the one in force."""
    watcher: WatchState | None = None
    """The way in which changes are noticed while nobody asks."""
    database_path: str | None = None
    database_bytes: int = 0
    issues: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """About the configuration."""
    activity: Activity | None = None
    """The work of the answering process since its start."""
    silent_hooks: Mapping[str, int] = {}
    """The hooks of this user that said nothing, by reason: `slow`, `away` (no gateway), `broken`. A command adds it."""
    details: Details = Details()
    health: Health | msgspec.UnsetType = msgspec.UNSET
    """Set by a deep look, for which every part was asked to do its work."""


def write_status(
    settings: Settings,
    backend: BackendStatus | None,
    *,
    disabled: str | None = None,
    sync_error: str | None = None,
    config_error: MemoryGatewayError | None = None,
    activity: Activity | None = None,
    watcher: WatchState | None = None,
) -> StatusResult:
    off = _status_without_index(settings, disabled, config_error, activity)
    if backend is None:
        return off
    return msgspec.structs.replace(
        off,
        enabled=True,
        backend=backend.backend,
        provider=backend.provider,
        model=backend.model,
        requested_provider=settings.search.provider,
        citations=settings.citations,
        files=sum(one.indexed for one in backend.sources),
        chunks=sum(one.chunks for one in backend.sources),
        dirty=backend.dirty,
        sources=backend.sources,
        skipped=backend.skipped[:_SHOWN_SKIPPED],
        syncing=backend.syncing,
        recent_syncs=backend.recent_syncs,
        last_sync_error=sync_error,
        watcher=watcher,
        database_path=backend.database_path,
        database_bytes=backend.database_bytes,
        issues=backend.issues,
        details=backend.details,
    )


def _status_without_index(
    settings: Settings,
    disabled: str | None,
    config_error: MemoryGatewayError | None,
    activity: Activity | None,
) -> StatusResult:
    return StatusResult(
        agent_id=settings.agent_id,
        version=VERSION,
        pid=os.getpid(),
        enabled=False,
        workspace=str(settings.workspace),
        notes=settings.notes_folder is not None,
        claude_code=settings.search.claude_code,
        config_path=_config_path(settings, config_error),
        disabled=disabled,
        started_as=settings.started_as,
        switches=switches(settings),
        activity=activity,
        config_error=str(config_error) if config_error else None,
        warnings=tuple(
            f"{one.path}{'' if one.line is None else f' (line {one.line})'}: {one.message}"
            for one in settings.warnings
        ),
    )


def _config_path(settings: Settings, error: MemoryGatewayError | None) -> str | None:
    if settings.config_path is not None:
        return str(settings.config_path)
    problems = error.problems if isinstance(error, ConfigInvalidError) else ()
    return next((problem.file for problem in problems if problem.file), None)


class OverviewResult(msgspec.Struct, frozen=True):
    """The data that `report` shows beside a status."""

    index: Overview | None
    """None while memory is off."""
    counted: Counted | None
    """None where no gateway runs that could have counted."""


_gauge = partial(single, "gauge")
_PROVIDER_COUNTS = {
    "requests": ("embedding_requests", "Requests to providers of embeddings, repeated ones too."),
    "retries": ("embedding_retries", "Requests to providers that were repeated."),
    "failures": ("embedding_failures", "Requests to providers given up, after their retries."),
    "documents": ("embedded_texts", "Texts that got a vector."),
    "queries": ("query_embeddings", "Query vectors asked for, cached ones too."),
    "query_cache_hits": ("query_embedding_cache_hits", "Query vectors that were in the cache."),
    "tokens": ("embedding_tokens", "Tokens sent, as the providers count them."),
}


def families_of(status: StatusResult) -> Iterator[Family]:
    """Yields the gauges of one snapshot, and the counters that providers keep."""
    yield _info(status)
    yield _gauge("enabled", "1 while memory is on.", float(status.enabled))
    if not status.enabled:
        return
    yield _available(answers=True)
    yield from _sources(status)
    yield _gauge("chunks", "Chunks in the index.", status.chunks)
    yield _gauge("database_bytes", "Size of the index on disk.", status.database_bytes)
    yield _gauge("sync_running", "1 while a sync runs.", float(status.syncing is not None))
    if store := status.details.store:
        yield from _store(store)
    vector = status.details.vector
    if vector and vector.backfill:
        coverage = vector.backfill.coverage
        waiting = max(0, coverage.total - coverage.embedded)
        yield _gauge("embedding_queue_texts", "Texts that wait for their vector.", waiting)
    if vector and vector.provider:
        yield from _providers(vector.provider)


def _store(store: StoreDetails) -> Iterator[Family]:
    where = {
        "driver": store.driver,
        "schema_version": str(store.schema_version),
        "role": store.role,
    }
    about = "Where the index is kept, and what this gateway does there; always 1."
    yield _gauge("store_info", about, 1.0, where)
    if isinstance(store.read_only, bool):
        yield _gauge(
            "store_read_only", "1 while the database takes nothing.", float(store.read_only)
        )
    if isinstance(store.lag_s, float):
        behind = "How far the standby that is asked is behind."
        yield _gauge("store_lag_seconds", behind, store.lag_s)


def _info(status: StatusResult) -> Family:
    labels = {
        "version": status.version,
        "agent": status.agent_id,
        "backend": status.backend or "none",
        "provider": status.provider or "none",
        "model": status.model or "none",
    }
    return _gauge("info", "What runs here; always 1.", 1.0, labels)


def _sources(status: StatusResult) -> Iterator[Family]:
    meanings = {
        "indexed": "Files in the index.",
        "pending": "Files waiting to be indexed.",
        "skipped": "Files that cannot be indexed.",
    }
    for state, meaning in meanings.items():
        samples = tuple(
            Sample(labels=(one.source,), value=getattr(one, state)) for one in status.sources
        )
        yield Family(
            name=f"files_{state}", kind="gauge", help=meaning, labels=("source",), samples=samples
        )


def _providers(state: EmbeddingsState) -> Iterator[Family]:
    """Yields the counts of the provider that comes first, and of the one that may replace it."""
    services = [one for one in (state.primary, state.fallback) if one is not None]
    for count, (name, meaning) in _PROVIDER_COUNTS.items():
        samples = tuple(
            Sample(labels=(one.provider,), value=getattr(one.statistics, count)) for one in services
        )
        yield Family(name=name, kind="counter", help=meaning, labels=("provider",), samples=samples)


class MetricsResult(msgspec.Struct, frozen=True):
    families: tuple[Family, ...]


def write_metrics(metrics: Metrics, status: StatusResult | None) -> MetricsResult:
    """Counts of the process and, from a status of the same moment, of index and providers.

    Without a status the index cannot answer.
    """
    began = "When the process began to serve, in seconds since 1970."
    start = _gauge("start_time_seconds", began, round(metrics.started_at, 3))
    of_index = families_of(status) if status else [_available(answers=False)]
    return MetricsResult((start, *of_index, *metrics.families()))


def _available(*, answers: bool) -> Family:
    return _gauge("index_available", "0 while the index cannot answer.", float(answers))
