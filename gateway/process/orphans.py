"""Whether the process that started this one is gone already.

Who that process is has to be asked before anything that takes time is imported: `gateway.__main__`
imports this module first, and this module imports nothing of ours.
"""

from __future__ import annotations

import os

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
