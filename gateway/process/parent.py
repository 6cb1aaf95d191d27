"""Ends with the process that started us, also when our input stays open.

Owns noticing that the parent is gone. A chat gateway that is killed leaves its end of the pipe to
whoever else holds it, so end of input is not enough.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import anyio
import structlog

from gateway.process.orphans import OUTSIDE, is_orphan

_log = structlog.get_logger(__name__)

_POLL_S: Final = 0.5


async def end_with_parent(parent: int, shutdown: anyio.Event) -> None:
    """Sets `shutdown` once `parent`, as `os.getppid()` gave it first, is gone."""
    if parent == OUTSIDE:
        return
    if not is_orphan(parent):
        await _outlive(parent)
    _log.info("stopping", cause="the process that started this one is gone")
    shutdown.set()


async def _outlive(parent: int) -> None:
    with suppress(OSError, AttributeError):  # an older kernel, another system
        descriptor = os.pidfd_open(parent)
        try:
            if os.getppid() == parent:
                await anyio.wait_readable(descriptor)
        finally:
            os.close(descriptor)
        return
    while os.getppid() == parent:  # noqa: ASYNC110 - another process sets no event
        await anyio.sleep(_POLL_S)
