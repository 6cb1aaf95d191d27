"""The systemd unit of the agent, where one is installed. Blocks: it asks systemctl."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from config.paths import home_dir
from config.settings import Settings
from gateway.doctor.finding import Finding
from gateway.units.files import SERVICE, drop_in_path, instance, unit_directory
from gateway.units.manager import Answer, UnitState, read_state


def check_service(settings: Settings) -> Iterator[Finding]:
    """Nothing to tell where none is installed: a chat gateway may start the gateway itself."""
    directory = unit_directory(os.environ, home_dir(os.environ, Path.cwd()))
    drop_in = drop_in_path(directory, settings.agent_id)
    if not drop_in.exists():
        return
    place, unit = str(drop_in), instance(settings.agent_id)
    if not (directory / SERVICE).exists():
        yield Finding(
            check="service",
            severity="warning",
            cause=f"{unit} has arguments, but the unit file is missing.",
            place=str(directory / SERVICE),
            fix="memory-gateway service install",
        )
        return
    state = read_state(unit)
    if isinstance(state, Answer):
        yield Finding(
            check="service",
            severity="note",
            cause=f"{unit} is installed, and the service manager cannot be asked: {state.problem}",
            place=place,
            fix="Ask from a session of this user (XDG_RUNTIME_DIR; loginctl enable-linger).",
        )
    else:
        yield _explain(state, place)


def _explain(state: UnitState, place: str) -> Finding:
    if state.active:
        cause = f"{state.unit} is {state.state}. {state.status}".rstrip()
        return Finding(check="service", severity="ok", cause=cause, place=place)
    return Finding(
        check="service",
        severity="warning",
        cause=f"{state.unit} is installed and {state.state}.",
        place=place,
        fix=f"journalctl --user -u {state.unit} tells why; then systemctl --user restart {state.unit}",
    )
