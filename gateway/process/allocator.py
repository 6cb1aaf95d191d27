"""glibc's malloc: a limit on its arenas, and the memory that it keeps although nothing is in it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import anyio

from config.runtime import IS_LINUX
from config.runtime.tasks import BoundedWork

MOST_ARENAS: Final = 2
_VARIABLE: Final = "MALLOC_ARENA_MAX"
_M_ARENA_MAX: Final = -8
"""From glibc's malloc.h."""


def limit_arenas() -> None:
    """Limits the arenas, before this process starts threads. glibc's own variable takes precedence."""
    mallopt = _function("mallopt")
    if mallopt is not None and _VARIABLE not in os.environ:
        mallopt(_M_ARENA_MAX, MOST_ARENAS)


GIVE_BACK_EVERY_S: Final = 60.0
_PATIENCE_S: Final = 10.0
"""It takes a millisecond or two."""


async def give_back_regularly(every_s: float = GIVE_BACK_EVERY_S) -> None:
    """Gives free pages back to the system, until cancelled. By itself malloc only does so at the end of an arena, where
    one small block that stays is enough to keep all below it.
    """
    trim = _function("malloc_trim")
    if trim is None:
        return
    work = BoundedWork("giving back of memory")
    while True:
        await anyio.sleep(every_s)
        with suppress(TimeoutError):  # the next time does
            await work.run(partial(trim, 0), _PATIENCE_S)


def _function(name: str) -> Callable[..., int] | None:
    """Returns a function of glibc; None with another C library."""
    return getattr(ctypes.CDLL(None), name, None) if IS_LINUX else None
