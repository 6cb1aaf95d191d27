"""Appending an entry to a note: the only way in which this project writes to a user's Markdown.

The order of the steps makes it safe: the file is opened without following links, locked against
other writers, only ever appended to, in one write and in its own encoding, and on disk before success
is reported. An editor that saves puts a new file in the place of the one that was opened; the entry is then
written again, unless the editor took it over.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from backends.files.reading import BROKEN, MAX_FILE_BYTES, UNKNOWN, UTF8, decode, encoding_of
from backends.files.roots import Location
from backends.files.safe_open import BEHIND_LINK, NOT_REGULAR, fault_of, walked
from backends.interface import FileUnwritableError, WritingRefusedError
from config.runtime.files import denial_of, descriptor_of, lock_within, make_durable, unlock

_APPEND: Final = (
    os.O_RDWR
    | os.O_APPEND
    | os.O_CREAT
    | os.O_NOFOLLOW
    | os.O_NONBLOCK
    | os.O_NOCTTY
    | os.O_CLOEXEC
)
_REFUSALS: Final = {
    errno.ELOOP: "it is a symbolic link, and links are never followed",
    errno.ENOTDIR: f"it is {BEHIND_LINK}",
}
_FILE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755
"""The modes that an editor uses under the usual umask; never writable for others."""
_BLOCK_BYTES: Final = 256 * 1024
LOCK_TIMEOUT_S: Final = 5.0
REPLACED_TIMEOUT_S: Final = 10.0
"""The longest time for which an entry is written again because the note is replaced each time."""


class Appended(NamedTuple):
    """The lines of the entry, counted from 1."""

    path: str
    first_line: int
    last_line: int
    created: bool


class _Note(NamedTuple):
    """A note: its bytes, the codec that reads them, and its text as it is indexed."""

    data: bytes
    encoding: str
    text: str

    @property
    def lines(self) -> int:
        """The number of lines, an unterminated last one included."""
        return self.text.count("\n") + (not self.is_ended)

    @property
    def codec(self) -> str:
        """The codec in which it is written on."""
        return UTF8 if self.encoding in {BROKEN, UNKNOWN} else self.encoding

    @property
    def newline(self) -> str:
        """The end of the last line that has one."""
        whole = self.data.decode(self.codec, "replace").rpartition("\n")[0]
        return "\r\n" if whole.endswith("\r") else "\n"

    @property
    def is_ended(self) -> bool:
        return not self.text or self.text.endswith("\n")


def append_entry(
    location: Location,
    entry: str,
    *,
    heading: str = "",
    is_wanted: Callable[[], bool] = lambda: True,
) -> Appended:
    """Appends `entry` as lines of its own; a new file begins with `heading` and an empty line.

    A missing directory is made; `is_wanted` is called just before the entry is written. On return the entry is in
    the file of that name. Blocks. Raises `WritingRefusedError` where the path leads over a link
    or to something that is not a regular file, and `FileUnwritableError` when the file cannot be written.
    """
    body = entry.rstrip("\n")
    ends = time.monotonic() + REPLACED_TIMEOUT_S
    written: _Note | None = None
    try:
        while time.monotonic() < ends:
            with _opened(location) as descriptor:
                if not _is_at(location, descriptor):
                    continue  # replaced while its lock was waited for
                note = _read(location.path, descriptor)
                added = written and _find_again(location.path, note, body, written)
                if added is None:
                    added = _append(location.path, descriptor, note, body, heading, is_wanted)
                    written = note
                if added is not None and _is_at(location, descriptor):
                    return added
        raise TimeoutError(errno.ETIMEDOUT, "another program replaces it again and again")
    except OSError as error:
        if fault_of(error) == "refused":
            cause = _REFUSALS.get(error.errno or 0, f"it is {NOT_REGULAR}")
            raise WritingRefusedError(location.path, cause) from None
        raise _unwritable(location, error) from None


def _unwritable(location: Location, error: OSError) -> FileUnwritableError:
    cause = error.strerror
    remedy = "Check the permissions of the workspace and the space on the disk."
    if isinstance(error, TimeoutError):
        remedy = "Try it again in a moment."
    elif isinstance(error, FileNotFoundError) and not Path(location.anchor).exists():
        cause = f"{location.anchor} does not exist"
        remedy = "Make it, or name the right place; if that is on another disk, check that it is mounted."
    elif isinstance(error, PermissionError) and (
        denial := denial_of(Path(location.anchor, *location.names), os.R_OK | os.W_OK)
    ):
        cause, remedy = f"{cause}: {denial}", f"Give this user access: {denial.remedy}."
    return FileUnwritableError(f"{location.path!r} cannot be written: {cause}.", remedy=remedy)


@contextmanager
def _opened(location: Location) -> Iterator[int]:
    *directories, name = location.names
    _make_directories(location.anchor, directories)
    with walked(location.anchor, directories) as parent:
        is_new = not _exists(name, parent)
        with descriptor_of(name, _APPEND, _FILE_MODE, dir_fd=parent) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise WritingRefusedError(location.path, f"it is {NOT_REGULAR}")
            lock_within(descriptor, LOCK_TIMEOUT_S)
            yield descriptor
    if is_new:
        make_durable(Path(location.anchor, *directories))


def _is_at(location: Location, descriptor: int) -> bool:
    """Returns whether the path, looked up again, leads to the open file."""
    *directories, name = location.names
    try:
        with walked(location.anchor, directories) as parent:
            there = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _read(path: str, descriptor: int) -> _Note:
    """Reads the note. A file above the limit is not indexed, so no search would find an entry in it."""
    size = os.fstat(descriptor).st_size
    if size > MAX_FILE_BYTES:
        raise FileUnwritableError(
            f"{path!r} has {size:,} bytes; notes of more than {MAX_FILE_BYTES:,} are not remembered.",
            remedy="Move it away or split it, then try again.",
        )
    data = bytearray()
    while block := os.pread(descriptor, _BLOCK_BYTES, len(data)):
        data += block
    encoding = encoding_of(bytes(data))
    return _Note(bytes(data), encoding, decode(bytes(data), encoding))


def _append(
    path: str, descriptor: int, note: _Note, body: str, heading: str, is_wanted: Callable[[], bool]
) -> Appended | None:
    """Appends the entry; returns None if another program overwrote it."""
    lines, created = note.lines, not note.text
    before = f"{heading}\n\n" if created and heading else "" if note.is_ended else "\n"
    data = _encoded(path, note, f"{before}{body}\n")
    if not is_wanted():
        raise TimeoutError(errno.ETIMEDOUT, "nobody waits for it any more")
    _write(descriptor, data)
    end = os.lseek(descriptor, 0, os.SEEK_CUR)
    unlock(descriptor)  # nobody else has to wait for a slow disk
    os.fsync(descriptor)
    if os.pread(descriptor, len(data), end - len(data)) != data:
        return None
    first = lines + 1 + (before.count("\n") if created else 0)
    return Appended(path, first, first + body.count("\n"), created)


def _encoded(path: str, note: _Note, text: str) -> bytes:
    """Returns the bytes to write, in the note's own encoding, with its own ends of lines.

    Raises FileUnwritableError if they could not be read.
    """
    codec, newline = note.codec, note.newline
    lines = text if newline == "\n" else text.replace("\r\n", "\n").replace("\n", newline)
    try:
        data = lines.encode(codec)
    except UnicodeEncodeError as error:
        characters = error.object[error.start : error.end]
        raise _unfit(path, f"is in {codec}, which has no {characters!r}") from None
    if note.encoding == UTF8:
        return data
    after = note.data + data
    encoding = encoding_of(after)
    ending = decode(text.encode())
    if encoding == UNKNOWN or not decode(after, encoding).endswith(ending):
        raise _unfit(path, "is not in an encoding in which the entry could be read again")
    return data


def _unfit(path: str, why: str) -> FileUnwritableError:
    return FileUnwritableError(f"{path!r} {why}.", remedy="Save the note as UTF-8, then try again.")


def _find_again(path: str, note: _Note, body: str, before: _Note) -> Appended | None:
    """Returns the lines of an entry added to `before` if the program that replaced the note took it over."""
    places = _places(note.text, body)
    if len(places) <= len(_places(before.text, body)):
        return None
    first = note.text.count("\n", 0, places[-1]) + 1
    return Appended(path, first, first + body.count("\n"), created=False)


def _places(text: str, body: str) -> list[int]:
    """Returns the offsets at which these whole lines begin."""
    lines = decode(body.encode())
    return [one.start() for one in re.finditer(rf"^(?={re.escape(lines)}$)", text, re.MULTILINE)]


def _write(descriptor: int, data: bytes) -> None:
    """Writes all of it or, on a full disk, nothing: half an entry is of no use."""
    size, written = os.fstat(descriptor).st_size, 0
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        # Only if no program that ignores our lock has written meanwhile.
        if os.fstat(descriptor).st_size == size + written:
            os.ftruncate(descriptor, size)
        raise


def _make_directories(anchor: str, names: list[str]) -> None:
    for depth, name in enumerate(names):
        with walked(anchor, names[:depth]) as parent:
            try:
                os.mkdir(name, _DIRECTORY_MODE, dir_fd=parent)
            except FileExistsError:
                continue
        make_durable(Path(anchor, *names[:depth]))


def _exists(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
