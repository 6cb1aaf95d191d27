"""Telling what an existing file at the index's place is, without opening it as a database.

Owns the verdict (ours, another schema of ours, damaged, somebody else's) and the name to use when the
place is taken. Reads at most the 100 bytes of SQLite's header.
"""

from __future__ import annotations

import stat
import struct
from enum import Enum, auto
from pathlib import Path
from typing import Final

from backends.builtin.storage.schema import APPLICATION_ID, SCHEMA_VERSION

MARK: Final = ".memory-gateway"
"""Before the suffix of a name, by which nobody takes the file for his."""
_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100
_USER_VERSION_AT: Final = 60
_APPLICATION_ID_AT: Final = 68


class Verdict(Enum):
    ABSENT = auto()
    """No file, or an empty one: free to use."""
    OURS = auto()
    OURS_OLDER = auto()
    """Made by an earlier release: it is emptied and filled again."""
    OURS_NEWER = auto()
    """Made by a later release: left alone."""
    FOREIGN = auto()
    """Not an index of this program, or not even a file: left alone."""


def judge(path: Path) -> Verdict:
    """What the file at `path` is. Raises OSError when it cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its other end
            return Verdict.FOREIGN
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return Verdict.ABSENT
    if not header:
        return Verdict.ABSENT
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        return Verdict.FOREIGN
    (application_id,) = struct.unpack_from(">I", header, _APPLICATION_ID_AT)
    (version,) = struct.unpack_from(">I", header, _USER_VERSION_AT)
    if application_id != APPLICATION_ID:
        return Verdict.FOREIGN
    if version == SCHEMA_VERSION:
        return Verdict.OURS
    return Verdict.OURS_NEWER if version > SCHEMA_VERSION else Verdict.OURS_OLDER


def choose_path(wanted: Path) -> tuple[Path, Verdict, tuple[str, ...]]:
    """The first usable path among `wanted` and its siblings, its verdict, and notes for `status`.

    A sibling has `.memory-gateway` before its suffix (`main.memory-gateway.sqlite`), the next ones also
    a number; where `wanted` has it already, the numbers follow at once. Raises OSError.
    """
    notes: list[str] = []
    path = wanted
    stem = wanted.stem.removesuffix(MARK)
    number = 1 if stem == wanted.stem else 2
    while (verdict := judge(path)) in {Verdict.FOREIGN, Verdict.OURS_NEWER}:
        owner = "a later release" if verdict is Verdict.OURS_NEWER else "another program"
        mark = MARK if number == 1 else f"{MARK}-{number}"
        following = wanted.with_name(f"{stem}{mark}{wanted.suffix}")
        notes.append(
            f"{path} belongs to {owner} and is left alone; using {following.name} beside it."
        )
        path, number = following, number + 1
    return path, verdict, tuple(notes)
