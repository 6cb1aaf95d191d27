"""The SQLite store: `Database` behind the port."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import apsw

from backends.builtin.store.port import Version
from backends.builtin.store.sqlite.connections import connect_reader, index_unavailable
from backends.builtin.store.sqlite.database import Database, give_back_unused, scrub
from backends.builtin.store.sqlite.files import SqliteFiles
from backends.builtin.store.sqlite.keywords import SqliteKeywords
from backends.builtin.store.sqlite.transcripts import SqliteTranscripts

if TYPE_CHECKING:
    from backends.builtin.store.sqlite.jobs import SqliteJobs
    from backends.builtin.store.sqlite.vectors.select import SqliteVectorSpace, VectorSearch
    from backends.builtin.store.sqlite.vectors.store import SqliteEmbeddings
    from config.settings import VectorStoreSettings
    from providers.interface import Fingerprint


_NUMBERS: Final = count(1)
_READERS: Final[WeakKeyDictionary[apsw.Connection, int]] = WeakKeyDictionary()
"""A number for each connection that was ever asked for its version."""
_SELECT_REMEMBERED: Final = "SELECT value FROM meta WHERE key = ?"


class SqliteView:
    """`View` over a connection inside a read transaction."""

    def __init__(self, connection: apsw.Connection, engines: VectorSearch | None = None) -> None:
        self._connection = connection
        self._engines = engines
        self.keywords = SqliteKeywords(connection)
        self.files = SqliteFiles(connection)
        self.transcripts = SqliteTranscripts(connection)

    @cached_property
    def embeddings(self) -> SqliteEmbeddings:
        from backends.builtin.store.sqlite.vectors.store import (  # noqa: PLC0415 - not for keywords alone
            SqliteEmbeddings,
        )

        return SqliteEmbeddings(self._connection)

    @cached_property
    def jobs(self) -> SqliteJobs:
        from backends.builtin.store.sqlite.jobs import SqliteJobs  # noqa: PLC0415 - as above

        return SqliteJobs(self._connection)

    def vectors(self, fingerprint: Fingerprint) -> SqliteVectorSpace | None:
        engines = self._engines
        return None if engines is None else engines.space(self._connection, fingerprint)

    def version(self) -> Version:
        """Of all connections the numbers are their own (sqlite.org/pragma.html, data_version)."""
        connection = self._connection
        reader = _READERS.get(connection)
        if reader is None:
            reader = _READERS[connection] = next(_NUMBERS)
        ((number,),) = connection.execute("PRAGMA data_version")
        return Version(reader, int(number))

    def remembered(self, key: str) -> str | None:
        value: str | None = self._connection.execute(_SELECT_REMEMBERED, (key,)).get
        return value

    def probe(self) -> None:
        self._connection.execute("SELECT id FROM chunks LIMIT 1").fetchall()

    def journal(self) -> str:
        mode: str = self._connection.pragma("journal_mode")
        return mode


class SqliteWriter(SqliteView):
    """`Writer` over the writing connection inside its transaction."""

    def remember(self, key: str, text: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, text))


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
            yield SqliteView(connection, self._engines)

    @contextmanager
    def writer(self, patience_s: float | None = None) -> Iterator[SqliteWriter]:
        """See `Database.writing`."""
        with self.writing(patience_s) as connection:
            yield SqliteWriter(connection, self._engines)

    def tidy(self) -> None:
        give_back_unused(self)

    def scrub(self) -> bool:
        return scrub(self)

    @property
    def place(self) -> str:
        return str(self.path)


@contextmanager
def look_into(index: Path) -> Iterator[SqliteView]:
    """A view of an index file for those who only look: nothing is made, moved or replaced. Blocks.

    This process may have it open: SQLite keeps its locks, which other descriptors would drop. Raises
    IndexUnavailableError.
    """
    path = Path(os.path.realpath(index))
    try:
        with closing(connect_reader(path)) as connection:
            yield SqliteView(connection)
    except apsw.Error as error:
        raise index_unavailable(path, error) from error
