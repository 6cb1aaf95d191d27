"""Whether the configuration can be read, and what in it does not do what its author may think. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator

from config.errors import ConfigInvalidError, MemoryGatewayError
from config.host_keys import HOST_RELEASE
from config.migration import find_moves, is_of_today
from config.settings import ConfigWarning, Settings
from config.source.includes import resolve_includes
from config.source.json5 import read_json5
from config.source.located import render_path
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
    yield from _refused_by_host(settings)
    yield from (_explain_warning(one, path) for one in settings.warnings)


def _refused_by_host(settings: Settings) -> Iterator[Finding]:
    """Keys that OpenClaw of today does not take, which may be no concern of whoever has an older one."""
    if settings.config_path is None:
        return
    try:
        root = resolve_includes(read_json5(settings.config_path))
        moves = find_moves(root, os.environ)
    except (MemoryGatewayError, FileNotFoundError):
        return  # it was read a moment ago, and the next look will say what is wrong with it
    for move in moves:
        where = (
            f"it belongs at {render_path(move.to)}" if move.to else f"leave it out: {move.reason}"
        )
        yield Finding(
            check="configuration",
            severity="warning" if is_of_today(root) else "note",
            cause=sentence(f"OpenClaw {HOST_RELEASE} refuses a file with {move.place}; {where}"),
            place=_place(str(move.node.source.path), move.node.line),
            fix="`memory-gateway config --migrate` prints the moved file, with --write it replaces it.",
        )


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
