"""Gateways that hooks started and that stay: nothing ends them, so a test has to end its own."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def staying(below: Path) -> list[int]:
    """Returns the processes of those whose arguments name a path below this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "--serve" in words and any(one.startswith(f"{below}/") for one in words):
                found.append(int(entry.name))
    return found


def end_staying(below: Path) -> None:
    for process in staying(below):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
