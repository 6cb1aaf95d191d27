"""The owner of an index: its lock, where it is reached, and who is at the other end of a socket.

Commands import this module to ask, so it loads neither a store nor logs. The lock file names a place, and a user who
may write there may put a socket of their own in it. So its directory has to be closed to other users, and the system
has to say that this user, or root, is at the other end: both sides ask before the first byte.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Final, TypeVar

import msgspec

from backends.builtin.store.opening import owner_lock
from backends.interface import IndexUnavailableError, index_denied
from config.paths import runtime_dir
from config.runtime import IS_LINUX, PROC
from config.runtime.decoding import prepared
from config.runtime.files import make_directories, name_of_user, stands_at, try_lock_file
from config.runtime.tasks import BoundedWork
from config.settings import Settings

T = TypeVar("T")

OWNER: Final = "The gateway that owns the index"
_MAX_RECORD_BYTES: Final = 65_536


class OwnerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of the index, for processes that start later."""

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
        """Returns the lock, or None when somebody else holds it; never waits.

        On a file system without locks everybody gets it, as with the index itself. Raises
        IndexUnavailableError when there cannot be a lock file.
        """
        try:
            make_directories(path.parent)
            descriptor = try_lock_file(path, lenient=True)
        except OSError as error:
            raise index_denied(path, error, "locked") from error
        return None if descriptor is None else cls(descriptor)

    def stands_at(self, path: Path) -> bool:
        """Returns whether its file is still the one at the path: a deleted one keeps nobody else away. Blocks."""
        try:
            return stands_at(path, self._descriptor)
        except OSError:  # the disk may be away for a while
            return True

    def announce(self, record: OwnerRecord) -> None:
        """Writes for others how to reach the owner. Raises OSError."""
        text = msgspec.json.encode(record)
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))

    def release(self) -> None:
        """Releases the lock. The file keeps its size, so that the next owner can be announced on a full disk."""
        try:
            os.pwrite(self._descriptor, b" " * os.fstat(self._descriptor).st_size, 0)
        finally:
            os.close(self._descriptor)


def read_owner(path: Path) -> OwnerRecord | None:
    """Returns the record in the lock file; None when there is none (yet). The holder may be dead."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_RECORD_BYTES), type=prepared(OwnerRecord))
    except (OSError, msgspec.DecodeError):
        return None


def name_owner(path: Path) -> str:
    """Returns the owner as the subject of a sentence, which begins with it."""
    owner = read_owner(path)
    return name_process(owner.pid if owner else None)


def name_process(pid: int | None) -> str:
    """Returns the owner as the subject of a sentence; None: it is not known which process that is."""
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
"""The time limit for the disk of lock and sockets to answer."""
OWNER_PATIENCE_S: Final = 10.0
"""The longest wait of open requests for an owner, and for a silent one; opening an index takes far less."""


def disk_hangs() -> IndexUnavailableError:
    return IndexUnavailableError(
        f"The disk of the index did not answer within {DISK_PATIENCE_S:g} s.",
        remedy="See whether the mount that the state directory is on hangs.",
    )


class LockDisk:
    """Works on the lock of an index and the files beside it, away from the event loop.

    Belongs to one event loop. Does one thing at a time: while one hangs, no other is begun.
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
        """Acquires the lock as `OwnerLock.acquire` does; one that comes too late is released."""

        def give_back(lock: OwnerLock | None) -> None:
            if lock is not None:
                lock.release()

        return await self.run(partial(OwnerLock.acquire, path), discard=give_back)


class OwnerPlace(msgspec.Struct, frozen=True):
    lock: Path
    sockets: tuple[Path, ...]
    """The places where the socket may be, best first."""


def place_of(settings: Settings, environment: Mapping[str, str] = os.environ) -> OwnerPlace:
    """Returns the place of the index that these settings mean. Two indexes never share one."""
    lock = owner_lock(settings)
    mark = hashlib.blake2s(os.fsencode(lock), digest_size=4).hexdigest()
    name = f"{settings.agent_id}-{mark}.sock"
    usual = runtime_dir(environment, state=settings.state_dir, uid=os.getuid())
    directories = dict.fromkeys((usual, settings.state_dir / "run"))
    return OwnerPlace(lock=lock, sockets=tuple(directory / name for directory in directories))


# --- Who is at the other end ---

_OTHERS_WRITE: Final = 0o022
_ROOT: Final = 0


class UntrustedSocketError(IndexUnavailableError):
    """Another user may be, or is, at the other end of a socket: nothing was sent."""


class Peer(msgspec.Struct, frozen=True):
    """The process at the other end of a socket; None is what the system does not say."""

    pid: int | None = None
    uid: int | None = None


def peer_of(connection: socket.socket) -> Peer:
    """Returns the process that connected, or that listened when we did."""
    if IS_LINUX:
        return _peer_on_linux(connection)
    is_bsd = sys.platform.startswith(("darwin", "freebsd"))
    return _peer_on_bsd(connection) if is_bsd else Peer()


_UCRED: Final = "iII"
"""Process, user, group, as `SO_PEERCRED` gives them."""
_XUCRED: Final = "IIh16I"
"""Version, user, number of groups, groups, as `LOCAL_PEERCRED` of macOS and FreeBSD gives them."""
_XUCRED_VERSION: Final = 0
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1


def _peer_on_linux(connection: socket.socket) -> Peer:
    size = struct.calcsize(_UCRED)
    try:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    except OSError:
        return Peer()
    pid, uid, _group = struct.unpack(_UCRED, credentials)
    return Peer(pid, uid)


def _peer_on_bsd(connection: socket.socket) -> Peer:
    try:
        found = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, struct.calcsize(_XUCRED))
        version, uid = struct.unpack_from("II", found)
    except (OSError, struct.error):
        return Peer()
    return Peer(uid=uid) if version == _XUCRED_VERSION else Peer()


class OwnerSocket(msgspec.Struct, frozen=True):
    """The place where the owner of an index listens, and the users that it may run as."""

    path: Path
    users: frozenset[int]

    def check(self, connection: socket.socket) -> None:
        """Checks a connection before anything is sent. Raises UntrustedSocketError.

        Where the system does not say who listens, the directory alone decides.
        """
        peer = peer_of(connection)
        if peer.uid is not None and peer.uid not in self.users:
            who = f"process {peer.pid} of user" if peer.pid else "user"
            raise _untrusted(
                self.path,
                f"{who} {name_of_user(peer.uid)} listens there",
                f"End that process, remove {self.path.parent}, and start the gateway again.",
            )


def find_owner_socket(lock: Path) -> OwnerSocket | None:
    """Returns the socket that the lock file names, if it is there. Blocks.

    Raises UntrustedSocketError for one in a place that another user could have put it in.
    """
    record = read_owner(lock)
    if record is None or record.socket is None:
        return None
    path = Path(record.socket)
    try:
        found = OwnerSocket(path, _users_of(lock))
        _check_place(path.parent, found.users)
        _check_owner(path, path.lstat(), found.users)
    except OSError:
        return None
    return found


def _users_of(lock: Path) -> frozenset[int]:
    """Returns the users that the owner may run as: our own and root; for root also the user whose index it is."""
    own = {os.geteuid(), _ROOT}
    return frozenset(own | {lock.stat().st_uid} if os.geteuid() == _ROOT else own)


def _check_place(directory: Path, users: frozenset[int]) -> None:
    status = directory.lstat()
    _check_owner(directory, status, users)
    if not stat.S_ISDIR(status.st_mode):
        raise _untrusted(directory, "it is not a directory", _another_place(directory))
    if status.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(status.st_mode)
        raise _untrusted(
            directory,
            f"other users can write to it (mode {mode:04o})",
            f"chmod 700 {quote(str(directory))}, and start the gateway again.",
        )


def _check_owner(path: Path, status: os.stat_result, users: frozenset[int]) -> None:
    if status.st_uid not in users:
        raise _untrusted(
            path, f"it belongs to user {name_of_user(status.st_uid)}", _another_place(path)
        )


def _untrusted(place: Path, cause: str, remedy: str) -> UntrustedSocketError:
    return UntrustedSocketError(
        f"The socket that the lock of the index names is not used: {place}: {cause}.", remedy=remedy
    )


def _another_place(path: Path) -> str:
    return (
        f"Have {path} removed, or set XDG_RUNTIME_DIR to a directory that only you can write to; "
        "then start the gateway again."
    )


def stranger(connection: socket.socket) -> Peer | None:
    """Returns a client that is neither this user nor root; None: it may be served."""
    peer = peer_of(connection)
    return None if peer.uid in (None, os.geteuid(), _ROOT) else peer


def make_private(directory: Path) -> None:
    """Makes a directory that only this user may enter, or makes the present one so.

    Raises OSError, also for a directory of somebody else's: what is in it could not be trusted.
    """
    make_directories(directory)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{directory} is not a directory")
    if status.st_uid != os.getuid():
        whose = name_of_user(status.st_uid)
        raise PermissionError(f"{directory} belongs to user {whose}: {_another_place(directory)}")
    if status.st_mode & 0o077:
        directory.chmod(0o700)


_LONGEST_ADDRESS: Final = 100


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Yields the address under which the socket at `path` is bound or connected to: the system takes only short ones.

    On Linux a descriptor shortens any path; elsewhere a long one is refused with OSError.
    """
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS or not IS_LINUX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{PROC}/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
