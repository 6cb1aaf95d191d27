"""The output of `status`, `health`, `config` and `doctor` for people; lists of jobs, models and syncs. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text

from backends.interface import (
    BackfillState,
    Details,
    JobReport,
    QmdDetails,
    SessionDetails,
    SourceCount,
    StoreDetails,
    SyncReport,
    VectorDetails,
    VectorStatus,
)
from gateway.cli.options import PROGRAM
from gateway.cli.terminal import aligned, counted, duration, short_path, size
from gateway.doctor.finding import SEVERITIES, Diagnosis, Finding, Severity
from gateway.tools.search import WHERE_NOTES
from gateway.tools.status import Health, StatusResult
from providers.provider_interface import ProviderCandidate, ServiceState

if TYPE_CHECKING:
    from config.describe import Row
    from gateway.agent.reloading import ReloadResult
    from gateway.metrics import Activity
    from providers.choosing import Choice
    from providers.local.models import Suggestion
    from providers.local.models.cache import ListedModel

_SHOWN_SYNCS = 3
_NO_FILE = "all defaults"
_STATE_STYLES = {"ok": "bold green", "degraded": "bold yellow", "failing": "bold red"}


def status_lines(status: StatusResult) -> Iterator[Text]:
    whose = "a folder of notes" if status.notes else f"agent {status.agent_id}"
    yield Text(f"Memory of {whose}", style="bold")
    details = detail_rows(status.details, has_host=not status.notes)
    rows = [*_about(status), *_places(status), *details, *_events(status)]
    yield from aligned(rows, ("cyan", ""), indent=2, widest=20)


def status_line(status: StatusResult) -> str:
    """Returns the status in one line, for logs: `4/4 files · 7 chunks · up to date · provider none`."""
    if status.disabled:
        return f"off: {status.disabled}"
    state = "dirty" if status.dirty else "up to date"
    if status.syncing:
        state = f"syncing {status.syncing.done:,} of {status.syncing.total:,}"
    parts = [
        f"{_indexed(status.sources)} · {counted(status.chunks, 'chunk')} · {state}",
        f"provider {status.provider or 'none'}",
    ]
    if status.last_sync_error:
        parts.append(f"sync error: {status.last_sync_error}")
    return " · ".join([*parts, *status.issues])


def reload_lines(result: ReloadResult) -> Iterator[Text]:
    yield Text(f"Changed: {', '.join(result.changed) or 'nothing'}")
    if result.reopened:
        yield Text("The backend was reopened, on the same index.")
    if result.restart_needed:
        yield Text(
            f"Takes effect only after a restart: {', '.join(result.restart_needed)}", style="yellow"
        )
    yield from (Text(f"Warning: {one}", style="yellow") for one in result.warnings)


def health_lines(health: Health) -> Iterator[Text]:
    yield Text(health.status, style=_STATE_STYLES[health.status])
    for reason in health.reasons:
        yield Text(f"  {reason}")
    rows: list[tuple[str, str, str]] = []
    for trial in health.trials or ():
        rows.append((trial.part, trial.outcome, f"{duration(trial.ms)}: {trial.detail}"))
        if trial.remedy:
            rows.append(("", "", f"Fix: {trial.remedy}"))
    yield from aligned(rows, ("cyan", "", ""), indent=2)


def config_lines(rows: Sequence[Row]) -> Sequence[Text]:
    cells = [(row.path, short_path(row.value_text), row.origin_text) for row in rows]
    return aligned([("KEY", "VALUE", "ORIGIN"), *cells], ("cyan", "", "dim"), widest=48)


def _about(status: StatusResult) -> Iterator[tuple[str, str]]:
    if status.disabled:
        yield "Memory", f"off: {status.disabled}"
        return
    if status.backend:
        yield "Backend", status.backend
    if status.provider or status.requested_provider != "auto":  # else "Vector search" says it
        yield "Provider", f"{status.provider or 'none'} (requested: {status.requested_provider})"
    if status.model:
        yield "Model", status.model
    if (sources := ", ".join(count.source for count in status.sources)) != "memory":
        yield "Sources", sources
    yield "Indexed", f"{_indexed(status.sources)} · {counted(status.chunks, 'chunk')}"
    yield "Up to date", _freshness(status)
    if len(status.sources) > 1:
        for one in status.sources:
            pending = f", {one.pending:,} pending" if one.pending else ""
            yield f"· {one.source}", f"{_indexed([one])} · {counted(one.chunks, 'chunk')}{pending}"


def _freshness(status: StatusResult) -> str:
    if not status.dirty:
        return "yes"
    if not any(one.indexed for one in status.sources):
        return "no: nothing is indexed yet; the first search does it"
    return "no: files have changed since the last sync"


def _indexed(sources: Sequence[SourceCount]) -> str:
    indexed = sum(one.indexed for one in sources)
    return f"{indexed:,}/{counted(sum(one.on_disk for one in sources), 'file')}"


def _places(status: StatusResult) -> Iterator[tuple[str, str]]:
    if status.database_path:
        yield "Store", f"{short_path(status.database_path)} ({size(status.database_bytes)})"
    yield "Notes" if status.notes else "Workspace", short_path(status.workspace)
    if status.claude_code:
        yield "Claude Code", "its memory is searched, too"
    if status.activity and status.activity.requests:
        yield "Activity", _activity(status.activity)
    if recall := _recall(status):
        yield "Recall", recall
    yield "Configuration", short_path(status.config_path) if status.config_path else _NO_FILE


_SILENT: Final = {"slow": "in time", "away": "from any gateway", "broken": "that was one"}


def _recall(status: StatusResult) -> str:
    """Returns how often something was recalled before prompts, and how often hooks gave up."""
    activity, parts = status.activity, []
    if activity and activity.prompts:
        shown = activity.prompts.get("shown", 0)
        asked = sum(activity.prompts.values())
        parts.append(f"something shown for {shown:,} of {counted(asked, 'prompt')}")
    if activity and activity.recalled:
        was = counted(activity.recalled, "passage")
        parts.append(f"{was} so far, {activity.recalled_of_use:,} of use")
    for why, count in status.silent_hooks.items():
        if count:
            parts.append(f"{counted(count, 'hook')} got no answer {_SILENT[why]}")
    return " · ".join(parts)


def _activity(activity: Activity) -> str:
    """Returns what the process that answered has done since its start."""
    modes = ", ".join(f"{count:,} {mode}" for mode, count in sorted(activity.searches.items()))
    parts = [
        f"up {duration(activity.uptime_s * 1000)}",
        f"{counted(activity.requests, 'request')} ({activity.failed_requests:,} failed)",
        f"searches: {modes or 'none'}",
    ]
    if activity.search_ms_median is not None and activity.search_ms_p95 is not None:
        median, p95 = duration(activity.search_ms_median), duration(activity.search_ms_p95)
        parts.append(f"median {median}, 95 % within {p95}")
    parts.append(counted(activity.syncs, "sync"))
    if activity.dropped_log_lines:
        lost = counted(activity.dropped_log_lines, "line")
        parts.append(f"{lost} of the log dropped: standard error takes none")
    return " · ".join(parts)


def _events(status: StatusResult) -> Iterator[tuple[str, str]]:
    if status.syncing:
        yield "Syncing", f"{status.syncing.done:,} of {counted(status.syncing.total, 'file')}"
    for report in status.recent_syncs[:_SHOWN_SYNCS]:
        error = f" Error: {report.error}" if report.error else ""
        yield "Last sync", f"{report.reason}: {sync_summary(report)}{error}"
    if status.last_sync_error:
        yield "Sync error", status.last_sync_error
    if status.config_error:
        yield "Configuration error", status.config_error
    yield from (("Switch", switch.reason) for switch in status.switches if not switch.obeyed)
    for skipped in status.skipped:
        yield "Skipped", f"{skipped.path}: {skipped.reason}"
    yield from (("Issue", issue) for issue in status.issues)
    if status.issues and not any(one.on_disk or one.indexed for one in status.sources):
        yield "Remedy", WHERE_NOTES
    yield from (("Warning", warning) for warning in status.warnings)


_STYLES: Final[dict[Severity, str]] = {
    "ok": "green",
    "note": "cyan",
    "warning": "bold yellow",
    "error": "bold red",
}


def diagnosis_lines(diagnosis: Diagnosis) -> Iterator[Text]:
    """Yields a line for each finding, then its place and its remedy; a summary at the end."""
    whose = f"agent {diagnosis.agent_id}" if diagnosis.agent_id else "the configuration is invalid"
    if diagnosis.notes:
        whose = f"notes in {short_path(diagnosis.notes)}"
    yield Text(f"memory-gateway {diagnosis.version}, {whose}", style="bold")
    for finding in diagnosis.findings:
        yield from _finding(finding)
    yield Text(_summary(diagnosis))


def _finding(finding: Finding) -> Iterator[Text]:
    place = short_path(finding.place) if finding.place else ""
    is_fine = finding.severity == "ok"
    cause = f"{finding.cause}  {place}" if place and is_fine else finding.cause
    rows: list[tuple[str, str, str]] = [(finding.severity, finding.check, cause)]
    if place and not is_fine:
        rows.append(("", "", f"at {place}"))
    if finding.fix:
        rows.append(("", "", f"Fix: {finding.fix}"))
    head = ("warning", "configuration", "")  # every finding has columns as wide as these
    styles = (_STYLES[finding.severity], "", "")
    yield from aligned([head, *rows], styles, indent=2, widest=20)[1:]


def _summary(diagnosis: Diagnosis) -> str:
    counts = {
        severity: sum(one.severity == severity for one in diagnosis.findings)
        for severity in SEVERITIES[1:]
    }
    found = ", ".join(counted(count, name) for name, count in counts.items() if count)
    return f"{diagnosis.status}: {found or 'nothing is wrong'}."


Pair = tuple[str, str]
"""A name and its description."""


def detail_rows(details: Details, *, has_host: bool = True) -> Iterator[Pair]:
    """Yields a row or a few for each part that a backend has.

    Without a host, parts that only a host would switch on are not listed as off.
    """
    if keyword := details.keyword:
        languages = ", ".join(keyword.languages) or "none recognised yet"
        yield "Keyword search", f"BM25 · languages: {languages}"
    if details.vector:
        yield from _vector(details.vector)
    if (store := details.store) and store.server:
        yield "Database", _store(store)
    if details.journal and details.journal != "wal":
        yield "Journal", "rollback journal"
    if viewpoints := details.viewpoints:
        others, missing = len(viewpoints.others), counted(viewpoints.only_elsewhere, "file")
        yield ("Shared with", f"{counted(others, 'other viewpoint')} · {missing} seen only there")
    if details.sessions and (has_host or details.sessions.enabled):
        yield "Transcripts", _sessions(details.sessions)
    rules = [
        f"{counted(count, 'file')} by {rule}"
        for rule, count in (details.left_out or {}).items()
        if count
    ]
    if rules:
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


def _vector(vector: VectorDetails) -> Iterator[Pair]:
    if not vector.enabled:
        yield "Vector search", "off: store.vector.enabled is false"
    elif not vector.provider or not vector.search:
        is_unset = vector.requested == "auto" and not vector.provider and not any(_refused(vector))
        more = f" `{PROGRAM} models suggest` adds meaning, without a key." if is_unset else ""
        in_vain = next(_refused(vector), None)
        if in_vain is not None and in_vain.remedy and in_vain.reason in vector.reason:
            more = f" {in_vain.remedy}"
        yield "Vector search", f"off: {vector.reason}{more}"
    else:
        yield "Vector search", _engine(vector.search)
        yield "Embeddings", _provider(vector.provider.active, vector.reason)
    if vector.backfill:
        yield "Embedded", _coverage(vector.backfill)
    if (batch := vector.batch) and (batch.jobs or batch.waiting):
        waiting = f"{counted(batch.waiting, 'text')} waiting"
        yield "Batch jobs", f"{counted(len(batch.jobs), 'job')} · {waiting}"
    for one in _refused(vector):  # `doctor` says where each key was looked for, at length
        if one.reason in vector.reason:
            continue
        yield f"· {one.provider}", f"not usable: {one.reason.partition('. ')[0].rstrip('.')}."


def _engine(search: VectorStatus) -> str:
    parts = [search.engine or "no engine"]
    if search.dimensions:
        parts.append(f"{search.dimensions:,} dimensions")
    if search.resident_vectors:
        vectors = counted(search.resident_vectors, "vector")
        parts.append(f"{vectors} in {size(search.resident_bytes)} of memory")
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


def embedding_lines(backfill: BackfillState) -> Iterator[str]:
    """Yields the state of the vectors after an `index`, and what becomes of those that are missing."""
    yield f"Vectors: {_coverage(backfill)}"
    coverage = backfill.coverage
    left = coverage.total - coverage.embedded - coverage.failed
    if left and backfill.last_error:
        yield "Run it again to go on; a gateway that runs goes on by itself."
    elif left:
        yield f"The other {left:,} are on their way, likely in batch jobs: see `memory-gateway batch list`."


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


def _refused(vector: VectorDetails) -> Iterator[ProviderCandidate]:
    """Yields providers that cannot be used; of those tried by default, only ones for which there is a key."""
    unasked = vector.requested == "auto"
    refused = (one for one in vector.candidates if not one.usable)
    return (one for one in refused if one.key_source or not unasked)


def _sessions(sessions: SessionDetails) -> str:
    if not sessions.enabled:
        return "off: experimental.sessionMemory is false"
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
    """Returns number, state, progress, refused texts, age and reason of each job."""
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
    """Returns state, size, name and place of each model; the configured one is marked."""
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


def suggestion_lines(
    items: Sequence[Suggestion], here: Container[str], install: str | None
) -> Iterator[Text | str]:
    """Yields size, licence and languages of each model, the suggested one first, and how to get them.

    `install` is the command that installs the engine, if that is missing.
    """
    heads = ("STATE", "SIZE", "LICENCE", "LANGUAGES", "RETRIEVAL", "MODEL")
    cells = [
        (
            "ready" if one.name in here else "not there",
            size(one.bytes),
            one.licence,
            one.languages,
            "" if one.retrieval is None else f"{one.retrieval:.1f}",
            f"{one.name} ({one.maker})",
        )
        for one in items
    ]
    yield from aligned([heads, *cells], ("", "", "", "", "", "cyan"))
    first = items[0]
    yield ""
    yield f"Suggested: {first.name}, {first.why}."
    if first.name not in here:
        about = f"{size(first.bytes)}, {first.licence}"
        yield f"`{PROGRAM} models suggest --yes` downloads it, {about}, from"
        yield f"    {first.reference}"
    if install is not None:
        yield "ONNX Runtime, which computes it, is not installed; `--yes` does that, too, by"
        yield f"    {install}"
    for one in items[1:]:
        yield f"{one.name}: {one.why}."
        yield f"    {PROGRAM} models pull '{one.reference}'"
    yield "RETRIEVAL: what its makers published for 18 tasks in many languages (MTEB, nDCG@10, of 100)."


def offer_lines(one: Suggestion, *, is_here: bool, install: str | None) -> Iterator[str]:
    """Yields only what a person has to know to answer the question of `setup`."""
    yield "Notes are found by their words. With a model on this machine by their meaning, too:"
    if not is_here:
        yield f"    {one.name} ({one.maker})"
        yield f"    {size(one.bytes)}, {one.licence}, languages: {one.languages}"
    if install is not None:
        yield f"    ONNX Runtime, which computes it, by {install}"
    yield f"`{PROGRAM} models suggest` says more, and does it later, too."


def suggestion_use_lines(suggestion: Suggestion, choice: Choice) -> Iterator[str]:
    """Yields whether a model that is there is used, and otherwise what that takes."""
    if choice.primary and choice.primary.model == suggestion.reference:
        yield "Searches use it from the next start of the gateway on: no provider is set up."
        return
    local = next((one for one in choice.candidates if one.provider == "local"), None)
    if choice.primary is None and local and local.remedy:
        yield f"It is not used yet: {local.reason} {local.remedy}"
        return
    yield f"It is not used: {choice.reason}"
    yield f'For this model instead: provider "local", local.modelPath "{suggestion.reference}".'


def _state(item: ListedModel) -> str:
    if item.complete:
        return "ready"
    if not item.bytes:
        return "not there"
    if not item.total_bytes:
        return f"{size(item.bytes)} of it"
    return f"{100 * item.bytes // item.total_bytes} % of it"


def sync_summary(report: SyncReport) -> str:
    """Returns `48 files in 0.31 s: 48 new, 0 changed ...; 110.0 kB read (354.8 kB/s)`."""
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
    """Yields what is not indexed, and why."""
    for skipped in report.skipped:
        yield f"Skipped {skipped.path}: {skipped.reason}"
    if report.error:
        yield f"Not everything was indexed: {report.error}"
    elif not report.complete:
        yield "Some files were being written; run it again to index them."
