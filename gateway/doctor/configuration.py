"""Whether the configuration can be read, and what in it does not do what its author may think. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from config.errors import ConfigInvalidError, MemoryGatewayError
from config.settings import ConfigWarning, Settings
from config.switched_off import switches
from gateway.doctor.finding import Finding, sentence


def explain_failure(error: MemoryGatewayError) -> Iterator[Finding]:
    """Why there are no settings: one finding for each problem."""
    if not isinstance(error, ConfigInvalidError):
        yield Finding(
            check="configuration", severity="error", cause=error.message, fix=error.remedy
        )
        return
    for problem in error.problems:
        cause = ": ".join(part for part in (problem.path, problem.message) if part)
        yield Finding(
            check="configuration",
            severity="error",
            cause=sentence(cause),
            place=_place(problem.file, problem.line),
            fix=error.remedy,
        )


def check_configuration(settings: Settings) -> Iterator[Finding]:
    path = str(settings.config_path) if settings.config_path else None
    cause = (
        "It can be read." if path else "There is no openclaw.json; everything is at its default."
    )
    yield Finding(check="configuration", severity="ok", cause=cause, place=path)
    for switch in switches(settings):
        yield Finding(check="configuration", severity="note", cause=switch.reason)
    yield from (_explain_warning(one, path) for one in settings.warnings)


def _explain_warning(warning: ConfigWarning, path: str | None) -> Finding:
    return Finding(
        check="configuration",
        severity="warning",
        cause=sentence(f"{warning.path}: {warning.message}"),
        place=_place(warning.file or path, warning.line),
        fix="Correct or remove the key; `memory-gateway config` shows what is in force.",
    )


def _place(file: str | None, line: int | None) -> str | None:
    return f"{file}:{line}" if file and line else file
