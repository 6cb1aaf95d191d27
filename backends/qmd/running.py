"""Ending the QMD processes that an earlier gateway could not end itself.

Every process that a gateway starts names that gateway in its environment, by number and start time. One is
ended when it belongs to this very home and its gateway is gone. Linux only: elsewhere nothing can be proved,
so nothing is ended.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from backends.qmd.home import QmdHome

_VARIABLE: Final = "MEMORY_GATEWAY_PROCESS"


def owner_variables() -> dict[str, str]:
    """What tells of a process that this gateway has started it; nothing where that cannot be told."""
    started = _start_time(os.getpid())
    return {} if started is None else {_VARIABLE: f"{os.getpid()}:{started}"}


def end_orphans(home: QmdHome) -> list[int]:
    """Ends what gateways that are gone have left running; the processes that were ended. Blocks."""
    ended = []
    mark = f"QMD_CONFIG_DIR={home.config_dir}".encode()
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            variables = (directory / "environ").read_bytes().split(b"\0")
            if mark in variables and _is_orphan(variables):
                os.kill(int(directory.name), signal.SIGKILL)
                ended.append(int(directory.name))
    return ended


def _is_orphan(variables: list[bytes]) -> bool:
    """Whether a gateway is named that does not run any more."""
    for one in variables:
        name, _, owner = os.fsdecode(one).partition("=")
        if name == _VARIABLE:
            pid, _, started = owner.partition(":")
            return pid.isdigit() and str(_start_time(int(pid))) != started
    return False


def _start_time(pid: int) -> int | None:
    """In clock ticks since the machine's start; None when no such process runs, or nobody can know."""
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name of the program, in brackets, may hold anything.
        state, *fields = text.rpartition(")")[2].split()
        return None if state == "Z" else int(fields[18])
    return None
