"""Locks of the kernel on files, between processes.

Owns taking one without waiting, waiting for one with a deadline, and that a locked file is the one others
will find. The kernel gives a lock back when its holder ends, however it ends, so none is ever stale.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import time
from pathlib import Path
from typing import Final

from config.disk.making import give_to_owner

_FLAGS: Final = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_POLL_S: Final = 0.02


def open_lock(path: Path) -> int:
    """A descriptor of the file to be locked, made where it is missing. Raises OSError."""
    is_new = not path.exists()
    descriptor = os.open(path, _FLAGS, 0o600)
    if is_new:
        give_to_owner(descriptor, path.parent)
    return descriptor


def try_lock(descriptor: int, *, lenient: bool = False) -> bool:
    """Whether the lock is ours now; never waits. Raises OSError.

    Some network mounts have no locks; a `lenient` caller then gets it, as does everybody.
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
    """Gives the lock back before the file is closed."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def try_lock_file(path: Path, *, lenient: bool = False) -> int | None:
    """A descriptor that holds the lock of the file at `path`; None while somebody else holds it.

    A file that was removed while it was being locked is not the one that others will find, so another
    is made. Never waits; raises OSError.
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
