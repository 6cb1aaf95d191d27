"""Asks the service manager of the user, by systemctl.

Owns the calls and their time limit. A manager that is absent or refuses is an answer, not an error.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Final

import msgspec

_PATIENCE_S: Final = 30.0
_SHOWN: Final = ("LoadState", "UnitFileState", "ActiveState", "SubState", "MainPID", "StatusText")


class Answer(msgspec.Struct, frozen=True):
    """What systemctl said; `problem` is empty when it did what was asked."""

    text: str
    problem: str = ""


class UnitState(msgspec.Struct, frozen=True, rename="camel"):
    unit: str
    installed: bool
    enabled: bool
    active: bool
    state: str
    """As systemd names it: `active (running)`."""
    pid: int | None
    status: str
    """The gateway's own words."""


def systemctl(*arguments: str) -> Answer:
    command = ("systemctl", "--user", *arguments)
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, arguments of our own
            command, capture_output=True, encoding="utf-8", timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Answer("", f"{' '.join(command)} cannot be run: {error}")
    if done.returncode:
        return Answer(done.stdout, done.stderr.strip() or f"exit code {done.returncode}")
    return Answer(done.stdout)


def read_state(unit: str) -> UnitState | Answer:
    """The state of a unit; the answer itself where there is no service manager."""
    answer = systemctl("show", unit, f"--property={','.join(_SHOWN)}")
    return answer if answer.problem else _unit_state(unit, _properties(answer.text))


def _properties(text: str) -> Mapping[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _unit_state(unit: str, shown: Mapping[str, str]) -> UnitState:
    return UnitState(
        unit=unit,
        installed=shown.get("LoadState") == "loaded",
        enabled=shown.get("UnitFileState") == "enabled",
        active=shown.get("ActiveState") == "active",
        state=f"{shown.get('ActiveState', 'unknown')} ({shown.get('SubState', 'unknown')})",
        pid=int(shown.get("MainPID", "0")) or None,
        status=shown.get("StatusText", ""),
    )
