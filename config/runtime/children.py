"""Child processes: each leads a group of its own, and none of the group outlives its use."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import Process

from config.runtime import PROC


async def start_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    directory: str,
    channel: int | None = None,
) -> Process:
    """Starts a command in a directory, with pipes for its three streams. End it with `end_child`.

    A `channel` replaces its input and its output, and its standard error is discarded. Input typed at the gateway's
    terminal does not reach it. Raises OSError if it cannot be started.
    """
    ends = subprocess.PIPE if channel is None else channel
    # Cancelled half-way, it would leave an unknown process behind.
    with anyio.CancelScope(shield=True):
        child = await anyio.open_process(
            list(command),
            stdin=ends,
            stdout=ends,
            stderr=subprocess.PIPE if channel is None else subprocess.DEVNULL,
            env=dict(environment),
            cwd=directory,
            start_new_session=True,
        )
    return child  # noqa: RET504 - for mypy the scope may swallow the return


def kill_group(child: Process) -> None:
    """Kills what is left of the child's group, if anything."""
    # Not by the process object: it would poll the process, and take the exit status away
    # from the event loop, which waits for it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


async def end_child(child: Process) -> None:
    """Kills the group, closes the pipes and waits for the child's end, also in a task that is cancelled.

    Children here keep nothing that a kill could damage, so none is asked to end first.
    """
    with anyio.CancelScope(shield=True):
        kill_group(child)
        await child.aclose()


def resident_bytes(pid: int) -> int | None:
    """Returns the resident memory of a process; None if it has ended, or the system does not report it."""
    try:
        pages = Path(f"{PROC}/{pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
