"""No core dumps: the memory of the process holds keys and notes, and a dump would leave them on disk."""

from __future__ import annotations

import resource


def forbid_core_dumps() -> None:
    """For this process and its children. A hard limit stays, so that a debugger may raise it again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
