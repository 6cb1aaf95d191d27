"""The inputs that are kept for each target: a small set that reaches what is known, and every found case.

Files are named after their content; what once failed is named `found-...` and is never dropped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fuzzing.coverage import Lines, lines_reached
from fuzzing.registry import Target

CORPORA: Final = Path(__file__).parents[2] / "tests/corpora"
FOUND: Final = "found-"


def directory(name: str) -> Path:
    return CORPORA / name


def inputs(place: Path) -> list[bytes]:
    """Smallest first."""
    if not place.is_dir():
        return []
    return sorted(
        (path.read_bytes() for path in place.iterdir()), key=lambda data: (len(data), data)
    )


def keep_found(name: str, data: bytes) -> Path:
    path = directory(name) / f"{FOUND}{_mark(data)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def distil(name: str, target: Target, candidates: Iterable[bytes]) -> Lines:
    """Keeps the inputs that reach a line which no smaller one reaches; returns all lines reached."""
    place = directory(name)
    place.mkdir(parents=True, exist_ok=True)
    kept: dict[str, bytes] = {}
    reached: set[tuple[str, int, int]] = set()
    for data in sorted({*candidates, *inputs(place)}, key=lambda data: (len(data), data)):
        new = lines_reached(target, data) - reached
        if new:
            reached |= new
            kept[_mark(data)] = data
    for path in place.iterdir():
        if not path.name.startswith(FOUND):
            path.unlink()
    for mark, data in kept.items():
        if not (place / f"{FOUND}{mark}").exists():
            (place / mark).write_bytes(data)
    return frozenset(reached)


def _mark(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
