"""Loading sqlite-vec into connections, by its path.

Owns where the library is found and what became of loading it. Its Python package is never imported,
since that imports numpy: only the shared library inside it is needed.
"""

from __future__ import annotations

import importlib.util
import threading
from pathlib import Path
from typing import Final
from weakref import WeakSet

import apsw
import structlog

from backends.builtin.vectors.libraries import INSTALL

_log = structlog.get_logger(__name__)

_PACKAGE: Final = "sqlite_vec"
_LIBRARY: Final = "vec0.*"
_ENTRY_POINT: Final = "sqlite3_vec_init"


class Extension:
    """The library for one database. Thread-safe.

    The first failure is final for this process: it is logged once and kept for `status`.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._loaded: WeakSet[apsw.Connection] = WeakSet()
        self._lock = threading.Lock()
        self._failure: str | None = None

    def load_into(self, connection: apsw.Connection) -> str | None:
        """Makes its functions known to a connection. Returns why that is impossible, or None."""
        with self._lock:
            if connection in self._loaded or self._failure:
                return self._failure
            self._failure = self._load(connection)
            if self._failure is None:
                self._loaded.add(connection)
            else:
                _log.warning("sqlite-vec not loaded", reason=self._failure)
            return self._failure

    def _load(self, connection: apsw.Connection) -> str | None:
        path = self._path or _bundled_library()
        if path is None:
            return f"sqlite-vec is not installed; {INSTALL}, or set store.vector.extensionPath"
        connection.enable_load_extension(True)
        try:
            connection.load_extension(str(path), _ENTRY_POINT)
        except apsw.ExtensionLoadingError as error:
            return f"sqlite-vec cannot be loaded from {path}: {error}"
        finally:
            connection.enable_load_extension(False)
        return None


def _bundled_library() -> Path | None:
    """The library inside the installed package, found without importing the package."""
    spec = importlib.util.find_spec(_PACKAGE)
    places = spec.submodule_search_locations if spec else None
    libraries = [path for place in places or () for path in sorted(Path(place).glob(_LIBRARY))]
    return libraries[0] if libraries else None
