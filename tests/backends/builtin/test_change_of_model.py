"""After a change of model the former model answers until the new one has read every note."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace

from backends.builtin.backend import open_builtin
from backends.interface import EmbeddingModel, SearchRequest, SyncRequest
from config.settings import ModelProviderSettings, QuerySettings, Secret
from fakes.faults import fault
from fakes.settings import remote
from fakes.vendors import FakeVendor

pytestmark = [pytest.mark.anyio, pytest.mark.every_store, pytest.mark.and_pooled]

OLD, NEW = "text-embedding-3-small", "text-embedding-3-large"
NOTES = 40
QUERY = "the boiler number 7"


@pytest.fixture
async def read_by_old_model(home, vendor, embedded):
    """An index whose notes the old model has read; the host now accepts one text per request."""
    home.embed_with(vendor, model=OLD)
    for number in range(NOTES):
        home.write(f"memory/{number:02}.md", f"The boiler number {number}.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
    vendor.max_items, vendor.delay_s = 1, 0.2
    return home


@pytest.fixture
def gate(vendor):
    """An event; the host embeds no note until it is set."""
    opened = threading.Event()

    def is_held(text):
        return text.startswith("The boiler") and not opened.wait(60)

    vendor.rejects = is_held
    yield opened
    opened.set()


@pytest.fixture
def chosen(until):
    """Waits until the provider is in use; returns its report."""

    async def wait(backend):
        async def report():
            return (await backend.status()).details.vector

        while not (found := await report()).backfill:
            pass
        return found

    return wait


async def ask(backend, query=QUERY):
    return await backend.search(SearchRequest(query=query))


async def test_the_old_model_answers_until_the_new_one_has_read_all(
    read_by_old_model, gate, vendor, embedded, chosen, vectors_in
):
    home = read_by_old_model
    home.embed_with(vendor, model=NEW)
    async with home.open() as backend:
        report = await chosen(backend)
        assert report.answered_by == EmbeddingModel("openai", OLD)
        answer = await ask(backend)
        assert (answer.mode, answer.model, answer.warning) == ("hybrid", OLD, None)
        assert answer.hits[0].vector_score is not None
        vendor.max_items, vendor.delay_s = None, 0.0
        gate.set()
        await embedded(backend)
        answer = await ask(backend)
        assert (answer.mode, answer.model) == ("hybrid", NEW)
        assert not (await backend.status()).details.vector.answered_by
    assert vectors_in(home.index) == {NEW: NOTES}


async def test_other_dimensions_of_the_same_model_are_another_model(
    read_by_old_model, gate, vendor, chosen
):
    home = read_by_old_model
    home.embed_with(vendor, model=OLD, output_dimensionality=32)
    async with home.open() as backend:
        await chosen(backend)
        answer = await ask(backend)
        assert answer.mode == "hybrid"
        (asked,) = [one for one in vendor.requests if one.texts == (QUERY,)]
        assert asked.body.get("dimensions") is None
        gate.set()


async def test_an_old_model_that_the_host_no_longer_serves_is_given_up_for_the_new_one(
    read_by_old_model, vendor, chosen, until
):
    home = read_by_old_model
    home.embed_with(vendor, model=NEW)
    vendor.models = (NEW,)
    async with home.open() as backend:
        await chosen(backend)
        answer = await ask(backend)
        assert answer.model == NEW
        assert answer.hits
        sent = [one.body["model"] for one in vendor.requests].count(OLD)
        await ask(backend, "the boiler number 8")
        assert [one.body["model"] for one in vendor.requests].count(OLD) == sent
        assert not (await backend.status()).details.vector.answered_by


async def test_the_silence_of_the_old_host_is_not_taken_for_a_failure_of_the_new_one(
    home, vendor, embedded, chosen
):
    home.write("memory/a.md", "The boiler.\n")
    with FakeVendor("openai", models=("old",)) as before:
        entry = ModelProviderSettings(
            api="openai-completions", base_url=before.base_url, api_key=Secret(before.key)
        )
        home.configure(provider="gpu-box", model="old")
        home.settings = replace(home.settings, model_providers={"gpu-box": entry})
        async with home.open() as backend:
            await backend.sync(SyncRequest())
            await embedded(backend)
        vendor.rejects = lambda text: text.startswith("The boiler")
        before.misbehave(fault("hang"))
        home.embed_with(vendor, query=QuerySettings(embedding_timeout_ms=100))
        home.settings = replace(home.settings, model_providers={"gpu-box": entry})
        async with home.open() as backend:
            assert (await chosen(backend)).answered_by == EmbeddingModel("gpu-box", "old")
            answer = await ask(backend)
            assert answer.warning == "Answered by keywords: old gave no vector in time."
            provider = (await backend.status()).details.vector.provider
            assert (provider.active.provider, provider.active.status) == ("openai", "ready")


async def test_the_provider_before_answers_also_where_it_is_the_fallback_now(
    read_by_old_model, gate, vendor, embedded, chosen
):
    home = read_by_old_model
    entry = ModelProviderSettings(base_url=vendor.base_url, api_key=Secret(vendor.key))
    with FakeVendor("voyage") as host:
        host.rejects = vendor.rejects
        home.embed_with(host, fallback="openai")
        home.settings = replace(home.settings, model_providers={"openai": entry})
        async with home.open() as backend:
            assert (await chosen(backend)).answered_by == EmbeddingModel("openai", OLD)
            answer = await ask(backend)
            assert (answer.mode, answer.model, answer.warning) == ("hybrid", OLD, None)
            gate.set()
            await embedded(backend)
            assert (await ask(backend)).provider == "voyage"
        async with home.open() as backend:
            assert not (await chosen(backend)).answered_by


async def test_a_key_configured_for_one_provider_is_not_sent_to_the_one_before(
    read_by_old_model, vendor, chosen
):
    home = read_by_old_model
    before = len(vendor.requests)
    home.configure(provider="gemini", remote=remote("http://127.0.0.1:9", "another-key-of-gemini"))
    async with home.open() as backend:
        report = await chosen(backend)
        assert not report.answered_by
        answer = await ask(backend)
        assert answer.mode == "keyword"
        assert answer.hits
    assert len(vendor.requests) == before


async def test_without_any_old_vectors_the_answer_says_that_nothing_was_read_yet(
    home, vendor, chosen
):
    home.embed_with(vendor, model=NEW)
    home.write("memory/a.md", "The boiler.\n")
    async with home.open() as backend:
        await chosen(backend)
        vendor.rejects = lambda text: "boiler" in text
        await backend.sync(SyncRequest())
        answer = await ask(backend, "the heating")
        assert answer.mode == "keyword"
        assert answer.warning.endswith("has not embedded any note yet.")
    async with open_builtin(home.settings, background=False) as command:
        answer = await ask(command, "the heating")
        assert (
            "has not embedded any note yet; `memory-gateway index` and a gateway" in answer.warning
        )
