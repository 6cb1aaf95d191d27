"""What `status`, `health`, `config` and `doctor` say to people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from backends.interface import SourceCount, SyncReport, Trial
from config.describe import Row
from gateway.agent.reloading import ReloadResult
from gateway.cli.rendering.details import detail_rows, sync_summary
from gateway.cli.rendering.words import aligned, counted, duration, short_path, size
from gateway.doctor.finding import SEVERITIES, Diagnosis, Finding, Severity
from gateway.metrics import Activity
from gateway.tools.status import Health, StatusResult

_SHOWN_SYNCS = 3
_NO_FILE = "all defaults"
_STATE_STYLES = {"ok": "bold green", "degraded": "bold yellow", "failing": "bold red"}


def status_lines(status: StatusResult) -> Iterator[Text]:
    whose = "a folder of notes" if status.notes else f"agent {status.agent_id}"
    yield Text(f"Memory of {whose}", style="bold")
    rows = [*_about(status), *_places(status), *detail_rows(status.details), *_events(status)]
    yield from aligned(rows, ("cyan", ""), indent=2, widest=20)


def status_line(status: StatusResult) -> str:
    """The same in one line, for logs: `4/4 files · 7 chunks · up to date · provider none`."""
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
    trials = health.trials or ()
    rows = [row for one in trials for row in _trial(one)]
    yield from aligned(rows, ("cyan", "", ""), indent=2)


def _trial(trial: Trial) -> Iterator[tuple[str, str, str]]:
    yield trial.part, trial.outcome, f"{duration(trial.ms)}: {trial.detail}"
    if trial.remedy:
        yield "", "", f"Fix: {trial.remedy}"


def config_lines(rows: Sequence[Row]) -> Sequence[Text]:
    cells = [(row.path, short_path(row.value_text), row.origin_text) for row in rows]
    return aligned([("KEY", "VALUE", "ORIGIN"), *cells], ("cyan", "", "dim"), widest=48)


def _about(status: StatusResult) -> Iterator[tuple[str, str]]:
    if status.disabled:
        yield "Memory", f"off: {status.disabled}"
        return
    yield "Backend", status.backend or "–"
    yield "Provider", f"{status.provider or 'none'} (requested: {status.requested_provider})"
    yield "Model", status.model or "–"
    yield "Sources", ", ".join(count.source for count in status.sources)
    yield "Indexed", f"{_indexed(status.sources)} · {counted(status.chunks, 'chunk')}"
    yield "Dirty", "yes: files have changed since the last sync" if status.dirty else "no"
    if len(status.sources) > 1:
        yield from ((f"· {one.source}", _source(one)) for one in status.sources)


def _indexed(sources: Sequence[SourceCount]) -> str:
    indexed = sum(one.indexed for one in sources)
    return f"{indexed:,}/{counted(sum(one.on_disk for one in sources), 'file')}"


def _source(one: SourceCount) -> str:
    text = f"{_indexed([one])} · {counted(one.chunks, 'chunk')}"
    return text + (f", {one.pending:,} pending" if one.pending else "")


def _places(status: StatusResult) -> Iterator[tuple[str, str]]:
    if status.database_path:
        yield "Store", f"{short_path(status.database_path)} ({size(status.database_bytes)})"
    yield "Notes" if status.notes else "Workspace", short_path(status.workspace)
    if status.claude_code:
        yield "Claude Code", "its memory is searched, too"
    if status.activity and status.activity.requests:
        yield "Activity", _activity(status.activity)
    yield "Configuration", short_path(status.config_path) if status.config_path else _NO_FILE


def _activity(activity: Activity) -> str:
    """What the process that answered has done since its start."""
    modes = ", ".join(f"{count:,} {mode}" for mode, count in sorted(activity.searches.items()))
    parts = [
        f"up {duration(activity.uptime_s * 1000)}",
        f"{counted(activity.requests, 'request')} ({activity.failed_requests:,} failed)",
        f"searches: {modes or 'none'}",
    ]
    if activity.search_ms_median is not None and activity.search_ms_p95 is not None:
        median, p95 = duration(activity.search_ms_median), duration(activity.search_ms_p95)
        parts.append(f"median {median}, 95 % within {p95}")
    return " · ".join([*parts, counted(activity.syncs, "sync")])


def _events(status: StatusResult) -> Iterator[tuple[str, str]]:
    if status.syncing:
        yield "Syncing", f"{status.syncing.done:,} of {counted(status.syncing.total, 'file')}"
    for report in status.recent_syncs[:_SHOWN_SYNCS]:
        yield "Last sync", _sync(report)
    if status.last_sync_error:
        yield "Sync error", status.last_sync_error
    if status.config_error:
        yield "Configuration error", status.config_error
    yield from (("Switch", switch.reason) for switch in status.switches if not switch.obeyed)
    for skipped in status.skipped:
        yield "Skipped", f"{skipped.path}: {skipped.reason}"
    yield from (("Issue", issue) for issue in status.issues)
    yield from (("Warning", warning) for warning in status.warnings)


def _sync(report: SyncReport) -> str:
    error = f" Error: {report.error}" if report.error else ""
    return f"{report.reason}: {sync_summary(report)}{error}"


_STYLES: Final[dict[Severity, str]] = {
    "ok": "green",
    "note": "cyan",
    "warning": "bold yellow",
    "error": "bold red",
}


def diagnosis_lines(diagnosis: Diagnosis) -> Iterator[Text]:
    """One line a finding, then its place and what mends it; a summary at the end."""
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
    told = ", ".join(counted(count, name) for name, count in counts.items() if count)
    return f"{diagnosis.status}: {told or 'nothing is wrong'}."
