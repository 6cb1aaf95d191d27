"""What the process asks of the kernel and the runtime at its start: no core dumps, few arenas, a lazy collector."""

from __future__ import annotations

import gc
import os
import resource
import sys
from typing import Final

from config.runtime.system import IS_LINUX

MOST_ARENAS: Final = 2
_VARIABLE: Final = "MALLOC_ARENA_MAX"
_M_ARENA_MAX: Final = -8
"""From glibc's malloc.h."""


def limit_arenas() -> None:
    """For this process, before it starts threads. Who set glibc's own variable decides; elsewhere nothing."""
    if not IS_LINUX or _VARIABLE in os.environ:
        return
    import ctypes  # noqa: PLC0415 - costs a millisecond, and only this process needs it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        mallopt(_M_ARENA_MAX, MOST_ARENAS)


def forbid_core_dumps() -> None:
    """For this process and its children. A hard limit stays, so that a debugger may raise it again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


SWITCH_S: Final = 0.0005


def share_interpreter() -> None:
    """A thread that answers waits for its turn at each step while another one indexes: a tenth of Python's own
    interval is a tenth of that wait.
    """
    sys.setswitchinterval(SWITCH_S)


NEW_OBJECTS: Final = 5_000
"""Made and not freed since the last look at the young ones."""


def settle_collector() -> None:
    """Collects from now on. What exists by now stays until the end, and is never looked at."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
