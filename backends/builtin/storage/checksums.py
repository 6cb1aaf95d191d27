"""A checksum on every page of an index, so that whoever reads a damaged page is told.

SQLite itself notices damage only where it breaks the structure of a file; a flipped bit in a text, a word's
list of chunks or a vector would answer wrongly without a word. Owns the loading of SQLite's own shim for that
(cksumvfs, in the wheels of apsw). Where apsw was built without it, pages have no checksum.
"""

from __future__ import annotations

from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

import apsw
import structlog

_log = structlog.get_logger(__name__)

RESERVED_BYTES: Final = 8
"""At the end of each page, for its checksum. In a file that has others, nothing is checked."""
_NAME: Final = "cksmvfs"
_LIBRARY: Final = "sqlite_extra_binaries/cksumvfs.*"


def open_checked(path: Path) -> apsw.Connection:
    """A connection that checks each page it reads, in a file that was made for it."""
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=_vfs())


def open_unchanging(path: Path) -> apsw.Connection:
    """A connection that checks each page it reads, in a file that nobody writes any more.

    It takes no lock, looks for no log and makes no file beside it; a missing end is no hindrance.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(uri, flags=flags, vfs=_vfs())
    connection.execute("PRAGMA writable_schema = ON")  # else a file without its end is refused
    return connection


def reserve_checksums(connection: apsw.Connection) -> None:
    """Makes room for checksums, before anything is written to a new file."""
    if _vfs() is not None:
        connection.reserve_bytes(reserve=RESERVED_BYTES)


def is_mismatch(error: BaseException) -> bool:
    """Whether a page that was read is not what was written."""
    return getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_DATA


@cache
def _vfs() -> str | None:
    """The name of the shim, loaded once for the process; None: there is none."""
    # apsw.sqlite_extra would do the same and reads a list of all extensions for 10 ms.
    for library in Path(apsw.__file__).parent.glob(_LIBRARY):
        with closing(apsw.Connection(":memory:")) as connection:
            connection.enable_load_extension(True)
            try:
                connection.load_extension(str(library))
            except apsw.ExtensionLoadingError as error:
                _log.warning("pages of the index have no checksums", error=str(error))
            else:
                return _NAME
    return None
