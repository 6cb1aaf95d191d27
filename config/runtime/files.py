"""Locks between processes, private directories, reading and replacing small files. Everything here blocks."""

from __future__ import annotations

import errno
import fcntl
import glob
import math
import os
import pwd
import select
import stat
import threading
import time
from pathlib import Path
from typing import Final


def make_directories(directory: Path, *, mode: int = 0o700) -> None:
    """Makes a directory and its missing parents, each with `mode`. Raises OSError."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=mode, exist_ok=True)
        if os.geteuid() == 0:
            _give_directory(one)
    directory.mkdir(mode=mode, exist_ok=True)  # FileExistsError where something else has the name


def _give_directory(made: Path) -> None:
    descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        give_to_owner(descriptor, made.parent)
    finally:
        os.close(descriptor)


def give_to_owner(made: int, directory: Path) -> None:
    """Gives what root has just made to the owner of the directory it is in. Raises OSError.

    Otherwise a command run with `sudo` would lock the user's own gateway out.
    """
    if os.geteuid() != 0:
        return
    owner, status = directory.stat(), os.fstat(made)
    # That user may meanwhile have replaced it by a hard link to a file of root's.
    if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1:
        os.fchown(made, owner.st_uid, owner.st_gid)


def foreign_owner(path: Path) -> str | None:
    """The owner of the path or its nearest existing parent; None if that is this user, or cannot be told."""
    for one in (path, *path.parents):
        try:
            uid = one.stat().st_uid
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return None if uid == os.geteuid() else _name_of(uid)
    return None


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


_FLAGS: Final = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_POLL_S: Final = 0.02


def open_lock(path: Path) -> int:
    """A descriptor of the lock file, which is created if need be. Raises OSError."""
    is_new = not path.exists()
    descriptor = os.open(path, _FLAGS, 0o600)
    if is_new:
        give_to_owner(descriptor, path.parent)
    return descriptor


def try_lock(descriptor: int, *, lenient: bool = False) -> bool:
    """Whether we hold the lock now; never waits. Raises OSError.

    Some network mounts have no locks: there every `lenient` caller is told that it holds one.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        if not lenient:
            raise
    return True


def lock_within(descriptor: int, timeout_s: float = math.inf, *, lenient: bool = False) -> None:
    """Waits for the lock. Blocks; raises TimeoutError after `timeout_s`, OSError as `try_lock`."""
    ends = time.monotonic() + timeout_s
    while not try_lock(descriptor, lenient=lenient):
        if time.monotonic() >= ends:
            raise TimeoutError(errno.ETIMEDOUT, "another process keeps it locked")
        time.sleep(_POLL_S)


def unlock(descriptor: int) -> None:
    """Releases the lock without closing the file."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def try_lock_file(path: Path, *, lenient: bool = False) -> int | None:
    """A descriptor that holds the lock of the file at `path`; None while somebody else holds it.

    If the file was removed while it was being locked, a new one is made, because that is the one other
    processes will find. Never waits; raises OSError.
    """
    while True:
        descriptor = open_lock(path)
        try:
            if not try_lock(descriptor, lenient=lenient):
                os.close(descriptor)
                return None
            if _stands_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _stands_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


PIPE_PATIENCE_S: Final = 3.0
"""How long a pipe may take to deliver its content."""
_BLOCK_BYTES: Final = 256 * 1024
_READING_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class SilentFileError(TimeoutError):
    """A pipe or device that did not deliver its content in time."""


def read_file(path: Path, limit_bytes: int, *, patience_s: float = PIPE_PATIENCE_S) -> bytes:
    """The whole file, or the first `limit_bytes` + 1 bytes of a larger one.

    Raises SilentFileError, and any other OSError as it comes.
    """
    descriptor = os.open(path, _READING_FLAGS)
    try:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        ends = None if is_regular else time.monotonic() + patience_s
        return _read(descriptor, limit_bytes + 1, ends, path, patience_s)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int, ends: float | None, path: Path, patience_s: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        # Asked before each read: a pipe without a writer reads as if it were empty.
        if ends is not None and not _is_ready(descriptor, ends):
            raise SilentFileError(
                errno.ETIMEDOUT,
                f"it is not a regular file and did not end within {patience_s:g} s",
                str(path),
            )
        try:
            block = os.read(descriptor, min(_BLOCK_BYTES, size - len(data)))
        except BlockingIOError:  # somebody else took what was there
            continue
        if not block:
            break
        data += block
    return bytes(data)


def _is_ready(descriptor: int, ends: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, ends - time.monotonic()) * 1000))


_DRAFT: Final = ".{name}.making-{writer}"


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replaces the file durably: after a power cut it has either its old or its new content.

    `mode` does not depend on the umask. Raises OSError, and then leaves nothing new behind.
    """
    writer = f"{os.getpid()}-{threading.get_native_id()}"
    making = path.with_name(_DRAFT.format(name=path.name, writer=writer))
    try:
        with making.open("wb") as file:
            os.fchmod(file.fileno(), mode)
            give_to_owner(file.fileno(), path.parent)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        making.replace(path)
    except BaseException:
        making.unlink(missing_ok=True)
        raise


COPY: Final = "{name}.before-memory-gateway{number}"
_COPIES: Final = 1000


def keep_copy(path: Path, data: bytes, *, mode: int) -> Path:
    """Writes a copy of what a file holds beside it, under a name that nobody has; its path.

    Raises OSError.
    """
    for number in range(1, _COPIES):
        suffix = f".{number}" if number > 1 else ""
        copy = path.with_name(COPY.format(name=path.name, number=suffix))
        try:
            descriptor = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            give_to_owner(descriptor, path.parent)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        return copy
    raise FileExistsError(errno.EEXIST, f"there are {_COPIES} copies beside it", str(path))


def is_copy(path: Path, data: bytes, *, mode: int) -> bool:
    """Whether a regular file of that mode has exactly this content."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        is_alike = stat.S_ISREG(about.st_mode) and stat.S_IMODE(about.st_mode) == mode
        return is_alike and about.st_size == len(data) and file.read(len(data) + 1) == data


def copies_of(path: Path) -> list[Path]:
    """What `keep_copy` left beside a file, the latest first. Raises OSError."""
    pattern = COPY.format(name=glob.escape(path.name), number="*")
    return sorted(path.parent.glob(pattern), key=lambda one: (len(one.name), one.name))[::-1]


def remove_drafts(path: Path) -> None:
    """Removes what writers left behind that were killed while they replaced this file.

    The caller must keep all other writers away. Raises OSError.
    """
    for draft in path.parent.glob(_DRAFT.format(name=glob.escape(path.name), writer="*")):
        draft.unlink(missing_ok=True)
