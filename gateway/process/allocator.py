"""How the C library keeps memory that was given back.

glibc gives each thread an arena of its own, up to eight a core, and what is freed in one is of no use to
another: worker threads that come and go make a long-lived process grow for hours though it needs no
more. Two arenas are enough here, as most allocations are made by one thread at a time.
"""

from __future__ import annotations

import os
import sys
from typing import Final

MOST_ARENAS: Final = 2
_VARIABLE: Final = "MALLOC_ARENA_MAX"
_M_ARENA_MAX: Final = -8
"""From glibc's malloc.h."""


def limit_arenas() -> None:
    """For this process, before it starts threads. Who set glibc's own variable decides; elsewhere nothing."""
    if sys.platform != "linux" or _VARIABLE in os.environ:
        return
    import ctypes  # noqa: PLC0415 - costs a millisecond, and only this process needs it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        mallopt(_M_ARENA_MAX, MOST_ARENAS)
