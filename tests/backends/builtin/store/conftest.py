"""A store of each kind: the port means the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from backends.builtin.store.port import PreparedFile, ReadFile, Store, Writer
from backends.builtin.store.sqlite.store import SqliteStore
from backends.builtin.syncing.preparing import Preparer
from backends.chunking import ChunkLimits
from backends.files.reading import UTF8
from backends.files.scan import FoundFile
from providers.provider_interface import Fingerprint

Opener = Callable[[str], Store]
"""Opens the same index for a viewpoint."""


def _sqlite(request) -> Opener:
    root: Path = request.getfixturevalue("tmp_path")
    return lambda viewpoint: SqliteStore(root / "index.sqlite", viewpoint=viewpoint)


def _postgres(request) -> Opener:
    from backends.builtin.store.postgres.store import PostgresStore

    settings = request.getfixturevalue("postgres_settings")
    return lambda viewpoint: PostgresStore(settings, "main", viewpoint=viewpoint)


def _pooled(request) -> Opener:
    """Opens a store through pgbouncer in transaction mode."""
    from backends.builtin.store.postgres.store import PostgresStore

    pooled = request.getfixturevalue("pooled_server")
    settings = pooled.settings(path=request.getfixturevalue("tmp_path") / "unused.sqlite")
    return lambda viewpoint: PostgresStore(settings, "main", viewpoint=viewpoint)


OPENERS: dict[str, Callable[[pytest.FixtureRequest], Opener]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "pooled": _pooled,
}


@pytest.fixture(params=OPENERS)
def opened(request) -> Iterator[Callable[..., Store]]:
    """Opens the same index repeatedly, for one viewpoint or another."""
    opener = OPENERS[request.param](request)
    with ExitStack() as stack:

        def opening(viewpoint: str = "") -> Store:
            return stack.enter_context(closing(opener(viewpoint)))

        yield opening


@pytest.fixture
def store(opened) -> Store:
    return opened()


class Shelf:
    """Publishes notes as a sync does."""

    pipeline = "test"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._preparer = Preparer(ChunkLimits())

    def of(self, store: Store) -> Shelf:
        """Returns the same for another store."""
        return Shelf(store)

    def read(
        self, path: str, text: str, *, at: int = 1, encoding: str = UTF8, inode: int = 7
    ) -> ReadFile:
        found = FoundFile(path, 0, len(text), at, at, inode)
        return ReadFile(found, text.encode(), at, encoding)

    def prepare(self, path: str, text: str) -> PreparedFile:
        return self._preparer.prepare(path, text)

    def put(self, writer: Writer, path: str, text: str, **how) -> int:
        read = self.read(path, text, **how)
        return writer.files.publish(read, self.pipeline, self.prepare(path, text))

    def write(self, path: str, text: str, **how) -> int:
        with self._store.writer() as writer:
            return self.put(writer, path, text, **how)


@pytest.fixture
def shelf(store) -> Shelf:
    return Shelf(store)


@pytest.fixture
def fingerprint() -> Fingerprint:
    return Fingerprint(provider="test", model="directions", endpoint="loopback")
