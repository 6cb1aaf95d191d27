"""What the process asks and settles at its start: its parent, the kernel, codecs, a lazy collector.

Who started this process has to be asked before anything that takes time is imported: `gateway.__main__` imports this
module first.
"""

from __future__ import annotations

import codecs
import gc
import os
import resource
import sys
from typing import Final

PARENT = os.getppid()
"""Whose child this process was at first: later it may be that of a stranger."""
OUTSIDE = 0
"""The parent as seen from a process namespace that it is not in: nothing is known of it."""


def is_orphan(parent: int) -> bool:
    """Whether `parent`, as `os.getppid()` gave it first, cannot be or no longer is the one that started us.

    A child is in the session of its parent unless it leads one itself; who is neither was handed
    over to a stranger before it could look. In a container whose first process is in our session that
    stranger cannot be told from a parent: then only the end of the input, or a signal, ends this one.
    """
    if parent == OUTSIDE:
        return False
    try:
        session = os.getsid(0)
        return session not in (os.getpid(), os.getsid(parent)) or os.getppid() != parent
    except ProcessLookupError:
        return True


MOST_ARENAS: Final = 2
_VARIABLE: Final = "MALLOC_ARENA_MAX"
_M_ARENA_MAX: Final = -8
"""From glibc's malloc.h."""


def limit_arenas() -> None:
    """For this process, before it starts threads. Who set glibc's own variable decides; elsewhere nothing."""
    from config.runtime import IS_LINUX  # noqa: PLC0415 - behind the question who the parent is

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


CODECS: Final = ("utf-16-le", "utf-16-be", "utf-8-sig", "windows-1252")
"""Those that Python reads from a file when they are first used."""


def load_codecs() -> None:
    """While descriptors can be had. A codec that two threads look up while there is none stays unknown to Python until
    the process ends, however many there are later.
    """
    for name in CODECS:
        codecs.lookup(name)


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
