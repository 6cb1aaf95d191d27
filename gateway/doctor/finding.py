"""The findings of checks, and the whole diagnosis: the shape of `doctor --json`. Pure.

The names of checks and severities do not change.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final, Literal

import msgspec

from gateway.tools.status import HealthState

Check = Literal[
    "configuration", "provider", "secrets", "places", "index", "libraries", "model", "qmd", "transcripts", "disk",
    "watches", "owner", "service", "hooks", "canary",
]  # fmt: skip
Severity = Literal["ok", "note", "warning", "error"]
"""`note`: worth knowing, not wrong; `warning`: answers are weaker; `error`: memory does not work."""

SEVERITIES: Final[tuple[Severity, ...]] = ("ok", "note", "warning", "error")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was checked. Contains no secret."""

    check: Check
    severity: Severity
    cause: str
    """A sentence that describes what was found."""
    place: str | None = None
    """A path, perhaps with a line, or a key of the configuration."""
    fix: str | None = None
    """The remedy; None if there is nothing to do."""


class Observation(msgspec.Struct, frozen=True):
    """A finding without the name of its check, as checks yield it."""

    severity: Severity
    cause: str
    place: str | None
    fix: str | None

    def by(self, check: Check) -> Finding:
        return Finding(
            check=check,
            severity=self.severity,
            cause=self.cause if self.cause.endswith((".", "?", "!")) else f"{self.cause}.",
            place=self.place,
            fix=self.fix,
        )


def observe(
    severity: Severity, cause: str, place: str | Path | None = None, *, fix: str | None = None
) -> Observation:
    return Observation(severity, cause, None if place is None else str(place), fix)


ok = partial(observe, "ok")
note = partial(observe, "note")
warning = partial(observe, "warning")
error = partial(observe, "error")


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    version: str
    agent_id: str | None
    """None when the configuration could not be read."""
    notes: str | msgspec.UnsetType = msgspec.UNSET
    """The folder that is the whole memory (`--notes`)."""
    status: HealthState
    findings: tuple[Finding, ...]


def judge_findings(findings: Iterable[Finding]) -> HealthState:
    """Returns the state that the worst finding means, in the terms of `health`."""
    severities = {one.severity for one in findings}
    if "error" in severities:
        return "failing"
    return "degraded" if "warning" in severities else "ok"
