"""The SQLite store: `Database` behind the port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from backends.builtin.store.sqlite.database import Database
from backends.builtin.store.sqlite.files import SqliteFiles
from backends.builtin.store.sqlite.keywords import SqliteKeywords
from backends.builtin.store.sqlite.transcripts import SqliteTranscripts

if TYPE_CHECKING:
    from backends.builtin.store.sqlite.vectors.select import SqliteVectorSpace, VectorSearch
    from config.settings import VectorStoreSettings
    from providers.interface import Fingerprint


class SqliteView:
    """`View` over a connection inside a read transaction."""

    def __init__(self, connection: apsw.Connection, engines: VectorSearch | None = None) -> None:
        self._connection = connection
        self._engines = engines
        self.keywords = SqliteKeywords(connection)
        self.files = SqliteFiles(connection)
        self.transcripts = SqliteTranscripts(connection)

    def vectors(self, fingerprint: Fingerprint) -> SqliteVectorSpace | None:
        engines = self._engines
        return None if engines is None else engines.space(self._connection, fingerprint)


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

    def over(self, connection: apsw.Connection) -> SqliteView:
        return SqliteView(connection, self._engines)
