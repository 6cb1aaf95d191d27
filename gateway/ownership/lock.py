"""The lock on one index: whoever holds it owns the index.

Owns the lock file and the record of its holder in it. The kernel takes the lock from a process that
ends, however it ends, so a lock is never stale; a record may be, and is then only a hint that leads
nowhere. The file itself stays: deleting it would let two processes lock two files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from backends.errors import IndexUnavailableError
from config.disk.locking import try_lock_file
from config.disk.making import foreign_owner, make_directories

OWNER: Final = "The gateway that owns the index"
_MAX_RECORD_BYTES: Final = 65_536


class OwnerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who owns the index, for those who come later."""

    pid: int
    workspace: str
    socket: str | None = None
    """None: the owner could not make one, and only its own client reaches it."""


class OwnerLock:
    """Held from `acquire` to `release`, or to the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, path: Path) -> OwnerLock | None:
        """The lock, or None when somebody else holds it; never waits.

        On a file system without locks everybody gets it, as with the index itself. Raises
        IndexUnavailableError when there cannot be a lock file.
        """
        try:
            make_directories(path.parent)
            descriptor = try_lock_file(path, lenient=True)
        except OSError as error:
            owner = foreign_owner(path)
            whose = f" It belongs to {owner}." if owner else ""
            remedy = "Check the permissions of its directory, or set memorySearch.store.path."
            if owner:
                remedy = f"Give it back with: sudo chown -R {os.geteuid()} {path.parent}"
            raise IndexUnavailableError(
                f"The index cannot be locked: {path}: {error.strerror}.{whose}", remedy=remedy
            ) from error
        return None if descriptor is None else cls(descriptor)

    def announce(self, record: OwnerRecord) -> None:
        """Tells others how to reach the owner. Raises OSError."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, msgspec.json.encode(record), 0)

    def release(self) -> None:
        try:
            os.ftruncate(self._descriptor, 0)
        finally:
            os.close(self._descriptor)


def read_owner(path: Path) -> OwnerRecord | None:
    """What the lock file says; None when it says nothing (yet). The holder may be dead."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_RECORD_BYTES), type=OwnerRecord)
    except (OSError, msgspec.DecodeError):
        return None


def name_owner(path: Path) -> str:
    """The owner as the subject of a sentence, which begins with it."""
    owner = read_owner(path)
    return OWNER if owner is None else f"Process {owner.pid}, which owns the index,"


def check_workspace(path: Path, workspace: Path) -> None:
    """Raises IndexUnavailableError when the owner serves another workspace from this index."""
    owner = read_owner(path)
    if owner is not None and owner.workspace != str(workspace):
        raise IndexUnavailableError(
            f"Process {owner.pid} owns this index, for the workspace {owner.workspace}.",
            remedy="End that process, or choose another --state-dir, --agent or "
            "memorySearch.store.path for this workspace.",
        )
