"""A search whose query cannot be embedded is answered by keywords, in time, and says why."""

from __future__ import annotations

import sys
import time

import anyio
import pytest
from msgspec.structs import replace

from backends.builtin.embedding.semantics import Semantics
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import SearchRequest, SyncRequest
from config.settings import QuerySettings, Secret
from fakes.faults import fault, openai_quota, redirect, status

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]

PATIENCE_MS = 300


@pytest.fixture
def impatient(home, vendor, embedding_home):
    """An agent that waits 0.3 s for a query's vector."""
    home.embed_with(vendor, query=QuerySettings(embedding_timeout_ms=PATIENCE_MS))
    home.write("memory/a.md", "The boiler was serviced.\n")
    home.write("memory/b.md", "The pump was not.\n")
    return home


async def ask(backend, query):
    started = time.monotonic()
    answer = await backend.search(SearchRequest(query=query))
    return answer, time.monotonic() - started


@pytest.mark.promises_seconds
async def test_a_host_that_hangs_costs_a_search_no_more_than_its_patience(
    impatient, vendor, embedded
):
    async with impatient.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        vendor.misbehave(fault("hang"))
        answer, seconds = await ask(backend, "boiler")
        assert [hit.path for hit in answer.hits] == ["memory/a.md"]
        assert answer.mode == "keyword"
        assert "did not answer within" in answer.warning
        assert seconds < PATIENCE_MS / 1000 + 0.7


async def test_who_waits_for_no_vector_gets_keywords_and_harms_no_provider(
    impatient, vendor, embedded, query_settings
):
    search = replace(impatient.settings.search, **query_settings(embedding_timeout_ms=0))
    impatient.settings = replace(impatient.settings, search=search)
    async with impatient.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        sent = len(vendor.requests)
        for number in range(4):
            answer, _ = await ask(backend, f"boiler {number}")
            assert (answer.mode, answer.warning) == ("keyword", None)
        state = await backend.status()
        assert not state.weaknesses
        assert state.details.vector.provider.active.status == "ready"
    assert len(vendor.requests) == sent


@pytest.mark.promises_seconds
async def test_after_some_failures_nothing_is_waited_for_until_the_circuit_closes(
    impatient, vendor, embedded
):
    async with impatient.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        vendor.misbehave(fault("hang"))
        for number in range(3):
            await ask(backend, f"boiler {number}")
        sent = len(vendor.requests)
        answer, seconds = await ask(backend, "boiler again")
        assert seconds < 0.15
        assert [hit.path for hit in answer.hits] == ["memory/a.md"]
        assert "The next attempt is in" in answer.warning
        assert len(vendor.requests) == sent
        state = await backend.status()
        assert any("gives no vectors at present" in one for one in state.weaknesses)
        provider = state.details.vector.provider.active
        assert provider.status == "open"
        assert provider.next_probe_in_s > 0


@pytest.mark.parametrize(
    "broken",
    [
        status(401), status(403), status(404), status(413), status(500), openai_quota(),
        redirect("http://127.0.0.1:9/v1/embeddings"), fault("reset"), fault("drip"),
        fault("invalid-json"), fault("html"), fault("short"), fault("nan"), fault("zero"),
    ],
    ids=lambda one: f"{one.kind}-{one.status}",
)  # fmt: skip
@pytest.mark.promises_seconds
async def test_every_way_to_fail_leaves_the_keywords_and_a_reason(
    impatient, vendor, embedded, broken
):
    async with impatient.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        vendor.misbehave(broken)
        answer, seconds = await ask(backend, "boiler")
        assert [hit.path for hit in answer.hits] == ["memory/a.md"]
        assert (answer.mode, answer.outcome) == ("keyword", "ok")
        assert answer.warning
        assert seconds < 2
        vendor.heal()


async def test_a_cancelled_search_hangs_up(impatient, vendor, embedded):
    impatient.embed_with(vendor)
    async with impatient.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        vendor.misbehave(fault("hang"))
        sent = len(vendor.requests)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, backend, "boiler")
            await anyio.to_thread.run_sync(
                vendor.wait_until, lambda host: len(host.requests) > sent
            )
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(vendor.wait_until, lambda host: host.hung_up == 1)
    assert vendor.hung_up == 1


@pytest.mark.promises_seconds
async def test_a_search_before_the_provider_is_chosen_waits_for_it_only_so_long(impatient):
    database = SqliteStore(impatient.index)
    semantics = Semantics(impatient.settings, database, backfill=False)
    started = time.monotonic()
    meaning = await semantics.meaning("boiler")
    assert PATIENCE_MS / 1000 <= time.monotonic() - started < PATIENCE_MS / 1000 + 0.5
    assert meaning.vector is None
    assert "still being chosen" in meaning.warning
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(semantics.run)
        assert (await semantics.meaning("boiler")).vector is not None
        tasks.cancel_scope.cancel()
    database.close()


async def test_the_first_search_of_a_process_has_its_vector(embedding_home, vendor, embedded):
    embedding_home.write("memory/a.md", "The boiler was serviced.\n")
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    async with embedding_home.open() as backend:
        answer, _ = await ask(backend, "boiler")
    assert (answer.mode, answer.warning) == ("hybrid", None)
    assert (answer.provider, answer.model) == ("openai", "text-embedding-3-small")


async def test_a_process_that_stays_loads_what_a_query_needs_before_there_is_one(
    embedding_home, vendor, until, monkeypatch
):
    monkeypatch.delitem(sys.modules, "providers.remote.wires", raising=False)
    monkeypatch.delattr("providers.remote.wires", raising=False)
    async with embedding_home.open():
        await until(lambda: "providers.remote.wires" in sys.modules)
        assert vendor.requests == []


async def test_a_provider_that_cannot_be_used_is_named_with_what_to_do(home):
    home.configure(provider="openai")
    home.write("memory/a.md", "The boiler was serviced.\n")
    async with home.open() as backend:
        answer, _ = await ask(backend, "boiler")
        state = await backend.status()
    assert (len(answer.hits), answer.mode) == (1, "keyword")
    assert state.provider is None
    assert any("openai cannot be used" in one for one in state.weaknesses)
    (candidate,) = state.details.vector.candidates
    assert candidate.usable is False
    assert candidate.remedy


async def test_unasked_every_candidate_is_listed_and_nothing_is_missed(home):
    home.configure(provider="auto")
    home.write("memory/a.md", "The boiler was serviced.\n")
    async with home.open() as backend:
        answer, _ = await ask(backend, "boiler")
        state = await backend.status()
    assert (len(answer.hits), answer.mode, answer.warning) == (1, "keyword", None)
    assert state.weaknesses == ()
    names = [one.provider for one in state.details.vector.candidates]
    assert names == ["local", "openai", "gemini", "voyage"]


async def test_a_host_that_rejects_every_query_makes_the_memory_weaker(impatient, vendor, embedded):
    async with impatient.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        vendor.rejects = lambda _text: True
        answer, _ = await ask(backend, "boiler")
        assert answer.mode == "keyword"
        (weakness,) = await backend.weaknesses()
        assert weakness.startswith("The last request to openai failed: ")


async def test_a_key_without_its_library_is_told_in_answers_and_in_health(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    home.configure(provider="auto")
    keys = {"OPENAI_API_KEY": Secret("sk-x")}
    home.settings = replace(home.settings, environment_keys=keys)
    home.write("memory/a.md", "The boiler was serviced.\n")
    async with home.open() as backend:
        answer, _ = await ask(backend, "boiler")
        assert "although there is a key for openai" in answer.warning
        assert "pip install" in answer.warning
        assert await backend.weaknesses() == (answer.warning,)
        (provider, _vectors) = await backend.try_out(5)
        assert "although there is a key for openai" in provider.detail


async def test_a_fault_of_our_own_leaves_the_keywords(impatient, look):
    await impatient.synced()
    with look(impatient.index) as db:
        db.execute("INSERT INTO meta VALUES ('learned_limits', '{broken')")
    async with impatient.open() as backend:
        answer, _ = await ask(backend, "boiler")
        assert [hit.path for hit in answer.hits] == ["memory/a.md"]
        state = await backend.status()
    assert any("internal fault" in one for one in state.weaknesses)
    assert "internal fault" in state.details.vector.reason


async def test_a_filter_that_permits_no_note_is_not_told_as_a_lack_of_vectors(impatient, embedded):
    async with impatient.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        answer = await backend.search(SearchRequest(query="boiler", tags=("absent",)))
        assert (answer.hits, answer.mode) == ((), "keyword")
        assert answer.warning == (
            "No note passes the filters (include, exclude, tags, after, before)."
        )


async def test_equal_queries_are_embedded_once(embedding_home, vendor, embedded):
    embedding_home.write("memory/a.md", "The boiler was serviced.\n")
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        for _ in range(3):
            await ask(backend, "boiler")
    assert vendor.embedded().count("boiler") == 1
