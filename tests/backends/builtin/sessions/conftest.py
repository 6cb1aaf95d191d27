"""An agent whose transcripts are a source."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from backends.builtin.backend import BuiltinBackend, open_builtin, open_store
from backends.builtin.store.postgres.store import PostgresStore
from backends.builtin.syncing.indexing import Indexer
from backends.builtin.syncing.preparing import Preparer, chunk_limits
from backends.builtin.syncing.sessions import SessionIndexer
from backends.files.roots import MemoryRoots
from backends.transcripts.agent_transcripts import AgentTranscripts
from config.settings import SessionSyncSettings, SyncSettings
from fakes.indexing import indexer_of
from fakes.transcripts import Transcript


@pytest.fixture
def talking(home) -> Callable[..., Any]:
    """Configures the agent; by default the few turns of a test never reach its thresholds."""

    def configure(
        delta_bytes: int = 10**9,
        delta_messages: int = 10**6,
        budget_ms: int = 20_000,
        **search: Any,
    ) -> Any:
        thresholds = SessionSyncSettings(delta_bytes=delta_bytes, delta_messages=delta_messages)
        home.configure(
            **{
                "sources": ("memory", "sessions"),
                "session_memory": True,
                "sync": SyncSettings(sessions=thresholds, search_budget_ms=budget_ms),
            }
            | search
        )
        return home

    configure()
    home.talking = configure
    return home


@pytest.fixture
def by_steps(talking) -> Callable[[], Any]:
    """Opens the agent's backend, and an indexer on the same store that does one step at each call."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[BuiltinBackend, Indexer]]:
        settings = talking.settings
        async with (
            open_store(settings, is_owner=True) as store,
            open_builtin(settings, store=store) as backend,
        ):
            preparer = Preparer(chunk_limits(settings))
            transcripts = AgentTranscripts.of(settings)
            sync = settings.search.sync.sessions
            sessions = SessionIndexer(store, transcripts, preparer, sync, enabled=True)
            yield backend, indexer_of(store, MemoryRoots.of(settings), preparer, sessions)

    return opened


@pytest.fixture
def transcript(talking) -> Callable[[str], Transcript]:
    """Begins a transcript of that name."""
    return lambda name="one": Transcript(talking.settings.sessions_dir, name)


@pytest.fixture
def rows(home) -> Callable[[Path], list[tuple[Any, ...]]]:
    """Every transcript chunk of an index: row id, path and text, in order."""

    def read(index: Path) -> list[tuple[Any, ...]]:
        if home.store.driver == "postgres":
            settings = home.settings.search.store
            with (
                closing(PostgresStore(settings, "main", viewpoint="")) as store,
                store.view() as view,
            ):
                found = view._transaction.run(
                    "SELECT c.chunk_id, f.path, c.text FROM chunks AS c"
                    " JOIN files AS f USING (agent_id, file_id)"
                    " WHERE c.agent_id = %(agent)s AND f.source = 'sessions' ORDER BY f.path, c.start"
                )
                return [(key, path, text.decode()) for key, path, text in found]
        with closing(apsw.Connection(str(index))) as db:
            return list(
                db.execute(
                    "SELECT c.id, f.path, c.text FROM chunks AS c JOIN files AS f ON f.id = c.file_id"
                    " WHERE f.source = 'sessions' ORDER BY f.path, c.start"
                )
            )

    return read
