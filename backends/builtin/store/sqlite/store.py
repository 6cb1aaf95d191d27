"""The SQLite store: `Database` behind the port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import apsw

from backends.builtin.store.port import Version
from backends.builtin.store.sqlite.database import Database
from backends.builtin.store.sqlite.files import SqliteFiles
from backends.builtin.store.sqlite.keywords import SqliteKeywords
from backends.builtin.store.sqlite.transcripts import SqliteTranscripts

if TYPE_CHECKING:
    from backends.builtin.store.sqlite.vectors.select import SqliteVectorSpace, VectorSearch
    from config.settings import VectorStoreSettings
    from providers.interface import Fingerprint


_NUMBERS: Final = count(1)
_READERS: Final[WeakKeyDictionary[apsw.Connection, int]] = WeakKeyDictionary()
"""A number for each connection that was ever asked for its version."""
_SELECT_REMEMBERED: Final = "SELECT value FROM meta WHERE key = ?"


class SqliteView:
    """`View` over a connection inside a read transaction."""

    def __init__(self, connection: apsw.Connection, engines: VectorSearch | None = None) -> None:
        self.connection = connection
        self._engines = engines
        self.keywords = SqliteKeywords(connection)
        self.files = SqliteFiles(connection)
        self.transcripts = SqliteTranscripts(connection)

    def vectors(self, fingerprint: Fingerprint) -> SqliteVectorSpace | None:
        engines = self._engines
        return None if engines is None else engines.space(self.connection, fingerprint)

    def version(self) -> Version:
        """Of all connections the numbers are their own (sqlite.org/pragma.html, data_version)."""
        connection = self.connection
        reader = _READERS.get(connection)
        if reader is None:
            reader = _READERS[connection] = next(_NUMBERS)
        ((number,),) = connection.execute("PRAGMA data_version")
        return Version(reader, int(number))

    def remembered(self, key: str) -> str | None:
        value: str | None = self.connection.execute(_SELECT_REMEMBERED, (key,)).get
        return value

    def probe(self) -> None:
        self.connection.execute("SELECT id FROM chunks LIMIT 1").fetchall()

    def journal(self) -> str:
        mode: str = self.connection.pragma("journal_mode")
        return mode


class SqliteWriter(SqliteView):
    """`Writer` over the writing connection inside its transaction."""

    def remember(self, key: str, text: str) -> None:
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, text))


class SqliteStore(Database):
    """`Store`."""

    def __init__(self, wanted: Path, *, former: Path | None = None, is_owner: bool = False) -> None:
        self._engines: VectorSearch | None = None
        super().__init__(wanted, former=former, is_owner=is_owner)

    def open_vectors(self, settings: VectorStoreSettings) -> VectorSearch | None:
        from backends.builtin.store.sqlite.vectors.select import (  # noqa: PLC0415 - not for keywords alone
            open_vector_search,
        )

        self._engines = open_vector_search(settings)
        return self._engines

    @contextmanager
    def view(self) -> Iterator[SqliteView]:
        """One state of the index. Raises IndexUnavailableError for everything that SQLite cannot do."""
        with self.reading() as connection:
            yield self.over(connection)

    @contextmanager
    def writer(self, patience_s: float | None = None) -> Iterator[SqliteWriter]:
        """See `Database.writing`."""
        with self.writing(patience_s) as connection:
            yield SqliteWriter(connection, self._engines)

    @property
    def place(self) -> str:
        return str(self.path)

    def over(self, connection: apsw.Connection) -> SqliteView:
        return SqliteView(connection, self._engines)
