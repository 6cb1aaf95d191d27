"""Engines, syncs, batch jobs and models as people read them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from backends.interface import (
    BackfillState,
    Details,
    JobReport,
    QmdDetails,
    SessionDetails,
    StoreDetails,
    SyncReport,
    VectorDetails,
    VectorStatus,
)
from gateway.cli.rendering.words import aligned, counted, duration, short_path, size
from providers.interface import Candidate, ServiceState
from providers.local.models.cache import ListedModel

Row = tuple[str, str]


def detail_rows(details: Details) -> Iterator[Row]:
    """The parts of a backend, each in a row or a few; nothing of those that it does not have."""
    if keyword := details.keyword:
        languages = ", ".join(keyword.languages) or "none recognised yet"
        yield "Keyword search", f"BM25 · languages: {languages}"
    if details.vector:
        yield from _vector(details.vector)
    if (store := details.store) and store.server:
        yield "Database", _store(store)
    if journal := details.journal:
        yield (
            "Journal",
            {"wal": "write-ahead log", "delete": "rollback journal"}.get(journal, journal),
        )
    if details.sessions:
        yield "Transcripts", _sessions(details.sessions)
    if left_out := details.left_out:
        rules = (f"{counted(count, 'file')} by {rule}" for rule, count in left_out.items())
        yield "Left out", ", ".join(rules)
    if details.qmd:
        yield "QMD", _qmd(details.qmd)
    if fallback := details.fallback:
        yield "Fallback", f"in place of {fallback.origin}: {fallback.reason}"


def _store(store: StoreDetails) -> str:
    parts = [store.server or store.driver, f"schema version {store.schema_version}", store.role]
    if store.read_only:
        behind = "" if not store.lag_s else f", {duration(store.lag_s * 1000)} behind"
        parts.append(f"read-only{behind}")
    parts += [f"{work} by {holder}" for work, holder in (store.leases or {}).items()]
    return " · ".join(parts)


def _vector(vector: VectorDetails) -> Iterator[Row]:
    if not vector.enabled:
        yield "Vector search", "off: memorySearch.store.vector.enabled is false"
    elif not vector.provider or not vector.search:
        yield "Vector search", f"off: {vector.reason}"
    else:
        yield "Vector search", _engine(vector.search)
        yield "Embeddings", _provider(vector.provider.active, vector.reason)
    if vector.backfill:
        yield "Embedded", _coverage(vector.backfill)
    if (batch := vector.batch) and (batch.jobs or batch.waiting):
        waiting = f"{counted(batch.waiting, 'text')} waiting"
        yield "Batch jobs", f"{counted(len(batch.jobs), 'job')} · {waiting}"
    yield from ((f"· {one.provider}", _refusal(one)) for one in _refused(vector))


def _engine(search: VectorStatus) -> str:
    parts = [search.engine or "no engine"]
    if search.dimensions:
        parts.append(f"{search.dimensions:,} dimensions")
    if search.resident_vectors:
        held = counted(search.resident_vectors, "vector")
        parts.append(f"{held} in {size(search.resident_bytes)} of memory")
    parts += [f"{name}: {why}" for name, why in search.unavailable.items()]
    return " · ".join(parts)


def _provider(active: ServiceState, why: str) -> str:
    parts = [f"{active.provider} is {active.status}"]
    if active.status == "ready" and not active.statistics.requests:
        parts = [f"{active.provider} is set up, and was not asked yet by this process"]
    parts.append(active.endpoint)
    if active.reason and active.reason not in why:
        parts.append(active.reason)
    parts.append(why)
    return " · ".join(part for part in parts if part)


def _coverage(backfill: BackfillState) -> str:
    coverage = backfill.coverage
    parts = [f"{coverage.embedded:,} of {counted(coverage.total, 'text')}"]
    if coverage.failed:
        parts.append(f"{coverage.failed:,} refused")
    if backfill.running:
        parts.append("at work")
    if backfill.last_error:
        parts.append(f"last error: {backfill.last_error}")
    return " · ".join(parts)


def _refused(vector: VectorDetails) -> Iterator[Candidate]:
    """That none of those is set up which are tried unasked is no news; a key in vain is."""
    unasked = vector.requested == "auto"
    refused = (one for one in vector.candidates if not one.usable)
    return (one for one in refused if one.key_source or not unasked)


def _refusal(candidate: Candidate) -> str:
    """Where each key was looked for is a long story, which the doctor tells."""
    first = candidate.reason.partition(". ")[0].rstrip(".")
    return f"not usable: {first}."


def _sessions(sessions: SessionDetails) -> str:
    if not sessions.enabled:
        return "off: memorySearch.experimental.sessionMemory is false"
    below = sessions.below_thresholds
    return "on" + (f" · {counted(below, 'transcript')} below the thresholds" if below else "")


def _qmd(qmd: QmdDetails) -> str:
    if not qmd.available:
        return f"not available · {qmd.command}"
    parts = [
        f"version {qmd.version}",
        f"mode {qmd.effective_search_mode}",
        counted(len(qmd.collections or ()), "collection"),
    ]
    if qmd.server:
        parts.append("warm" if qmd.server.warm else "cold")
    if qmd.missing_models:
        parts.append(f"models that are missing: {', '.join(qmd.missing_models)}")
    if qmd.running:
        parts.append(f"at work: {qmd.running}")
    if qmd.last_error:
        parts.append(f"last error: {qmd.last_error}")
    return " · ".join(parts)


def batch_lines(jobs: Sequence[JobReport]) -> Sequence[Text]:
    """Number, state, progress, refused texts, age and reason of each."""
    cells = [
        (
            str(job.id),
            job.outcome or job.remote_state or job.state,
            f"{job.done:,}/{job.items:,}",
            f"{job.refused:,}" if job.refused else "",
            duration(job.age_s * 1000),
            job.reason or "",
        )
        for job in jobs
    ]
    heads = ("JOB", "STATE", "DONE", "REFUSED", "AGE", "REASON")
    return aligned([heads, *cells], ("cyan", "bold", "", "red", "dim", "dim"), widest=40)


def model_lines(items: Sequence[ListedModel]) -> Sequence[Text]:
    """State, size, name and place of each; the configured one is marked."""
    cells = [
        (
            "*" if item.configured else "",
            _state(item),
            size(item.total_bytes or item.bytes) if item.bytes else "",
            item.reference,
            short_path(item.path),
        )
        for item in items
    ]
    heads = ("", "STATE", "SIZE", "MODEL", "PATH")
    return aligned([heads, *cells], ("bold green", "", "", "cyan", "dim"), widest=80)


def _state(item: ListedModel) -> str:
    if item.complete:
        return "ready"
    if not item.bytes:
        return "not there"
    if not item.total_bytes:
        return f"{size(item.bytes)} of it"
    return f"{100 * item.bytes // item.total_bytes} % of it"


def sync_summary(report: SyncReport) -> str:
    """`48 files in 0.31 s: 48 new, 0 changed ...; 110.0 kB read (354.8 kB/s)`."""
    seconds = max(report.duration_ms, 1) / 1000
    changes = (
        f"{report.added:,} new, {report.changed:,} changed, {report.removed:,} removed, "
        f"{report.unchanged:,} unchanged"
    )
    if report.skipped:
        changes += f", {len(report.skipped):,} skipped"
    read = f"{size(report.bytes_read)} read ({size(report.bytes_read / seconds)}/s)"
    return (
        f"{counted(report.scanned, 'file')} in {duration(report.duration_ms)}: {changes}; "
        f"{counted(report.chunks_written, 'chunk')} written, {read}."
    )


def sync_remarks(report: SyncReport) -> Iterator[str]:
    """What is not indexed, and why."""
    for skipped in report.skipped:
        yield f"Skipped {skipped.path}: {skipped.reason}"
    if report.error:
        yield f"Not everything was indexed: {report.error}"
    elif not report.complete:
        yield "Some files were being written; run it again to index them."
