"""Embedding a query: deadline, cache, sharing, circuit, cancelling."""

import time

import anyio
import anyio.to_thread
import numpy as np
import pytest

from fakes.faults import fault, rate_limited, status
from providers import provider_interface
from providers.embedding.service import QueryCache
from providers.provider_interface import ProviderTransientError

pytestmark = pytest.mark.anyio


async def test_equal_queries_are_sent_once(host, service_for):
    service = service_for(host)
    answers = []

    async def search():
        answers.append(await service.embed_query("where is the key"))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(search)
    await search()
    assert len(host.requests) == 1
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("kind", ["hang", "drip"])
@pytest.mark.promises_seconds
async def test_a_hanging_host_costs_no_more_than_the_deadline_and_then_nothing(
    host, service_for, clock, kind
):
    service = service_for(host)
    await service.embed_query("the library is loaded by now")
    host.misbehave(fault(kind))
    for number in range(3):
        began = time.monotonic()
        with pytest.raises(provider_interface.ProviderTimeoutError, match=r"0\.2 s"):
            await service.embed_query(f"query {number}", deadline_s=0.2)
        assert time.monotonic() - began < 1.0
    assert service.state().status == "open"
    asked = len(host.requests)
    began = time.monotonic()
    with pytest.raises(provider_interface.CircuitOpenError):
        await service.embed_query("one more", deadline_s=0.2)
    assert time.monotonic() - began < 0.1
    assert len(host.requests) == asked
    host.heal()
    clock.advance(service.state().next_probe_in_s)
    await service.embed_query("one more")
    assert service.state().status == "ready"


async def test_a_query_is_tried_twice_at_most(host, service_for):
    service = service_for(host)
    host.misbehave(status(503))
    with pytest.raises(provider_interface.ProviderTransientError):
        await service.embed_query("q")
    assert len(host.requests) == 2


async def test_a_brief_failure_is_not_noticed(host, service_for):
    host.misbehave(status(503), times=1)
    await service_for(host).embed_query("q")
    assert len(host.requests) == 2


async def test_a_query_does_not_wait_for_a_rate_limit_beyond_its_deadline(host, service_for, clock):
    service = service_for(host)
    host.misbehave(rate_limited("30"))
    with pytest.raises(provider_interface.ProviderRateLimitError):
        await service.embed_query("q", deadline_s=4.0)
    assert clock.sleeps == []
    assert len(host.requests) == 1


@pytest.mark.parametrize("kind", ["zero", "nan", "short"])
async def test_a_query_without_a_usable_vector_is_an_error(host, service_for, kind):
    host.misbehave(fault(kind))
    with pytest.raises(provider_interface.ProviderBadResponseError):
        await service_for(host).embed_query("q")


async def test_a_cached_query_is_answered_while_the_host_is_down(host, service_for):
    service = service_for(host)
    await service.embed_query("known")
    host.misbehave(status(401))
    with pytest.raises(provider_interface.ProviderAuthError):
        await service.embed_query("unknown")
    await service.embed_query("known")
    assert len(host.requests) == 2


async def test_a_query_is_asked_again_when_the_host_has_another_model(
    openai_host, service_for, monkeypatch
):
    monkeypatch.setattr("providers.remote.embedder._TIME_TO_BELIEVE_S", 0.0)
    service = service_for(openai_host)
    assert len(await service.embed_query("known")) == 64
    openai_host.dimensions = 32
    with pytest.raises(provider_interface.ProviderBadResponseError):
        await service.embed_query("unknown")
    assert len(await service.embed_query("unknown")) == 32
    assert len(await service.embed_query("known")) == 32
    assert service.state().statistics.query_cache_hits == 0


async def test_cancelling_a_search_hangs_up(host, service_for):
    host.misbehave(fault("hang"))
    service = service_for(host)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: service.embed_query("q", deadline_s=30))
        await anyio.to_thread.run_sync(host.wait_until, lambda host: host.at_once == 1)
        group.cancel_scope.cancel()
    await anyio.to_thread.run_sync(host.wait_until, lambda host: host.hung_up == 1)
    assert service.state().status == "ready"


async def test_a_query_does_not_queue_behind_documents(openai_host, service_for, collected):
    service = service_for(openai_host)
    await service.embed_query("the library is loaded by now")
    openai_host.misbehave(fault("hang"), times=1)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: service.embed_documents(["a note"], on_batch=collected))
        await anyio.to_thread.run_sync(openai_host.wait_until, lambda host: host.at_once == 1)
        await service.embed_query("q", deadline_s=30)
        assert openai_host.at_once == 1  # the documents still wait
        group.cancel_scope.cancel()


@pytest.mark.promises_seconds
async def test_one_that_shares_a_request_keeps_its_own_deadline(openai_host, service_for):
    service = service_for(openai_host)
    await service.embed_query("the library is loaded by now")
    openai_host.misbehave(fault("hang"))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: service.embed_query("q", deadline_s=30))
        await anyio.to_thread.run_sync(openai_host.wait_until, lambda host: host.at_once == 1)
        began = time.monotonic()
        with pytest.raises(provider_interface.ProviderTimeoutError):
            await service.embed_query("q", deadline_s=0.1)
        assert time.monotonic() - began < 1.0
        group.cancel_scope.cancel()
    assert len(openai_host.requests) == 2


async def test_a_blank_query_is_refused_unsent(host, service_for):
    with pytest.raises(provider_interface.ProviderRejectedError):
        await service_for(host).embed_query("  ")
    assert not host.requests


class Asked:
    """Counts questions, and delays the answers until the gate opens."""

    def __init__(self):
        self.count = 0
        self.gate = anyio.Event()
        self.error = None

    async def __call__(self):
        self.count += 1
        await self.gate.wait()
        if self.error:
            raise self.error
        return np.full(100, self.count, dtype=np.float32)


def number_of(vector):
    """Returns the number of the answer; None without one."""
    return None if vector is None else int(vector[0])


async def test_a_known_query_is_not_asked_again():
    cache, ask = QueryCache(), Asked()
    ask.gate.set()
    assert await cache.get("q", ask) is await cache.get("q", ask)
    assert ask.count == 1


async def test_equal_queries_at_the_same_time_share_one_request():
    cache, ask, answers = QueryCache(), Asked(), []

    async def search():
        answers.append(number_of(await cache.get("q", ask)))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(search)
        await anyio.wait_all_tasks_blocked()
        ask.gate.set()
    assert answers == [1] * 5
    assert ask.count == 1


async def test_a_failure_is_shared_but_never_kept():
    cache, ask, errors = QueryCache(), Asked(), []
    ask.error = ProviderTransientError("broken")

    async def search():
        try:
            await cache.get("q", ask)
        except ProviderTransientError as error:
            errors.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(search)
        group.start_soon(search)
        await anyio.wait_all_tasks_blocked()
        ask.gate.set()
    assert errors == [ask.error] * 2
    ask.error = None
    assert number_of(await cache.get("q", ask)) == 2


async def test_when_the_asker_is_cancelled_the_next_one_asks():
    cache, ask, answers = QueryCache(), Asked(), []

    async def search():
        answers.append(number_of(await cache.get("q", ask)))

    async def search_until_cancelled(*, task_status):
        with anyio.CancelScope() as scope:
            task_status.started(scope)
            await search()

    async with anyio.create_task_group() as group:
        first = await group.start(search_until_cancelled)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(search)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        ask.gate.set()
    assert answers == [2]


async def test_vectors_of_queries_take_so_many_bytes_and_those_asked_for_again_stay():
    cache, ask = QueryCache(most_bytes=20_000), Asked()
    ask.gate.set()
    for number in range(200):
        await cache.get(f"{number} {'x' * (number % 50)}", ask)
        await cache.get("asked for again", ask)
        assert cache.bytes_used <= 20_000
    assert number_of(cache.peek("asked for again")) == 2
    assert cache.peek("0 ") is None
    assert number_of(cache.peek("199 " + "x" * 49)) == 201


async def test_a_query_as_long_as_all_that_may_be_remembered_is_answered_and_forgotten():
    cache, ask = QueryCache(most_bytes=20_000), Asked()
    ask.gate.set()
    await cache.get("short", ask)
    assert number_of(await cache.get("x" * 20_000, ask)) == 2
    assert cache.peek("x" * 20_000) is None
    assert number_of(cache.peek("short")) == 1
