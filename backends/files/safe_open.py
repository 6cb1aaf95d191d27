"""Opening a file below a trusted directory without ever following a link.

Each name is opened relative to the descriptor of the directory before it, so that nothing can be
swapped in between: what was checked is what is read. The meaning of the system's errors is decided
here too; which paths are permitted is not.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Literal

from backends.files.roots import Location
from backends.interface import FileUnreadableError, PathNotAllowedError
from config.runtime import IS_LINUX
from config.runtime.files import denial_of, descriptor_of

IS_LINK = "symbolic link; links are never followed"
BEHIND_LINK = "behind a symbolic link or below something that is not a directory"
NOT_REGULAR = "not a regular file"

Fault = Literal["absent", "refused", "failed"]

_ABSENT = {errno.ENOENT, errno.ENAMETOOLONG}
_REFUSED = {errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.ENXIO, errno.ENODEV}
# O_PATH walks through a directory that may be searched but not listed.
_TRAVERSE = (os.O_PATH if IS_LINUX else os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a FIFO that takes the place of a checked file must not hang the thread.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class RefusedFileError(PathNotAllowedError):
    """A permitted name leads over a link or to something that is not a regular file.

    `reason` is for the operator's list of skipped files; the message stays the common one.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path)
        self.reason = reason


class MomentarilyUnreadableError(FileUnreadableError):
    """The file could not be read this time; the next attempt may succeed without intervention."""


def fault_of(error: OSError) -> Fault:
    """Returns what an error on the way to a file means: nothing there, not followed, or a real failure."""
    if error.errno in _ABSENT:
        return "absent"
    return "refused" if error.errno in _REFUSED else "failed"


def may_pass(error: OSError) -> bool:
    """Returns whether the next attempt may succeed: descriptors run out and disks recover, but a
    permission stays refused until somebody grants it.
    """
    return error.errno not in (errno.EACCES, errno.EPERM)


def is_absent(path: str | Path) -> bool:
    """Returns whether there is certainly nothing at this path, not even a link."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


@contextmanager
def walked(anchor: str, names: Sequence[str]) -> Iterator[int]:
    """Yields a descriptor of the directory `names` below `anchor`, for reaching its entries.

    Raises `FileNotFoundError` when the anchor is not a directory, any other `OSError` unchanged.
    """
    descriptor = _open_anchor(anchor)
    try:
        for name in names:
            below = os.open(name, _TRAVERSE | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def listing(name: str, parent: int) -> AbstractContextManager[int]:
    """Returns a descriptor of the directory `name` in `parent`, to be listed. Raises `OSError`."""
    return descriptor_of(name, _LIST, dir_fd=parent)


@contextmanager
def opened(location: Location) -> Iterator[int]:
    """Yields a descriptor of the regular file at `location`, positioned at its beginning.

    Raises `FileNotFoundError` when nothing is there, `RefusedFileError` (a `PathNotAllowedError`)
    for links and special files, `FileUnreadableError` when it is there and cannot be opened, or
    when reading in the body fails (`MomentarilyUnreadableError` where that may pass).
    """
    try:
        descriptor = _open_regular(location)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _typed(location, error) from None


def _open_anchor(anchor: str) -> int:
    try:
        return os.open(anchor, _TRAVERSE)
    except OSError as error:
        if fault_of(error) == "failed":
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), anchor) from None


def _open_regular(location: Location) -> int:
    *directories, name = location.names
    with walked(location.anchor, directories) as parent:
        # Looking first spares a device the side effects of being opened.
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):
            raise RefusedFileError(location.path, IS_LINK if stat.S_ISLNK(mode) else NOT_REGULAR)
        descriptor = os.open(name, _READ, dir_fd=parent)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RefusedFileError(location.path, NOT_REGULAR)
    return descriptor


def _typed(location: Location, error: OSError) -> Exception:
    match fault_of(error):
        case "absent":
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), location.path)
        case "refused":
            return RefusedFileError(location.path, BEHIND_LINK)
        case "failed":
            cause = f"{location.path!r} cannot be read: {error.strerror}."
            if may_pass(error):
                remedy = "Check the disk and the mount, then try again."
                return MomentarilyUnreadableError(cause, remedy=remedy)
            remedy = "Give the user who runs the gateway permission to read it (chmod u+r)."
            if denial := denial_of(Path(location.anchor, *location.names)):
                cause = f"{location.path!r} cannot be read: {error.strerror}: {denial}."
                remedy = f"Give the user who runs the gateway access: {denial.remedy}."
            return FileUnreadableError(cause, remedy=remedy)
