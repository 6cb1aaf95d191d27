"""An index that is lost while a search waits: an empty one in its place is no answer."""

from __future__ import annotations

import anyio
import pytest

from backends.interface import SearchRequest, SyncRequest
from config.settings import QuerySettings
from fakes.faults import fault

pytestmark = pytest.mark.anyio

PATIENCE_MS = 6_000
"""More time than bringing the index of one note up to date and losing it takes."""
BOUND_S = 60


async def test_a_search_whose_index_was_taken_away_after_it_was_level_answers_from_the_new_one(
    home, vendor, embedding_home, embedded, check
):
    home.embed_with(vendor, query=QuerySettings(embedding_timeout_ms=PATIENCE_MS))
    home.write("memory/a.md", "The boiler was serviced.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        await embedded(backend)
        vendor.misbehave(fault("hang"), times=1)
        before = len(vendor.requests)
        answers = []

        async def ask() -> None:
            answers.append(await backend.search(SearchRequest(query="boiler")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            with anyio.fail_after(BOUND_S):
                while len(vendor.requests) == before:
                    await anyio.sleep(0.01)
            await backend.sync(SyncRequest())  # waits for this search's look at the disk
            home.index.unlink()
        assert [hit.path for hit in answers[0].hits] == ["memory/a.md"]
        assert answers[0].outcome == "ok"
    check(home.index)
