"""What every engine of the vector lane offers, and the optional libraries that they need, loaded at their first use."""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from weakref import WeakSet

import apsw

from backends.builtin.store.port import EngineName, Unavailable, VectorAnswer, why_unlike
from config.runtime.logs import Log

if TYPE_CHECKING:
    from providers.provider_interface import Vector

__all__ = ["np"]  # everything in this package that computes takes it from here
_log = Log()


class VectorQuery(NamedTuple):
    """What is asked of the vectors of one fingerprint, in a read transaction of the connection."""

    connection: apsw.Connection
    fingerprint_id: int
    query: Vector
    limit: int
    file_ids: Sequence[int] | None = None
    """The files whose excerpts may be found; None permits every file."""


class VectorEngine(Protocol):
    """Exact search by cosine over the vectors of one fingerprint.

    Both methods block, may be called from any thread with the caller's own connection inside a read
    transaction, and raise nothing but `apsw.Error`.
    """

    @property
    def name(self) -> EngineName: ...

    def problem(self, connection: apsw.Connection, fingerprint_id: int) -> str | None:
        """Why a search would be refused now; None when it would be answered."""
        ...

    def search(self, wanted: VectorQuery) -> VectorAnswer | Unavailable:
        """The nearest excerpts, best first.

        Vectors that are short, zero or not finite, however they came into the table, never rank.
        """
        ...


def dimensions_of(connection: apsw.Connection, fingerprint_id: int) -> int | None:
    """The dimensions of the stored vectors of a fingerprint; None before the first of them."""
    dimensions: int | None = connection.execute(
        "SELECT dimensions FROM fingerprints WHERE id = ?", (fingerprint_id,)
    ).get
    return dimensions


def misfit(wanted: VectorQuery) -> str | None:
    """Why a query cannot be compared with the vectors of its fingerprint, or None."""
    return why_unlike(dimensions_of(wanted.connection, wanted.fingerprint_id), wanted.query)


class _LazyModule:
    """Stands for a module that the first computation loads; each attribute is looked up there once."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np
else:
    np = _LazyModule("numpy")  # who searches by keywords alone never pays for it


INSTALL: Final = "install the gateway with its extra 'vector'"


def numpy_problem() -> str | None:
    """Why numpy cannot be used, or None."""
    return _import_problem("numpy")


def simd_problem() -> str | None:
    """Why SimSIMD cannot be used, or None."""
    return _import_problem("simsimd")


@cache
def _import_problem(name: str) -> str | None:
    try:
        importlib.import_module(name)
    except ImportError as error:
        problem = f"{name} cannot be imported ({error}); {INSTALL}"
        _log.warning("vector library missing", library=name, reason=problem)
        return problem
    return None


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


class LibraryProblems(NamedTuple):
    """Why each cannot be used; None where it can."""

    sqlite_vec: str | None
    numpy: str | None
    simsimd: str | None


def probe_libraries(extension_path: Path | None) -> LibraryProblems:
    """`extension_path`: as configured; None means the bundled sqlite-vec."""
    with closing(apsw.Connection(":memory:")) as connection:
        refused = Extension(extension_path).load_into(connection)
    return LibraryProblems(refused, numpy_problem(), simd_problem())
