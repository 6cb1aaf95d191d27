"""The memory that the process uses, seen from outside."""

from __future__ import annotations

import anyio
import pytest

from fakes.arenas import arenas_of
from gateway.process.serve import MOST_ARENAS

pytestmark = pytest.mark.anyio

CLIENTS = 24


async def test_worker_threads_share_a_few_arenas(home):
    for number in range(60):
        home.write(f"memory/{number}.md", f"# Note {number}\n\n" + "boiler word " * 400)
    async with home.gateway() as client:

        async def work(number):
            await client.call("sync", {"force": number % 8 == 0}, timeout_s=60)
            await client.call("memory_search", {"query": f"boiler {number}"}, timeout_s=60)

        async with anyio.create_task_group() as tasks:
            for number in range(CLIENTS):
                tasks.start_soon(work, number)
        assert arenas_of(client.process.pid) <= MOST_ARENAS
