"""Counts the arenas that glibc's malloc has made in a process, by its memory map."""

from __future__ import annotations

from pathlib import Path

_HEAP = 64 << 20


def arenas_of(pid: int | str) -> int:
    """Returns their number, with the first one, which has no mapping of its own.

    Each of the others is mapped at a multiple of 64 MiB: a part in use, then one that is not accessible.
    """
    ends: dict[int, int] = {}
    found = 1
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
        place, access, *_ = line.split()
        start, end = (int(part, 16) for part in place.split("-"))
        if access == "rw-p" and start % _HEAP == 0:
            ends[end] = start
        elif access == "---p" and start in ends:
            found += end - ends[start] == _HEAP
    return found
