"""Faults that are the machine's and not ours: nothing is left of what every program needs.

Owns their sentences and remedies. They are temporary failures, which a script may try again.
"""

from __future__ import annotations

import errno
import os
from typing import Final, TypeGuard

from config.errors import ErrorKind, MemoryGatewayError
from config.runtime.tasks import lacks_threads

_NO_SPACE: Final = (
    "no space is left where it had to write",
    "Free some, or send the output, TMPDIR or memorySearch.store.path to a disk with room.",
)
_SHORTAGES: Final = {
    errno.EMFILE: (
        "this process may not open more files",
        "Allow it more: `ulimit -n` in the shell, LimitNOFILE= in a service.",
    ),
    errno.ENFILE: (
        "the machine can open no more files",
        "End what holds many of them, or raise fs.file-max.",
    ),
    errno.ENOMEM: (
        "no memory is left",
        "Free some, or allow more: `ulimit -v` in the shell, MemoryMax= in a service.",
    ),
    errno.EAGAIN: (
        "no further thread or process may be started",
        "End some, or allow more: `ulimit -u` and `ulimit -v` in the shell, TasksMax= in a service.",
    ),
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
}


class ShortageError(MemoryGatewayError):
    """The machine, or what it allows us, ran out of something. Exit code 75, EX_TEMPFAIL."""

    kind = ErrorKind.OVERLOADED


def shortage(error: BaseException) -> ShortageError | None:
    """What ran out, if that is what `error` says."""
    number = _number(error)
    if number is None:
        return None
    what, remedy = _SHORTAGES[number]
    place = f" ({error.filename})" if _names_a_place(error) else ""
    return ShortageError(f"The command could not go on: {what}{place}.", remedy=remedy)


def _names_a_place(error: BaseException) -> TypeGuard[OSError]:
    """Where there is no space matters; which file could not be opened for want of a descriptor does not."""
    return (
        isinstance(error, OSError)
        and error.errno in (errno.ENOSPC, errno.EDQUOT)
        and error.filename is not None
    )


def _number(error: BaseException) -> int | None:
    """The errno of a shortage. Of threads, and of libraries, there are only words for it."""
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, OSError):
        is_one = error.errno in _SHORTAGES and error.errno != errno.EAGAIN  # of pipes it says less
        return error.errno if is_one else None
    if isinstance(error, RuntimeError):
        return errno.EAGAIN if lacks_threads(error) else None
    if isinstance(error, ImportError):
        return next((one for one in _SHORTAGES if os.strerror(one) in str(error)), None)
    return None
