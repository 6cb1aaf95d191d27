"""Numbers and paths as people read them. Pure."""

from __future__ import annotations

import os
from typing import Final

_KILO: Final = 1000
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`, `12,000 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """Bytes in decimal units: `812 B`, `1.2 MB`."""
    for unit in _UNITS[:-1]:
        if number < _KILO:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= _KILO
    return f"{number:.1f} {_UNITS[-1]}"


def duration(milliseconds: float) -> str:
    """`8 ms`, `0.42 s`, `3 min 5 s`."""
    if milliseconds < 100:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.2f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def short_path(path: str, home: str | None = None) -> str:
    """The path with the home directory as `~`."""
    home = (home or os.path.expanduser("~")).rstrip("/")  # noqa: PTH111 - never raises
    if home and (path == home or path.startswith(home + "/")):
        return "~" + path[len(home) :]
    return path
