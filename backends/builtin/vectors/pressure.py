"""Whether this machine, or the control group we are in, is short of memory.

Owns the reading of Linux' pressure stall information: the share of time in which some task waited for
memory, averaged over ten seconds. Where the system does not tell, memory is taken to be plentiful.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

STALLED_PERCENT: Final = 10.0
_PROC: Final = Path("/proc")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_SOME: Final = re.compile(r"^some avg10=([0-9.]+)", re.MULTILINE)


def memory_is_short(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> bool:
    """Reads two small files; never raises."""
    return any(_stalled(path) >= STALLED_PERCENT for path in _sources(proc, cgroups))


def _sources(proc: Path, cgroups: Path) -> Iterator[Path]:
    yield proc / "pressure" / "memory"
    try:
        groups = (proc / "self" / "cgroup").read_text(encoding="utf-8")
    except OSError:
        return
    for line in groups.splitlines():
        if line.startswith("0::/"):
            yield cgroups / line.removeprefix("0::/") / "memory.pressure"


def _stalled(path: Path) -> float:
    try:
        found = _SOME.search(path.read_text(encoding="utf-8"))
    except OSError:
        return 0.0
    return float(found[1]) if found else 0.0
