"""The first steps of the process: its parent, limits of the kernel, codecs, a lazy collector.

The parent has to be looked up before anything that takes time is imported: `gateway.__main__` imports this
module first.
"""

from __future__ import annotations

import codecs
import gc
import os
import resource
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, TypeVarTuple

PARENT = os.getppid()
"""The parent of this process at its start: later its parent may be a stranger."""
OUTSIDE = 0
"""The parent as seen from a process namespace that it is not in: nothing is known of it."""


def is_orphan(parent: int) -> bool:
    """Returns whether `parent`, as `os.getppid()` gave it first, cannot be or no longer is what started us.

    A child is in the session of its parent unless it leads one itself; a process that does neither was handed
    over to a stranger before it could look. In a container whose first process is in our session that stranger
    cannot be distinguished from a parent: then only the end of the input, or a signal, ends this process.
    """
    if parent == OUTSIDE:
        return False
    try:
        session = os.getsid(0)
        return session not in (os.getpid(), os.getsid(parent)) or os.getppid() != parent
    except ProcessLookupError:
        return True


def forbid_core_dumps() -> None:
    """Forbids core dumps of this process and its children. The hard limit stays: a debugger may raise it again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


CODECS: Final = ("utf-16-le", "utf-16-be", "utf-8-sig", "windows-1252")
"""The codecs that Python reads from a file when they are first used."""


def load_codecs() -> None:
    """Loads codecs while descriptors are available. A codec that two threads look up while there is none stays unknown
    to Python until the process ends, however many there are later.
    """
    for name in CODECS:
        codecs.lookup(name)


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run_loop(work: Callable[[*Ts], Awaitable[T]], *arguments: *Ts) -> T:
    """Runs `work` in an event loop, which Ctrl-C cancels.

    The loop handles SIGINT only where Python's own handler is set, so that one is set meanwhile. For the main thread.
    """
    import signal  # noqa: PLC0415 - what needs no loop does without these

    import anyio  # noqa: PLC0415

    ours = signal.getsignal(signal.SIGINT)
    if not callable(ours):  # it is ignored
        return anyio.run(work, *arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return anyio.run(work, *arguments)
    finally:
        signal.signal(signal.SIGINT, ours)


SWITCH_S: Final = 0.0005


def share_interpreter() -> None:
    """Lets threads take turns ten times as often as Python does by itself: while one indexes, a thread that answers
    waits for its turn at each step.
    """
    sys.setswitchinterval(SWITCH_S)


NEW_OBJECTS: Final = 5_000
"""The number of objects, made and not freed since the last look at the young ones, that causes the next look."""


def settle_collector() -> None:
    """Starts the garbage collector. Objects that exist by now stay until the end, and are never looked at."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
