"""Locks between processes, as files: one change of an index at a time, one embedding run a machine.

The kernel gives a lock back when its holder ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

_POLL_S: Final = 0.1
_FLAGS: Final = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


@asynccontextmanager
async def file_lock(path: Path) -> AsyncIterator[None]:
    """Waits until nobody else holds the lock. Raises OSError when the file cannot be opened."""
    descriptor = open_lock(path)
    try:
        while not _try_lock(descriptor):  # noqa: ASYNC110 - another process sets no event
            await anyio.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def open_lock(path: Path) -> int:
    """A descriptor of the file that is locked. Raises OSError."""
    return os.open(path, _FLAGS, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
