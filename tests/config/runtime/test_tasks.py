"""Tasks beside a body, and their waits: for a signal that is kept or not, and for the time of the next attempt."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from config.runtime.tasks import (
    Backoff,
    ResettableEvent,
    Wakeup,
    background_tasks,
    cancelled_after,
)

BOUND_S = 60


def test_backoffs_grow_to_a_bound_and_end_with_a_success():
    backoff = Backoff(1, 60, 3600)
    lengths = []
    for _ in range(9):
        backoff.failed()
        lengths.append(round(backoff.left_s))
    assert lengths == [1, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    backoff.succeeded()
    assert backoff.left_s == 0
    backoff.failed()
    assert round(backoff.left_s) == 1


def test_a_backoff_outlasts_thousands_of_failures():
    backoff = Backoff(0.1, 0.5, 60.0)
    for _ in range(5000):
        backoff.failed()
    assert round(backoff.left_s) == 60


@pytest.mark.anyio
async def test_a_signal_is_kept_until_it_is_cleared_and_clearing_loses_no_waiter():
    event = ResettableEvent()
    event.set()
    assert event.is_set()
    with anyio.fail_after(BOUND_S):
        await event.wait()
        event.clear()
        assert not event.is_set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(event.wait)
            await anyio.lowlevel.checkpoint()
            event.clear()
            event.set()


@pytest.mark.anyio
async def test_a_wakeup_wakes_those_who_wait_and_none_who_come_later():
    wakeup = Wakeup()
    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wakeup.wait)
            await anyio.lowlevel.checkpoint()
            wakeup.fire()
    with anyio.move_on_after(0.01) as later:
        await wakeup.wait()
    assert later.cancelled_caught


@pytest.mark.anyio
async def test_background_tasks_end_with_the_body_they_stand_beside():
    ended = anyio.Event()

    async def work():
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.fail_after(BOUND_S):
        async with background_tasks() as tasks:
            tasks.start_soon(work)
            await anyio.lowlevel.checkpoint()
            assert not ended.is_set()
    assert ended.is_set()


@pytest.mark.anyio
@pytest.mark.parametrize("is_body", [True, False])
async def test_what_a_background_task_or_its_body_raises_is_raised_as_it_is(is_body):
    async def fail():
        raise ValueError("x")

    async def fail_somewhere():
        async with background_tasks() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            if is_body:
                await fail()
            tasks.start_soon(fail)
            await anyio.sleep_forever()

    with anyio.fail_after(BOUND_S), pytest.raises(ValueError, match="x"):
        await fail_somewhere()


@pytest.mark.anyio
async def test_a_body_is_left_when_what_it_waits_for_has_come_or_when_it_is_done():
    came = anyio.Event()
    with anyio.fail_after(BOUND_S):
        async with cancelled_after(anyio.sleep_forever):
            came.set()
        async with cancelled_after(came.wait):
            await anyio.sleep_forever()
            raise AssertionError("the body went on")
    assert came.is_set()
