"""Errors of the remembering floor."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from config.errors import ErrorKind, MemoryGatewayError
from config.runtime.files import Denial, denial_of


class IndexUnavailableError(MemoryGatewayError):
    """The index cannot be opened, read or written."""

    kind = ErrorKind.INDEX_UNAVAILABLE


DISK_IS_FULL: Final = "The disk is full: free some space."
"""The remedy for a full disk. Clients of a gateway recognise the cause by this text."""


class IndexFullError(IndexUnavailableError):
    """There is no space left for the index."""


def index_full(path: Path, error: BaseException) -> IndexFullError:
    return IndexFullError(
        f"The index {path} cannot be used: {getattr(error, 'strerror', None) or error}.",
        remedy=DISK_IS_FULL,
    )


def index_denied(path: Path, error: OSError, what: str = "used") -> IndexUnavailableError:
    """Returns the error to raise for `error`, which occurred at an index at this path. Blocks."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return index_full(path, error)
    denial = write_denial(path)
    cause = error.strerror or str(error)
    remedy = f"See the permissions and the free space of its directory, or {ANOTHER_PLACE}"
    if isinstance(error, PermissionError) and denial is not None:
        cause = f"{cause[:1].lower()}{cause[1:]}, {denial}"
        remedy = f"{ANOTHER_PLACE[:1].upper()}{ANOTHER_PLACE[1:]} Or give this user access: {denial.remedy}."
    return IndexUnavailableError(f"The index {path} cannot be {what}: {cause}.", remedy=remedy)


def write_denial(index: Path) -> Denial | None:
    """Returns why this user cannot write an index at this path: the denial of the index, of a file that SQLite keeps
    beside it, or of the directory. SQLite gives a file beside an index the mode of the index.
    """
    beside = (index.with_name(f"{index.name}{ending}") for ending in ("-wal", "-shm", "-journal"))
    denials = (denial_of(one, os.R_OK | os.W_OK) for one in (index, *beside))
    return next(filter(None, denials), None) or denial_of(index.parent, os.W_OK)


MAY_HANG: Final = "See whether a network mount hangs, then try it again."
ANOTHER_PLACE: Final = "name another place: --state-dir, or store.path."


class IndexMisconfiguredError(IndexUnavailableError):
    """The settings do not say where the index is: nothing but other settings helps."""

    kind = ErrorKind.CONFIG_INVALID


class PathNotAllowedError(MemoryGatewayError):
    """The path is outside what this agent may read, or is a link, or is not Markdown.

    One message for every cause: it must not reveal what exists outside.
    """

    kind = ErrorKind.PATH_NOT_ALLOWED

    def __init__(self, path: str, *, of_notes: bool = False) -> None:
        """`of_notes`: the memory is a folder of notes."""
        allowed = (
            "Allowed are MEMORY.md, memory.md, USER.md, memory/**/*.md and what extraPaths names"
        )
        if of_notes:
            allowed = "Allowed is what is indexed of the folder of notes"
        super().__init__(
            f"Reading {path!r} is not allowed.",
            remedy=f"{allowed}; links are never followed.",
        )


class WritingRefusedError(PathNotAllowedError):
    """A note that was to be written is a link, or no regular file.

    The gateway chose its path, so the cause reveals nothing.
    """

    def __init__(self, path: str, cause: str) -> None:
        MemoryGatewayError.__init__(
            self,
            f"{path!r} cannot be written: {cause}.",
            remedy="Put a file of its own there, then try again.",
        )


class FileUnreadableError(MemoryGatewayError):
    """A permitted file exists and cannot be read."""

    kind = ErrorKind.FILE_UNREADABLE


def out_of_reach(path: str, reason: str) -> FileUnreadableError:
    """Returns the error for a file that was not found because its whole place is unavailable: it may still exist."""
    return FileUnreadableError(
        f"{path!r} cannot be read: {reason}.",
        remedy="Check that its disk is mounted and that its directory is where it should be.",
    )


class FileUnwritableError(MemoryGatewayError):
    """A file cannot be written; its content is unchanged."""

    kind = ErrorKind.FILE_UNWRITABLE


def unwritable(file: Path, error: OSError) -> FileUnwritableError:
    """Returns the error for a file that a person named."""
    remedy = "Name a file in a directory that exists and that you may write to."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = DISK_IS_FULL
    return FileUnwritableError(f"{file} cannot be written: {error.strerror}.", remedy=remedy)
