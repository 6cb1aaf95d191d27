"""Telling others how to reach the owner, also when the disk is full just now.

Owns the repetition. An owner that cannot write its record serves its own client all the same; guests
wait for the record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import structlog

from config.groups import ungrouped
from gateway.ownership.lock import OwnerLock, OwnerRecord

_log = structlog.get_logger(__name__)

_PAUSE_S: Final = 1.0


@asynccontextmanager
async def announced(lock: OwnerLock, record: OwnerRecord) -> AsyncIterator[None]:
    """The record stands in the lock file while the body runs, as soon as it can be written."""
    problem = _announce(lock, record)
    if problem is None:
        yield
        return
    _log.warning("the owner of the index is not announced yet", error=str(problem))
    with ungrouped():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_announce_later, lock, record)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()


async def _announce_later(lock: OwnerLock, record: OwnerRecord) -> None:
    while True:
        await anyio.sleep(_PAUSE_S)
        if _announce(lock, record) is None:
            _log.info("the owner of the index is announced")
            return


def _announce(lock: OwnerLock, record: OwnerRecord) -> OSError | None:
    try:
        lock.announce(record)
    except OSError as error:
        return error
    return None
