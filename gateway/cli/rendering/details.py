"""Engines, syncs, batch jobs and models as people read them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from backends.builtin.batch.reporting import JobReport
from backends.interface import SyncReport
from gateway.cli.rendering.words import aligned, counted, duration, short_path, size
from providers.local.models.cache import ListedModel

Row = tuple[str, str]
Details = Mapping[str, Any]


def detail_rows(details: Details) -> Iterator[Row]:
    """`details` is that of `StatusResult`."""
    for name, value in details.items():
        tell = _TELLERS.get(name)
        if tell is None:
            yield name.capitalize(), plain(value)
        else:
            yield from tell(value)


def _left_out(counts: Details) -> Iterator[Row]:
    rules = (f"{counted(count, 'file')} by {rule}" for rule, count in counts.items())
    yield "Left out", ", ".join(rules)


def plain(value: Any) -> str:
    """Anything, in words and on one line."""
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return "–"
        case Mapping():
            return ", ".join(f"{name} {plain(item)}" for name, item in value.items())
        case list() | tuple():
            return " ".join(map(plain, value)) or "–"
        case _:
            return str(value)


def _keyword(keyword: Details) -> Iterator[Row]:
    languages = ", ".join(keyword.get("languages", ())) or "none recognised yet"
    yield "Keyword search", f"BM25 · languages: {languages}"


def _vector(vector: Details) -> Iterator[Row]:
    search, backfill = vector.get("search"), vector.get("backfill")
    if not vector.get("enabled", True):
        yield "Vector search", "off: memorySearch.store.vector.enabled is false"
    elif vector.get("provider") is None or search is None:
        yield "Vector search", f"off: {vector.get('reason')}"
    else:
        yield "Vector search", _engine(search)
        yield "Embeddings", _provider(vector)
    if backfill is not None:
        yield "Embedded", _coverage(backfill)
    batch = vector.get("batch")
    if batch and (batch.get("jobs") or batch.get("waiting")):
        yield "Batch jobs", _batch(batch)
    yield from ((f"· {one['provider']}", _refusal(one)) for one in _refused(vector))


def _engine(search: Details) -> str:
    parts = [str(search.get("engine") or "no engine")]
    if search.get("dimensions"):
        parts.append(f"{search['dimensions']:,} dimensions")
    if search.get("residentVectors"):
        held = counted(search["residentVectors"], "vector")
        parts.append(f"{held} in {size(search['residentBytes'])} of memory")
    parts += [f"{name}: {why}" for name, why in search.get("unavailable", {}).items()]
    return " · ".join(parts)


def _provider(vector: Details) -> str:
    active = vector["provider"]["active"]
    parts = [f"{active['provider']} is {active['status']}"]
    if active["status"] == "ready" and not active.get("statistics", {}).get("requests", 1):
        parts = [f"{active['provider']} is set up, and was not asked yet by this process"]
    if active.get("endpoint"):
        parts.append(active["endpoint"])
    why = vector.get("reason") or ""
    if active.get("reason") and active["reason"] not in why:
        parts.append(active["reason"])
    parts.append(why)
    return " · ".join(part for part in parts if part)


def _coverage(backfill: Details) -> str:
    coverage = backfill.get("coverage", {})
    parts = [f"{coverage.get('embedded', 0):,} of {counted(coverage.get('total', 0), 'text')}"]
    if coverage.get("failed"):
        parts.append(f"{coverage['failed']:,} refused")
    if backfill.get("running"):
        parts.append("at work")
    if backfill.get("lastError"):
        parts.append(f"last error: {backfill['lastError']}")
    return " · ".join(parts)


def _batch(batch: Details) -> str:
    waiting = f"{counted(batch.get('waiting', 0), 'text')} waiting"
    return f"{counted(len(batch.get('jobs', ())), 'job')} · {waiting}"


def _refused(vector: Details) -> Iterator[Details]:
    """That none of those is set up which are tried unasked is no news; a key in vain is."""
    unasked = vector.get("requested") == "auto"
    refused = (one for one in vector.get("candidates", ()) if not one["usable"])
    return (one for one in refused if one.get("keySource") or not unasked)


def _refusal(candidate: Details) -> str:
    """Where each key was looked for is a long story, which the doctor tells."""
    first = str(candidate["reason"]).partition(". ")[0].rstrip(".")
    return f"not usable: {first}."


def _sessions(sessions: Details) -> Iterator[Row]:
    if not sessions.get("enabled"):
        yield "Transcripts", "off: memorySearch.experimental.sessionMemory is false"
        return
    below = sessions.get("belowThresholds", 0)
    waiting = f" · {counted(below, 'transcript')} below the thresholds" if below else ""
    yield "Transcripts", f"on{waiting}"


def _journal(mode: str) -> Iterator[Row]:
    yield "Journal", {"wal": "write-ahead log", "delete": "rollback journal"}.get(mode, mode)


def _qmd(qmd: Details) -> Iterator[Row]:
    if not qmd.get("available"):
        yield "QMD", f"not available · {qmd.get('command')}"
        return
    parts = [
        f"version {qmd.get('version')}",
        f"mode {qmd.get('effectiveSearchMode')}",
        counted(len(qmd.get("collections", ())), "collection"),
    ]
    server = qmd.get("server")
    if server:
        parts.append("warm" if server.get("warm") else "cold")
    if qmd.get("missingModels"):
        parts.append(f"models that are missing: {', '.join(qmd['missingModels'])}")
    if qmd.get("running"):
        parts.append(f"at work: {qmd['running']}")
    if qmd.get("lastError"):
        parts.append(f"last error: {qmd['lastError']}")
    yield "QMD", " · ".join(parts)


def _fallback(fallback: Details) -> Iterator[Row]:
    yield "Fallback", f"in place of {fallback['from']}: {fallback['reason']}"


_TELLERS: Final[Mapping[str, Callable[[Any], Iterator[Row]]]] = {
    "keyword": _keyword,
    "vector": _vector,
    "sessions": _sessions,
    "journal": _journal,
    "leftOut": _left_out,
    "qmd": _qmd,
    "fallback": _fallback,
}


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
