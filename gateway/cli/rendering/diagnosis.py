"""What `doctor` says to people. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from gateway.cli.rendering.aligned import aligned
from gateway.cli.rendering.words import counted, short_path
from gateway.doctor.finding import SEVERITIES, Diagnosis, Finding, Severity

_STYLES: Final[dict[Severity, str]] = {
    "ok": "green",
    "note": "cyan",
    "warning": "bold yellow",
    "error": "bold red",
}


def diagnosis_lines(diagnosis: Diagnosis) -> Iterator[Text]:
    """One line a finding, then its place and what mends it; a summary at the end."""
    agent = f"agent {diagnosis.agent_id}" if diagnosis.agent_id else "no agent: no configuration"
    yield Text(f"memory-gateway {diagnosis.version}, {agent}", style="bold")
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
