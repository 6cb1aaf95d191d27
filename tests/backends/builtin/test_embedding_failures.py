"""Providers that refuse, break, come back or are replaced: nothing is lost, mixed or leaked."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from backends.builtin.embedding.backfill import Backfill
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import SearchRequest, SyncRequest
from config.settings import CacheSettings, ModelProviderSettings, Secret
from fakes.clock import FakeClock
from fakes.faults import fault, status
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from providers.choosing import provider
from providers.embedding.service import Embeddings, EmbeddingService
from providers.provider_interface import ProviderRequest

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]

CANARY = "sk-canary-5f2d9b7c1e8a4406"


@pytest.fixture
def voyage_host():
    with FakeVendor("voyage", dimensions=32) as host:
        yield host


@pytest.fixture
def notes(embedding_home):
    for number in range(12):
        embedding_home.write(f"memory/{number:02}.md", f"The boiler number {number}.\n")
    return embedding_home


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def services(tmp_path, clock):
    """Services over hosts, whose waits take no time."""

    def make(*hosts):
        made = []
        for host in hosts:
            search = {"provider": host.vendor, "remote": remote(host.base_url, host.key)}
            settings = make_settings(tmp_path, search=search)
            embedder = provider(host.vendor).create(ProviderRequest(settings, "primary"))
            made.append(EmbeddingService(embedder, clock=clock, draw=lambda: 0.0))
        return Embeddings(*made, clock=clock)

    return make


@pytest.fixture
def filling():
    """A backfill that runs over an index which does not change meanwhile."""

    @asynccontextmanager
    async def run(home, embeddings, *, watched=False):
        database = SqliteStore(home.index)
        backfill = Backfill(database, embeddings, CacheSettings())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(backfill.run)
            if watched:
                tasks.start_soon(embeddings.watch)
            yield backfill
            tasks.cancel_scope.cancel()
        await embeddings.aclose()
        database.close()

    return run


@pytest.fixture
def keyword_home(home):
    for number in range(12):
        home.write(f"memory/{number:02}.md", f"The boiler number {number}.\n")
    return home


async def test_a_refused_text_is_named_with_its_reason_and_stops_no_other(
    notes, vendor, embedded, look
):
    notes.write("memory/poison.md", "This text is poison.\n")
    vendor.rejects = lambda text: "poison" in text
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        report = await embedded(backend)
        assert report["coverage"]["embedded"] == 12
        (failed,) = report["failedTexts"]
        assert (failed["path"], failed["startLine"]) == ("memory/poison.md", 1)
        assert "HTTP 400" in failed["reason"]
        assert failed["attempts"] == 1
        assert (await backend.search(SearchRequest(query="poison"))).hits
        vendor.rejects = lambda _text: False
        with look(notes.index) as db:
            db.execute("UPDATE embedding_failures SET retry_at_ms = 0")
        notes.write("memory/new.md", "A new note wakes it.\n")
        await backend.search(SearchRequest(query="boiler"))
        with anyio.fail_after(60):
            while (await embedded(backend))["coverage"]["embedded"] < 14:
                await anyio.sleep(0.01)
        assert (await embedded(backend))["failedTexts"] == ()


async def test_texts_that_were_spoilt_by_the_hosts_slip_are_tried_again_unasked(
    notes, vendor, embedded, monkeypatch, indexed_alone
):
    monkeypatch.setattr("backends.builtin.store.sqlite.embeddings.FIRST_RETRY_MS", 300)
    await indexed_alone(notes)
    vendor.misbehave(fault("nan", position=3), times=1)
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        with anyio.fail_after(60):
            while (await embedded(backend))["coverage"]["embedded"] < 12:
                await anyio.sleep(0.01)
    sent = Counter(vendor.embedded())
    assert sent.pop("ping") == 1, "whether the host was to blame"
    assert sorted(sent.values()) == [1] * 11 + [2]


async def test_a_host_that_is_broken_for_a_while_gets_its_texts_later(
    keyword_home, services, filling, vendor, until, vectors_in
):
    await keyword_home.synced()
    vendor.misbehave(status(503))
    async with filling(keyword_home, services(vendor), watched=True) as backfill:
        await until(lambda: backfill.last_error)
        assert "HTTP 503" in backfill.last_error
        vendor.heal()
        await until(lambda: sum(vectors_in(keyword_home.index).values()) == 12)
        await until(lambda: backfill.last_error is None)
    texts = [text for text in vendor.embedded() if text.startswith("The boiler")]
    assert Counter(texts).most_common(1)[0][1] == 1


async def test_a_fallback_embeds_all_and_the_recovered_primary_keeps_what_it_had(
    keyword_home, services, filling, vendor, voyage_host, until, vectors_in, clock
):
    await keyword_home.synced()
    async with filling(keyword_home, services(vendor, voyage_host)):
        await until(lambda: vectors_in(keyword_home.index) == {"text-embedding-3-small": 12})
    paid = len(vendor.embedded())
    embeddings = services(vendor, voyage_host)
    async with filling(keyword_home, embeddings) as backfill:
        await until(lambda: not backfill.running)
        vendor.misbehave(status(401))
        with pytest.raises(Exception, match="HTTP 401"):
            await embeddings.embed_query("boiler")
        both = {"text-embedding-3-small": 12, "voyage-4-large": 12}
        await until(lambda: vectors_in(keyword_home.index) == both)
        vendor.heal()
        clock.advance(3600)
        assert await embeddings.probe()
        await until(lambda: not backfill.running)
        assert vectors_in(keyword_home.index) == both
    assert len(vendor.embedded()) == paid + 1, "only the probe"
    assert len(voyage_host.embedded()) == 12


async def test_while_a_new_model_embeds_the_old_vectors_stay_and_then_go(
    notes, vendor, embedded, until, vectors_in
):
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    notes.embed_with(vendor, model="text-embedding-3-large")
    vendor.max_items = 3
    paid, gate = len(vendor.embedded()), threading.Event()

    def wait(text):
        if text != "boiler" and len(vendor.embedded()) > paid:
            gate.wait(60)
        return False

    vendor.rejects = wait
    async with notes.open() as backend:
        await until(lambda: vectors_in(notes.index).get("text-embedding-3-large", 0) >= 3)
        answer = await backend.search(SearchRequest(query="boiler", max_results=20))
        assert vectors_in(notes.index)["text-embedding-3-large"] < 12
        assert vectors_in(notes.index)["text-embedding-3-small"] == 12
        assert (answer.model, answer.mode) == ("text-embedding-3-small", "hybrid")
        assert len(answer.hits) == 12
        gate.set()
        await until(lambda: vectors_in(notes.index) == {"text-embedding-3-large": 12})


async def test_vectors_stay_while_another_provider_stands_in_for_the_configured_one(
    notes, vendor, voyage_host, embedded, vectors_in, until
):
    """The key of the configured provider is missing only for now."""
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    notes.configure(provider="openai", fallback="voyage")
    access = ModelProviderSettings(base_url=voyage_host.base_url, api_key=Secret(voyage_host.key))
    notes.settings = replace(notes.settings, model_providers={"voyage": access})
    async with notes.open() as backend:
        both = {"text-embedding-3-small": 12, "voyage-4-large": 12}
        await until(lambda: vectors_in(notes.index) == both)
        await embedded(backend)
        report = await backend.status()
        assert report.details.vector.provider.primary.provider == "voyage"
        assert any("openai is replaced by voyage" in one for one in report.weaknesses)
    assert vectors_in(notes.index) == both


async def test_a_host_that_changed_its_dimensions_under_the_same_name_is_embedded_anew(
    notes, vendor, embedded, look, until, monkeypatch
):
    monkeypatch.setattr("providers.remote.embedder._TIME_TO_BELIEVE_S", 0.0)
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    vendor.dimensions = 48
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        first = await backend.search(SearchRequest(query="boiler", max_results=20))
        assert len(first.hits) == 12
        with anyio.fail_after(60):
            while (await embedded(backend))["coverage"]["dimensions"] != 48:
                await backend.search(SearchRequest(query="boiler"))  # it has to report it again
                await anyio.sleep(0.01)
        again = await backend.search(SearchRequest(query="boiler", max_results=20))
        assert again.mode == "hybrid"
        assert len(again.hits) == 12
    with look(notes.index) as db:
        assert {row[0] for row in db.execute("SELECT length(vector) FROM embeddings")} == {48 * 4}


async def test_one_vector_of_a_wrong_length_after_a_restart_takes_no_other_away(
    notes, vendor, embedded, look
):
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    before = len(vendor.embedded())
    notes.write("memory/new.md", "A new note.\n")
    vendor.misbehave(fault("wrong-dimension"), times=1)
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        with anyio.fail_after(60):
            while (await embedded(backend))["coverage"]["embedded"] != 13:
                await backend.search(SearchRequest(query="boiler"))
                await anyio.sleep(0.01)
    with look(notes.index) as db:
        assert {row[0] for row in db.execute("SELECT length(vector) FROM embeddings")} == {64 * 4}
    assert set(vendor.embedded()[before:]) <= {"A new note.", "boiler", "ping"}


async def test_no_key_is_in_any_answer_log_or_file(notes, vendor, embedded, caplog, capfd):
    vendor.key = CANARY
    notes.embed_with(vendor)
    async with notes.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        vendor.misbehave(status(401))
        notes.write("memory/new.md", "A new note.\n")
        seen = [repr(await backend.search(SearchRequest(query="something new")))]
        seen += [repr(await backend.status())]
    seen += [*capfd.readouterr(), caplog.text]
    assert "HTTP 401" in seen[0]
    assert not [text for text in seen if CANARY in text]
    for file in notes.root.rglob("*"):
        assert file.is_dir() or CANARY.encode() not in file.read_bytes(), file
