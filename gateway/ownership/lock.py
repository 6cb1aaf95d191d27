"""The lock on one index, and where its owner is. Commands import it to ask: it loads neither a store nor logs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from backends.backend_errors import IndexUnavailableError, index_denied
from backends.builtin.store.opening import owner_lock
from config.paths import runtime_dir
from config.runtime.files import make_directories, try_lock_file
from config.runtime.tasks import BoundedWork
from config.settings import Settings

T = TypeVar("T")

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
            raise index_denied(path, error, "locked") from error
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
    return name_process(owner.pid if owner else None)


def name_process(pid: int | None) -> str:
    """The owner as the subject of a sentence; None: it is not known which process that is."""
    return f"Process {pid}, which owns the index," if pid else OWNER


def check_workspace(path: Path, workspace: Path) -> None:
    """Raises IndexUnavailableError when the owner serves another workspace from this index."""
    owner = read_owner(path)
    if owner is not None and owner.workspace != str(workspace):
        raise IndexUnavailableError(
            f"Process {owner.pid} owns this index, for the workspace {owner.workspace}.",
            remedy=f"Ask it with --workspace {owner.workspace}, or end it. Another workspace needs another --agent, "
            "--state-dir or store.path.",
        )


DISK_PATIENCE_S: Final = 10.0
"""How long the disk of lock and sockets may take to answer."""


OWNER_PATIENCE_S: Final = 10.0
"""How long open requests wait for an owner, and for one that is silent; opening an index takes far less."""


def disk_hangs() -> IndexUnavailableError:
    return IndexUnavailableError(
        f"The disk of the index did not answer within {DISK_PATIENCE_S:g} s.",
        remedy="See whether the mount that the state directory is on hangs.",
    )


class LockDisk:
    """What is done with the lock of an index and the files beside it, away from the event loop.

    Belongs to one event loop. One piece at a time: behind one that hangs nothing else is begun.
    """

    def __init__(self) -> None:
        self._work = BoundedWork("lock of the index")

    async def run(
        self, work: Callable[[], T], *, discard: Callable[[T], object] | None = None
    ) -> T:
        """Raises IndexUnavailableError when the disk does not answer."""
        patience_s = DISK_PATIENCE_S
        try:
            return await self._work.run(work, patience_s, queue_s=patience_s, discard=discard)
        except TimeoutError:
            raise disk_hangs() from None

    async def acquire(self, path: Path) -> OwnerLock | None:
        """As `OwnerLock.acquire`; a lock that comes too late is given back."""

        def give_back(lock: OwnerLock | None) -> None:
            if lock is not None:
                lock.release()

        return await self.run(partial(OwnerLock.acquire, path), discard=give_back)


class OwnerPlace(msgspec.Struct, frozen=True):
    lock: Path
    sockets: tuple[Path, ...]
    """Where the socket may be, best first."""


def place_of(settings: Settings, environment: Mapping[str, str] = os.environ) -> OwnerPlace:
    """The place of the index that these settings mean. Two indexes never share one."""
    lock = owner_lock(settings)
    mark = hashlib.blake2s(os.fsencode(lock), digest_size=4).hexdigest()
    name = f"{settings.agent_id}-{mark}.sock"
    usual = runtime_dir(environment, state=settings.state_dir, uid=os.getuid())
    directories = dict.fromkeys((usual, settings.state_dir / "run"))
    return OwnerPlace(
        lock=lock,
        sockets=tuple(directory / name for directory in directories),
    )
