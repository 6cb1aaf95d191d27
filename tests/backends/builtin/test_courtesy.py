"""Indexing rests while somebody searches, and only then."""

import anyio
import pytest

from backends.builtin.syncing.indexing import LONGEST_PAUSE_S, Courtesy

pytestmark = pytest.mark.anyio


async def paused(courtesy: Courtesy, worked_s: float) -> float:
    started = anyio.current_time()
    await courtesy.give_way(worked_s)
    return anyio.current_time() - started


async def test_nobody_searching_means_no_pause():
    courtesy = Courtesy()
    with courtesy.searching():
        pass
    assert await paused(courtesy, 100.0) < LONGEST_PAUSE_S


async def test_during_a_search_the_pause_is_as_long_as_the_work_up_to_a_bound():
    courtesy = Courtesy()
    with courtesy.searching(), courtesy.searching():
        assert await paused(courtesy, 0.04) >= 0.04
        assert LONGEST_PAUSE_S <= await paused(courtesy, 100.0) < 10
