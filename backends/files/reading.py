"""Reading one listed file for the index: its text, its hash, and what was wrong with it.

Owns the size bound, the detection of a file that changes under the reader, and the decoding of
whatever bytes a file named `.md` may hold. Never raises for the state of a file: each outcome is a
value, so that one bad file cannot end a sync.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TypeAlias

import msgspec

from backends.errors import FileUnreadableError
from backends.files.roots import Location, MemoryRoots
from backends.files.safe_open import MomentarilyUnreadableError, RefusedFileError, opened
from backends.files.scan import FoundFile, stamp
from backends.interface import SkippedFile

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A larger file is skipped with a reason."""
HASH_BYTES = 16
READ_ATTEMPTS = 3
# Each run is tried once, from its start, and never backtracked into: linear in any text.
_CARRIAGE_RETURNS = re.compile(r"(?<!\r)\r++\n")
BOM = b"\xef\xbb\xbf"

INVALID_UTF8 = "invalid UTF-8: the broken bytes are shown as U+FFFD"
HOLDS_NUL = "NUL characters: shown as U+FFFD"


class FileContent(msgspec.Struct, frozen=True, kw_only=True):
    """A consistent copy of one file.

    `text` is what is indexed: without byte-order mark, CRLF as newline, NUL as U+FFFD. None of
    this moves a line number; only a newline ends a line. The stamps are those of the descriptor
    that was read.
    """

    path: str
    text: str
    content_hash: bytes
    """BLAKE2b (16 bytes) of the raw bytes."""
    size: int
    """Bytes."""
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    notes: tuple[str, ...] = ()
    """What was odd about it, for status; it is indexed nevertheless."""


class FileGone(msgspec.Struct, frozen=True):
    """It vanished after it was listed: its rows go."""

    path: str


class FileChanging(msgspec.Struct, frozen=True):
    """It was being written during every attempt: its old rows stay and it is still to be read."""

    path: str


class FileUnreadable(msgspec.Struct, frozen=True):
    """It is there and the system refuses to give it out: its old rows stay."""

    path: str
    reason: str
    may_pass: bool = False
    """Whether the next attempt may succeed without anybody's doing."""


ReadOutcome: TypeAlias = FileContent | FileGone | FileChanging | FileUnreadable | SkippedFile
"""`SkippedFile`: a link, a special file or too large; by rule not memory, its rows go."""


def read_for_index(roots: MemoryRoots, found: FoundFile) -> ReadOutcome:
    """Read what `scan(roots)` found, whole and from one descriptor."""
    root = roots.all[found.root]
    location = root.location(roots.absolute(found.path), found.path)
    try:
        return _read(location)
    except FileNotFoundError:
        return FileGone(found.path)
    except RefusedFileError as error:
        return SkippedFile(path=found.path, reason=error.reason)
    except FileUnreadableError as error:
        may_pass = isinstance(error, MomentarilyUnreadableError)
        return FileUnreadable(found.path, str(error), may_pass)


def content_hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=HASH_BYTES).digest()


def decode(data: bytes) -> tuple[str, tuple[str, ...]]:
    """The text that is indexed, and notes about what had to be replaced in it."""
    notes = []
    data = data.removeprefix(BOM)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        notes.append(INVALID_UTF8)
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
        notes.append(HOLDS_NUL)
    if "\r\n" in text:
        text = _CARRIAGE_RETURNS.sub("\n", text)
    return text, tuple(notes)


def _read(location: Location) -> FileContent | FileChanging | SkippedFile:
    with opened(location) as descriptor:
        for _ in range(READ_ATTEMPTS):
            before = os.fstat(descriptor)
            if before.st_size > MAX_FILE_BYTES:
                return SkippedFile(path=location.path, reason=_too_large(before.st_size))
            data = _read_bytes(descriptor, before.st_size)
            if data is not None and _stamp(os.fstat(descriptor)) == _stamp(before):
                return _content(location.path, data, before)
    return FileChanging(location.path)


def _read_bytes(descriptor: int, size: int) -> bytes | None:
    """All `size` bytes; None if there are more or fewer by now."""
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        data = file.read(size + 1)
    return data if len(data) == size else None


def _content(path: str, data: bytes, status: os.stat_result) -> FileContent:
    text, notes = decode(data)
    return FileContent(
        path=path,
        text=text,
        content_hash=content_hash(data),
        size=status.st_size,
        mtime_ns=stamp(status.st_mtime_ns),
        ctime_ns=stamp(status.st_ctime_ns),
        inode=stamp(status.st_ino),
        device=status.st_dev,
        notes=notes,
    )


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _too_large(size: int) -> str:
    return f"too large: {size:,} bytes, the limit is {MAX_FILE_BYTES:,}"
