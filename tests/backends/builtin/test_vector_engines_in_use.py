"""The engines in real searches: which one answers when, the report of `status`, and which tasks wait for others."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import apsw
import pytest
from msgspec.structs import replace

from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import SearchRequest, SyncRequest
from benchmarks.large_index import Size, make_index
from config.settings import VectorStoreSettings
from providers.batch import find_batch
from providers.choosing import choose

pytestmark = pytest.mark.anyio

PATIENCE_S = 60


@pytest.fixture
def notes(embedding_home):
    embedding_home.write("memory/a.md", "The boiler was serviced.\n")
    embedding_home.write("memory/b.md", "The pump was not.\n")
    return embedding_home


def with_engine(home, vendor, **vector):
    """Sets other `store.vector.*` than the defaults."""
    home.embed_with(vendor)
    search = home.settings.search
    store = replace(search.store, vector=VectorStoreSettings(**vector))
    home.settings = replace(home.settings, search=replace(search, store=store))


async def engine_of(backend):
    return (await backend.status()).details.vector.search


async def loaded(backend):
    with anyio.fail_after(PATIENCE_S):
        while (await engine_of(backend)).engine != "resident":
            await anyio.sleep(0.01)


async def test_the_vectors_are_loaded_after_the_first_answer(notes, embedded):
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        before = await engine_of(backend)
        assert (before.engine, before.resident_bytes) == ("sqlite-vec", 0)
        assert before.unavailable == {"resident": "the vectors are not loaded yet"}
        assert (before.dimensions, before.bytes_per_chunk) == (64, 64 * 4)
        first = await backend.search(SearchRequest(query="boiler"))
        await loaded(backend)
        after = await engine_of(backend)
        assert after.resident_vectors == 2
        again = await backend.search(SearchRequest(query="boiler"))
    assert first.mode == again.mode == "hybrid"
    assert first.hits == again.hits


async def test_what_was_embedded_a_moment_ago_is_found_by_its_vector(notes, embedded):
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        await backend.search(SearchRequest(query="boiler"))
        await loaded(backend)
        for number in range(5):
            notes.write(f"memory/new{number}.md", f"Tulip number {number} was planted.\n")
            await backend.search(SearchRequest(query="tulip"))
            await embedded(backend)
            found = await backend.search(SearchRequest(query=f"Tulip number {number}"))
            assert found.hits[0].path == f"memory/new{number}.md"
            assert found.hits[0].vector_score > 0.5
        (notes.workspace / "memory/new0.md").unlink()
        found = await backend.search(SearchRequest(query="Tulip number 0"))
        assert "memory/new0.md" not in {hit.path for hit in found.hits}


async def test_an_extension_that_cannot_be_loaded_is_told_and_searches_go_on(
    notes, vendor, embedded, tmp_path
):
    with_engine(notes, vendor, engine="sqlite-vec", extension_path=tmp_path / "absent.so")
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        found = await backend.search(SearchRequest(query="boiler"))
        engine = await engine_of(backend)
    assert found.mode == "hybrid"
    assert (engine.configured, engine.engine) == ("sqlite-vec", "numpy")
    assert "absent.so" in engine.unavailable["sqlite-vec"]


@pytest.fixture
def in_the_middle_of_sql(monkeypatch):
    """A list of functions to call, in their thread, in the middle of each longer statement from now on."""
    called: list[Callable[[], None]] = []

    def interrupted() -> bool:
        for one in called:
            one()
        return False

    def opened(connection: apsw.Connection) -> None:
        connection.set_progress_handler(interrupted, 500)

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, opened])
    return called


@pytest.mark.parametrize("engine", ["sqlite-vec", "numpy"])
async def test_the_event_loop_is_free_while_an_engine_reads_every_vector(
    notes, vendor, engine, embedded, in_the_middle_of_sql
):
    with_engine(notes, vendor, engine=engine)
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    fingerprint = find_batch(notes.settings, choose(notes.settings)).fingerprint
    database = SqliteStore(notes.index)
    make_index(notes.workspace, database, Size(600, 64), fingerprint)
    database.close()
    turn = threading.Event()
    waits = []

    async def take_turns():
        while True:
            await anyio.sleep(0)
            turn.set()

    def until_its_next_turn():
        turn.clear()
        waits.append(turn.wait(PATIENCE_S))

    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await backend.search(SearchRequest(query="boiler"))  # the provider is chosen after this
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_turns)
            in_the_middle_of_sql.append(until_its_next_turn)
            found = await backend.search(SearchRequest(query="boiler"))
            in_the_middle_of_sql.clear()
            tasks.cancel_scope.cancel()
    assert found.mode == "hybrid"
    assert len(waits) > 10
    assert all(waits)
