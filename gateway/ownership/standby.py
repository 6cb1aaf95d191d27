"""Waits beside the owner of an index, and takes its place when it is gone.

Owns noticing and taking over. Of several processes that wait the one that gets the lock first becomes
the owner; the others wait on, beside it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
import structlog

from config.errors import MemoryGatewayError
from gateway.ownership.lock import OwnerLock
from gateway.ownership.sockets import connect_owner

_log = structlog.get_logger(__name__)

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0

Own = Callable[[OwnerLock], Awaitable[None]]
"""Owns the index until the process ends; releases the lock however it returns."""


async def stand_by(lock_path: Path, own: Own, ending: anyio.Event) -> None:
    """Returns once `ending` is set and, if this process became the owner, `own` has returned."""
    pause_s = _FIRST_PAUSE_S
    while not ending.is_set():
        try:
            lock = OwnerLock.acquire(lock_path)
            if lock is not None:
                _log.info("taking over", lock=str(lock_path))
                await own(lock)
                continue
            if await _outlast(lock_path, ending):
                pause_s = _FIRST_PAUSE_S
        except MemoryGatewayError as error:
            _log.warning("cannot take over", error=str(error), kind=error.kind)
        with anyio.move_on_after(pause_s):
            await ending.wait()
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _outlast(lock_path: Path, ending: anyio.Event) -> bool:
    """Whether there was an owner to wait for. Returns when it is gone, or `ending` is set."""
    stream = await connect_owner(lock_path)
    if stream is None:
        return False
    async with stream, anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_at, ending, tasks.cancel_scope)
        try:
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            tasks.cancel_scope.cancel()
    return True


async def _cancel_at(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
