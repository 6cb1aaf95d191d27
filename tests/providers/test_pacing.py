"""How many requests at once, and shared pauses."""

import anyio
import pytest

from providers.resilience import Pacer

pytestmark = pytest.mark.anyio


async def test_no_more_than_the_given_number_run_at_once(clock):
    pacer, running, most = Pacer(clock, 3), 0, 0

    async def work():
        nonlocal running, most
        async with pacer.turn():
            running += 1
            most = max(most, running)
            await anyio.lowlevel.checkpoint()
            running -= 1

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(work)
    assert most == 3


async def test_a_pause_that_one_request_is_told_of_holds_back_all(clock):
    pacer = Pacer(clock, 4)
    pacer.slow_down(7.0)
    began = clock.now()
    async with pacer.turn():
        assert clock.now() - began == 7.0
    async with pacer.turn():
        assert clock.now() - began == 7.0


async def test_a_shorter_pause_never_cuts_a_longer_one(clock):
    pacer = Pacer(clock, 4)
    pacer.slow_down(7.0)
    pacer.slow_down(1.0)
    async with pacer.turn():
        assert clock.sleeps == [7.0]


async def test_rate_limits_halve_the_number_and_successes_bring_it_back(clock):
    pacer = Pacer(clock, 4)
    for expected in (2, 1, 1):
        pacer.slow_down(0.0)
        assert pacer.at_once == expected
    for _ in range(15):
        pacer.succeeded()
    assert pacer.at_once == 4
    for _ in range(50):
        pacer.succeeded()
    assert pacer.at_once == 4
