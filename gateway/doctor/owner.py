"""Whether a gateway owns the index, and whether it answers.

Never takes the lock, not even for a moment: a gateway that starts meanwhile must be able to own it. A
record without a living owner is harmless, since the kernel has freed the lock.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

from config.errors import MemoryGatewayError
from config.settings import Settings
from gateway.client import connect
from gateway.doctor.finding import Finding, Severity
from gateway.ownership.lock import OwnerRecord, check_workspace, read_owner
from gateway.ownership.places import place_of
from gateway.ownership.sockets import connect_owner

_TIMEOUT_S: Final = 2.0
_SEVERITIES: Final[dict[str, Severity]] = {"ok": "ok", "degraded": "warning", "failing": "error"}
_OTHERS: Final = 0o077


async def check_owner(settings: Settings) -> list[Finding]:
    lock = place_of(settings).lock
    record = read_owner(lock)
    if record is None:
        cause = "No gateway runs for this index; commands open it themselves."
        return [Finding(check="owner", severity="ok", cause=cause, place=str(lock))]
    stream = await connect_owner(lock)
    if stream is None:
        return [_unreachable(record, lock)]
    try:
        async with stream, connect(stream, stream) as client:
            check_workspace(lock, settings.workspace)
            health = await client.call("health", timeout_s=_TIMEOUT_S)
    except MemoryGatewayError as error:
        return [_broken(record, lock, error)]
    return [_answers(record, health), *_open_socket(record)]


def _unreachable(record: OwnerRecord, lock: Path) -> Finding:
    if not _lives(record.pid):
        cause = f"Process {record.pid}, which owned the index, is gone; the next start takes over."
        return Finding(check="owner", severity="note", cause=cause, place=str(lock))
    if record.socket is None:
        cause = f"Process {record.pid} owns the index and could not make a socket."
    else:
        cause = f"Process {record.pid} owns the index, and nobody listens at its socket."
    return Finding(
        check="owner",
        severity="warning",
        cause=f"{cause} Other processes cannot ask it.",
        place=record.socket or str(lock),
        fix=f"See its log, then end it (kill {record.pid}) and start it again; "
        "a socket needs a private directory, such as XDG_RUNTIME_DIR.",
    )


def _broken(record: OwnerRecord, lock: Path, error: MemoryGatewayError) -> Finding:
    return Finding(
        check="owner",
        severity="error",
        cause=f"The owner of the index (process {record.pid}) does not serve us: {error.message}",
        place=record.socket or str(lock),
        fix=error.remedy or f"End it (kill {record.pid}) and start it again.",
    )


def _answers(record: OwnerRecord, health: dict[str, Any]) -> Finding:
    state = health["status"]
    reasons = " ".join(health["reasons"])
    return Finding(
        check="owner",
        severity=_SEVERITIES[state],
        cause=f"Process {record.pid} owns the index and is {state}. {reasons}".rstrip(),
        place=record.socket,
        fix=None
        if state == "ok"
        else "See the other findings; `memory-gateway reload` tries again.",
    )


def _open_socket(record: OwnerRecord) -> list[Finding]:
    """The directory guards the socket: others must not even enter it."""
    assert record.socket is not None
    directory = Path(record.socket).parent
    mode = stat.S_IMODE(directory.stat().st_mode)
    if not mode & _OTHERS:
        return []
    return [
        Finding(
            check="owner",
            severity="warning",
            cause=f"Others can enter the directory of the socket (mode {mode:03o}).",
            place=str(directory),
            fix=f"chmod 700 {directory}",
        )
    ]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, and alive
    return True
