"""What SQLite's errors mean for the person who reads them.

Owns the one translation of `apsw` errors into `IndexUnavailableError`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from backends.builtin.storage.checksums import is_mismatch
from backends.errors import IndexUnavailableError

_DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError)
_DAMAGE_REMEDY: Final = "It is set aside and rebuilt from Markdown."

_REMEDIES: Final = (
    (apsw.FullError, "The disk is full: free some space; searches go on meanwhile."),
    (apsw.BusyError, "Somebody else holds the index; it is tried again."),
    (apsw.LockedError, "Somebody else holds the index; it is tried again."),
    (
        apsw.ReadOnlyError,
        "The index file or its directory cannot be written: see their permissions.",
    ),
    (apsw.CantOpenError, "Check the permissions of its directory, or set memorySearch.store.path."),
    (apsw.ConnectionClosedError, "The gateway is ending."),
)
_DEFAULT_REMEDY: Final = (
    "See the permissions and the free space of its directory, or set memorySearch.store.path."
)


class IndexDamagedError(IndexUnavailableError):
    """The index file is broken. The next use of it begins with a new one, so one may try again."""


def is_damage(error: BaseException) -> bool:
    """Whether the file is of no use after this error."""
    return isinstance(error, _DAMAGE) or is_mismatch(error)


def index_unavailable(path: Path, error: apsw.Error | OSError) -> IndexUnavailableError:
    """The error to raise instead of `error`, which becomes its cause."""
    message = f"The index {path} cannot be used: {error}."
    if is_damage(error):
        return IndexDamagedError(message, remedy=_DAMAGE_REMEDY)
    remedy = next((text for kind, text in _REMEDIES if isinstance(error, kind)), _DEFAULT_REMEDY)
    return IndexUnavailableError(message, remedy=remedy)
