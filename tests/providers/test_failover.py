"""Falling back from one provider to another, and coming back."""

from pathlib import Path

import anyio
import numpy as np
import pytest

from config.settings import ModelProviderSettings, Secret
from fakes.faults import fault, status
from fakes.settings import make_settings, remote
from fakes.vendors import FakeVendor
from fakes.wire import embedding
from providers import provider_interface
from providers.choosing import choose, open_embeddings
from providers.embedding.service import Embeddings

pytestmark = pytest.mark.anyio

NOTES = ["one note", "another note"]


@pytest.fixture
def voyage_host():
    with FakeVendor("voyage", dimensions=32) as host:
        yield host


@pytest.fixture
def both(service_for, openai_host, voyage_host, clock):
    return Embeddings(service_for(openai_host), service_for(voyage_host), clock=clock)


@pytest.fixture
def alone(service_for, openai_host, clock):
    return Embeddings(service_for(openai_host), clock=clock)


@pytest.fixture
def changes():
    return []


async def lose(embeddings, collected, host, fault_):
    host.misbehave(fault_)
    with pytest.raises(provider_interface.ProviderError):
        await embeddings.embed_documents(NOTES, on_batch=collected)


async def test_the_primary_is_used_while_it_works(both, collected, voyage_host):
    await both.embed_documents(NOTES, on_batch=collected)
    await both.embed_query("q")
    assert not voyage_host.requests
    assert both.fingerprint.provider == "openai"
    assert both.state().fell_back is None


@pytest.mark.parametrize(
    "fault_", [status(401), status(404), status(402)], ids=["401", "404", "402"]
)
async def test_a_final_failure_switches_at_once_and_records_why(
    both, collected, openai_host, voyage_host, changes, fault_
):
    both.subscribe(changes.append)
    await lose(both, collected, openai_host, fault_)
    assert not collected.items
    assert both.fingerprint.provider == "voyage"
    record = both.state().fell_back
    assert record.origin == "openai"
    assert f"HTTP {fault_.status}" in record.reason
    (change,) = changes
    assert (change.event, change.provider) == ("fell-back", "voyage")
    assert change.provider == both.fingerprint.provider
    await both.embed_documents(NOTES, on_batch=collected)
    assert len(collected.vectors) == 2
    assert {delivery.fingerprint.provider for delivery in collected.deliveries} == {"voyage"}


async def test_passing_failures_switch_only_when_the_circuit_opens(both, collected, openai_host):
    openai_host.misbehave(status(503))
    for number in range(3):
        assert both.fingerprint.provider == "openai"
        with pytest.raises(provider_interface.ProviderTransientError):
            await both.embed_query(f"query {number}")
    assert both.fingerprint.provider == "voyage"


async def test_a_run_that_fails_midway_is_not_continued_by_the_other_provider(
    both, collected, openai_host, voyage_host
):
    openai_host.max_items = 1

    async def store(delivery):
        await collected(delivery)
        openai_host.misbehave(status(401))

    with pytest.raises(provider_interface.ProviderAuthError):
        await both.embed_documents(NOTES, on_batch=store)
    assert len(collected.items) == 1
    assert collected.deliveries[0].fingerprint.provider == "openai"
    assert not voyage_host.requests


async def test_a_query_names_the_provider_its_vector_comes_from(both, collected, openai_host):
    first = await both.embed_query("q")
    assert (first.fingerprint.provider, len(first.vector)) == ("openai", 64)
    await lose(both, collected, openai_host, status(401))
    second = await both.embed_query("q")
    assert (second.fingerprint.provider, len(second.vector)) == ("voyage", 32)
    np.testing.assert_allclose(second.vector, np.array(embedding("q", 32)) / 3, atol=1e-6)


async def test_the_primary_comes_back_when_it_recovers(
    both, collected, openai_host, clock, changes
):
    both.subscribe(changes.append)
    await lose(both, collected, openai_host, status(401))
    assert not await both.probe()
    assert len(openai_host.requests) == 1
    clock.advance(30)
    assert not await both.probe()
    assert len(openai_host.requests) == 2
    openai_host.heal()
    clock.advance(60)
    assert await both.probe()
    assert both.fingerprint.provider == "openai"
    assert both.state().fell_back is None
    assert [change.event for change in changes] == ["fell-back", "recovered"]


async def test_watching_brings_the_primary_back_by_itself(
    both, collected, openai_host, clock, changes
):
    recovered = anyio.Event()

    def listen(change):
        changes.append(change.event)
        if change.event == "recovered":
            recovered.set()

    both.subscribe(listen)
    async with anyio.create_task_group() as group:
        group.start_soon(both.watch)
        await anyio.wait_all_tasks_blocked()
        openai_host.misbehave(status(401), times=4)
        with pytest.raises(provider_interface.ProviderAuthError):
            await both.embed_documents(NOTES, on_batch=collected)
        with anyio.fail_after(60):
            await recovered.wait()
        group.cancel_scope.cancel()
    assert changes == ["fell-back", "recovered"]
    assert clock.sleeps == [30, 60, 120, 240]
    assert len(openai_host.requests) == 5


async def test_a_host_that_rejects_even_a_harmless_text_is_not_pestered(
    both, collected, openai_host, clock
):
    await lose(both, collected, openai_host, status(401))
    openai_host.misbehave(status(400))
    for _ in range(3):
        clock.advance(both.state().primary.next_probe_in_s)
        assert not await both.probe()
        assert both.state().primary.next_probe_in_s >= 30
    assert both.fingerprint.provider == "voyage"
    assert len(openai_host.requests) == 4


async def test_a_query_that_finds_the_primary_well_brings_it_back(
    alone, collected, openai_host, clock, changes
):
    alone.subscribe(changes.append)
    await lose(alone, collected, openai_host, status(401))
    openai_host.heal()
    clock.advance(30)
    await alone.embed_query("q")
    assert [change.event for change in changes] == ["lost", "recovered"]
    await alone.aclose()


async def test_without_a_fallback_the_loss_and_the_return_are_told(
    alone, collected, openai_host, clock, changes
):
    forget = alone.subscribe(changes.append)
    await lose(alone, collected, openai_host, status(401))
    assert alone.state().active.status == "open"
    openai_host.heal()
    clock.advance(30)
    await alone.embed_documents(NOTES, on_batch=collected)
    assert [change.event for change in changes] == ["lost", "recovered"]
    forget()
    await lose(alone, type(collected)(), openai_host, status(401))
    assert len(changes) == 2
    await alone.aclose()


async def test_a_vector_that_is_known_from_before_does_not_bring_a_lost_primary_back(
    alone, collected, openai_host, changes
):
    await alone.embed_query("known")
    alone.subscribe(changes.append)
    await lose(alone, collected, openai_host, status(401))
    await alone.prepare()
    await alone.embed_query("known")
    assert [change.event for change in changes] == ["lost"]
    await alone.aclose()


async def test_when_the_fallback_fails_too_its_error_is_raised_and_nothing_else_is_tried(
    both, collected, openai_host, voyage_host
):
    await lose(both, collected, openai_host, status(401))
    voyage_host.misbehave(status(402))
    with pytest.raises(provider_interface.ProviderQuotaError):
        await both.embed_documents(NOTES, on_batch=collected)
    assert both.fingerprint.provider == "voyage"
    state = both.state()
    assert (state.primary.status, state.fallback.status) == ("open", "open")


async def test_the_fallback_is_sent_its_own_key_and_nothing_of_the_primary(
    tmp_path, collected, openai_host, voyage_host
):
    voyage_host.key = "pa-of-voyage-alone"
    search = {
        "provider": "openai",
        "fallback": "voyage",
        "model": "text-embedding-3-small",
        "output_dimensionality": 16,
        "remote": remote(openai_host.base_url, openai_host.key, x_team="primary"),
    }
    voyage = ModelProviderSettings(base_url=voyage_host.base_url)
    settings = make_settings(
        tmp_path,
        search=search,
        model_providers={"voyage": voyage},
        environment_keys={"VOYAGE_API_KEY": Secret(voyage_host.key)},
    )
    embeddings = open_embeddings(settings, choose(settings))
    await embeddings.embed_query("q")
    await lose(embeddings, collected, openai_host, status(401))
    await embeddings.embed_query("q")
    await embeddings.aclose()
    (seen,) = voyage_host.requests
    assert seen.answered == 200
    assert seen.body["model"] == "voyage-4-large"
    assert "output_dimension" not in seen.body
    assert "x-team" not in seen.headers
    assert openai_host.key not in str(seen)
    assert voyage_host.key not in str(openai_host.requests)


async def test_a_hanging_primary_is_replaced_after_three_queries(both, openai_host, voyage_host):
    await both.embed_query("the library is loaded by now")
    openai_host.misbehave(fault("hang"))
    for number in range(3):
        with pytest.raises(provider_interface.ProviderTimeoutError):
            await both.embed_query(f"query {number}", deadline_s=0.2)
    answer = await both.embed_query("query 4")
    assert answer.fingerprint.provider == "voyage"


def open_sockets():
    return sum(one.is_socket() for one in Path("/proc/self/fd").iterdir())


async def test_closing_closes_the_connections_to_both(both, openai_host, voyage_host, collected):
    idle = open_sockets()
    await both.embed_query("q")
    await lose(both, collected, openai_host, status(401))
    await both.embed_query("q")
    await both.aclose()
    with anyio.fail_after(60):
        while open_sockets() > idle:  # the hosts notice a little later
            await anyio.sleep(0.01)
