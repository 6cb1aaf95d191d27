"""Faults that are the machine's and not ours: nothing is left of what every program needs.

Owns their sentences and remedies. They are temporary failures, which a script may try again.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from config.errors import ErrorKind, MemoryGatewayError

_NO_SPACE: Final = (
    "no space is left where it had to write",
    "Free some, or set TMPDIR or memorySearch.store.path to a disk with room.",
)
_SHORTAGES: Final = {
    errno.EMFILE: (
        "this process may not open more files",
        "Allow it more: `ulimit -n 1024` in the shell, LimitNOFILE= in a service.",
    ),
    errno.ENFILE: (
        "the machine can open no more files",
        "End what holds many of them, or raise fs.file-max.",
    ),
    errno.ENOMEM: (
        "no memory is left",
        "Free some, or allow more: `ulimit -v` in the shell, MemoryMax= in a service.",
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
    return ShortageError(f"The command could not go on: {what}.", remedy=remedy)


def _number(error: BaseException) -> int | None:
    """The errno of a shortage. The loader of libraries has only words for it: those of strerror."""
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, OSError):
        return error.errno if error.errno in _SHORTAGES else None
    if isinstance(error, ImportError):
        return next((one for one in _SHORTAGES if os.strerror(one) in str(error)), None)
    return None
