"""Opening an agent's index: the one place that knows which stores there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from backends.builtin.store.port import View
from backends.builtin.store.sqlite.connections import connect_reader, index_unavailable
from backends.builtin.store.sqlite.store import SqliteView


@contextmanager
def look_into(index: Path) -> Iterator[View]:
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
