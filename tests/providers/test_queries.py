"""The cache of query embeddings."""

import anyio
import pytest

from providers.embedding.service import QueryCache
from providers.errors import ProviderTransientError

pytestmark = pytest.mark.anyio


class Asked:
    """Counts questions, and holds the answers back until told."""

    def __init__(self):
        self.count = 0
        self.gate = anyio.Event()
        self.error = None

    async def __call__(self):
        self.count += 1
        await self.gate.wait()
        if self.error:
            raise self.error
        return f"vector {self.count}"


async def test_a_known_query_is_not_asked_again():
    cache, ask = QueryCache(), Asked()
    ask.gate.set()
    assert await cache.get("q", ask) == await cache.get("q", ask) == "vector 1"


async def test_equal_queries_at_the_same_time_share_one_request():
    cache, ask, answers = QueryCache(), Asked(), []

    async def search():
        answers.append(await cache.get("q", ask))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(search)
        await anyio.wait_all_tasks_blocked()
        ask.gate.set()
    assert answers == ["vector 1"] * 5
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
    assert await cache.get("q", ask) == "vector 2"


async def test_when_the_asker_is_cancelled_the_next_one_asks():
    cache, ask, answers = QueryCache(), Asked(), []

    async def search():
        answers.append(await cache.get("q", ask))

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
    assert answers == ["vector 2"]


async def test_the_least_recently_used_query_is_forgotten():
    cache, ask = QueryCache(capacity=2), Asked()
    ask.gate.set()
    for text in ("a", "b", "a", "c"):
        await cache.get(text, ask)
    assert cache.peek("b") is None
    assert cache.peek("a") == "vector 1"
    assert cache.peek("c") == "vector 3"
