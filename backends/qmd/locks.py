"""Locks between processes, as files: one change of an index at a time, one embedding run a machine.

The kernel gives a lock back when its holder ends, however it ends.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

from config.disk.locking import open_lock, try_lock

_POLL_S: Final = 0.1


@asynccontextmanager
async def file_lock(path: Path) -> AsyncIterator[None]:
    """Waits until nobody else holds the lock. Raises OSError when the file cannot be opened."""
    descriptor = open_lock(path)
    try:
        while not try_lock(descriptor):  # noqa: ASYNC110 - another process sets no event
            await anyio.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)
