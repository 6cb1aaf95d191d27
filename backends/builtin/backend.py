"""The builtin engine behind the `MemoryBackend` interface.

Owns the life of the database and puts the parts together: freshness, search, reading, status.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from anyio import CancelScope, CapacityLimiter
from anyio.to_thread import run_sync

from backends.builtin.database import READERS, Database
from backends.builtin.failures import IndexDamagedError
from backends.builtin.freshness import Freshness
from backends.builtin.indexing import Indexer
from backends.builtin.preparing import Preparer
from backends.builtin.reporting import report_status
from backends.builtin.searching import Searcher
from backends.chunking import ChunkLimits
from backends.files.get import read_lines
from backends.files.roots import MemoryRoots
from backends.interface import (
    BackendStatus,
    Hit,
    ProgressCallback,
    ReadAnswer,
    ReadRequest,
    SearchAnswer,
    SearchRequest,
    Stale,
    SyncReport,
    SyncRequest,
)
from config.settings import Settings

T = TypeVar("T")


class BuiltinBackend:
    """The memory of one agent in one SQLite file. Make it with `open_builtin`."""

    def __init__(self, settings: Settings, database: Database) -> None:
        search = settings.search
        self._settings = settings
        self._database = database
        self._roots = MemoryRoots(settings.workspace, search.extra_paths)
        preparer = Preparer(ChunkLimits(search.chunking.tokens, search.chunking.overlap))
        self._indexer = Indexer(database, self._roots, preparer)
        self._freshness = Freshness(self._indexer)
        self._searcher = Searcher(search)
        self._readers = CapacityLimiter(READERS)

    async def search(self, request: SearchRequest) -> SearchAnswer:
        return await self._mended(lambda: self._search(request))

    async def _search(self, request: SearchRequest) -> SearchAnswer:
        started = time.perf_counter()
        stale = await self._freshen()
        fresh = time.perf_counter()
        hits = await run_sync(self._find, request, limiter=self._readers)
        done = time.perf_counter()
        return SearchAnswer(
            hits=hits,
            outcome="ok" if hits else "empty",
            mode="keyword",
            stale=stale,
            timings_ms={
                "freshen": round((fresh - started) * 1000, 2),
                "search": round((done - fresh) * 1000, 2),
            },
        )

    async def read(self, request: ReadRequest) -> ReadAnswer:
        return await run_sync(read_lines, self._roots, request)

    async def sync(
        self, request: SyncRequest, *, progress: ProgressCallback | None = None
    ) -> SyncReport:
        return await self._mended(lambda: self._freshness.sync(request, progress))

    async def status(self) -> BackendStatus:
        parts = (self._settings, self._database, self._indexer, self._freshness)
        return await self._mended(lambda: run_sync(report_status, *parts))

    async def aclose(self) -> None:
        with CancelScope(shield=True):  # an open log would cost the next start time
            await run_sync(self._database.close)

    async def _mended(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does the work again when it came upon damage: the index is a new one by then."""
        try:
            return await work()
        except IndexDamagedError:
            return await work()

    async def _freshen(self) -> Stale | None:
        sync = self._settings.search.sync
        if not sync.on_search:
            return self._freshness.unsynced()
        return await self._freshness.sweep(sync.search_budget_ms / 1000)

    def _find(self, request: SearchRequest) -> tuple[Hit, ...]:
        with self._database.reading() as connection:
            return self._searcher.search(connection, request)


@asynccontextmanager
async def open_builtin(settings: Settings) -> AsyncIterator[BuiltinBackend]:
    """Opens or makes the index of the agent. Raises IndexUnavailableError."""
    database = await run_sync(Database, settings.search.store.path)
    backend = BuiltinBackend(settings, database)
    try:
        yield backend
    finally:
        await backend.aclose()
