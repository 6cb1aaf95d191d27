"""Appending an entry to a note: the only way in which this project writes to a user's Markdown.

The order of the steps makes it safe: the file is opened without following links, locked against
other writers, only ever appended to, in one write, and on disk before anybody is told.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from backends.errors import FileUnwritableError, PathNotAllowedError
from backends.files.reading import MAX_FILE_BYTES
from backends.files.roots import Location
from backends.files.safe_open import fault_of, walked
from config.runtime.files import lock_within, unlock

_APPEND: Final = (
    os.O_RDWR
    | os.O_APPEND
    | os.O_CREAT
    | os.O_NOFOLLOW
    | os.O_NONBLOCK
    | os.O_NOCTTY
    | os.O_CLOEXEC
)
_FILE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755
"""As an editor makes them under the usual umask; never writable for others."""
_BLOCK_BYTES: Final = 256 * 1024
LOCK_TIMEOUT_S: Final = 5.0


class Appended(NamedTuple):
    """The lines of the entry, counted from 1."""

    path: str
    first_line: int
    last_line: int
    created: bool


def append_entry(
    location: Location,
    entry: str,
    *,
    heading: str = "",
    is_wanted: Callable[[], bool] = lambda: True,
) -> Appended:
    """Appends `entry` as lines of its own; a new file begins with `heading` and an empty line.

    A missing directory is made; `is_wanted` is asked just before the entry is written. Blocking. Raises `PathNotAllowedError` where the way leads over a link
    or to something that is no regular file, and `FileUnwritableError` when the file cannot be written.
    """
    try:
        with _opened(location) as descriptor:
            _refuse_unfit(location.path, descriptor)
            return _append(location.path, descriptor, entry, heading, is_wanted)
    except OSError as error:
        if fault_of(error) == "refused":
            raise PathNotAllowedError(location.path) from None
        raise FileUnwritableError(
            f"{location.path!r} cannot be written: {error.strerror}.",
            remedy="Try it again in a moment."
            if isinstance(error, TimeoutError)
            else "Check the permissions of the workspace and the space on the disk.",
        ) from None


@contextmanager
def _opened(location: Location) -> Iterator[int]:
    *directories, name = location.names
    _make_directories(location.anchor, directories)
    with walked(location.anchor, directories) as parent:
        is_new = not _exists(name, parent)
        descriptor = os.open(name, _APPEND, _FILE_MODE, dir_fd=parent)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PathNotAllowedError(location.path)
            lock_within(descriptor, LOCK_TIMEOUT_S)
            yield descriptor
        finally:
            os.close(descriptor)
    if is_new:
        _sync_directory(location.anchor, directories)


def _append(
    path: str, descriptor: int, entry: str, heading: str, is_wanted: Callable[[], bool]
) -> Appended:
    lines, ends_in_newline = _count_lines(descriptor)
    created = lines == 0
    before = f"{heading}\n\n" if created and heading else "" if ends_in_newline else "\n"
    body = entry.rstrip("\n")
    if not is_wanted():
        raise TimeoutError(errno.ETIMEDOUT, "nobody waits for it any more")
    _write(descriptor, f"{before}{body}\n".encode())
    unlock(descriptor)  # nobody else has to wait for a slow disk
    os.fsync(descriptor)
    first = lines + 1 + (before.count("\n") if created else 0)
    return Appended(path, first, first + body.count("\n"), created)


def _refuse_unfit(path: str, descriptor: int) -> None:
    """What is larger than a note is not indexed, so an entry in it would be lost to every search."""
    size = os.fstat(descriptor).st_size
    if size > MAX_FILE_BYTES:
        raise FileUnwritableError(
            f"{path!r} has {size:,} bytes; notes of more than {MAX_FILE_BYTES:,} are not remembered.",
            remedy="Move it away or split it, then try again.",
        )


def _write(descriptor: int, data: bytes) -> None:
    """All of it or, on a full disk, nothing: half an entry is no entry."""
    size, written = os.fstat(descriptor).st_size, 0
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        # Only if nobody who does not know our lock has written meanwhile.
        if os.fstat(descriptor).st_size == size + written:
            os.ftruncate(descriptor, size)
        raise


def _count_lines(descriptor: int) -> tuple[int, bool]:
    """Lines of the file, an unended last one included, and whether the last one is ended."""
    count, last = 0, b"\n"
    position = 0
    while block := os.pread(descriptor, _BLOCK_BYTES, position):
        count, last, position = count + block.count(b"\n"), block[-1:], position + len(block)
    return count + (last != b"\n"), last == b"\n"


def _make_directories(anchor: str, names: list[str]) -> None:
    for depth, name in enumerate(names):
        with walked(anchor, names[:depth]) as parent:
            try:
                os.mkdir(name, _DIRECTORY_MODE, dir_fd=parent)
            except FileExistsError:
                continue
        _sync_directory(anchor, names[:depth])


def _exists(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _sync_directory(anchor: str, names: list[str]) -> None:
    """Makes a new name durable."""
    descriptor = os.open(Path(anchor, *names), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
