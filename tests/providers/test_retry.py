"""Trying again, and how many requests go at once."""

import anyio
import pytest

from fakes.clock import FakeClock
from fakes.each import each
from providers.provider_interface import (
    ProviderAuthError,
    ProviderBadResponseError,
    ProviderInputTooLargeError,
    ProviderQuotaError,
    ProviderRateLimitError,
    ProviderRedirectError,
    ProviderRejectedError,
    ProviderTimeoutError,
    ProviderTransientError,
    ProviderUnavailableError,
)
from providers.resilience import SINGLE, Pacer, RetryPolicy, SystemClock, retrying

pytestmark = pytest.mark.anyio

BROKEN = ProviderTransientError("broken")


def waits(error, policy=None, draw=0.0):
    policy = policy or RetryPolicy()
    found = (policy.wait_s(error, attempt, draw) for attempt in range(1, 20))
    return [wait for wait in found if wait is not None]


def test_backoff_doubles_from_half_a_second_over_four_attempts():
    assert waits(BROKEN) == [0.5, 1.0, 2.0]


def test_backoff_is_capped():
    assert waits(BROKEN, RetryPolicy(attempts=9))[-1] == 8.0


def test_jitter_adds_up_to_a_fifth():
    assert waits(BROKEN, draw=1.0) == pytest.approx([0.6, 1.2, 2.4])


def test_a_hosts_wish_is_a_lower_bound():
    error = ProviderRateLimitError("slower", retry_after_s=20.0)
    assert waits(error, draw=0.5) == pytest.approx([22.0] * 5)


def test_a_wish_of_zero_still_leaves_a_moment():
    assert waits(ProviderRateLimitError("slower", retry_after_s=0.0)) == [0.5] * 5


def test_a_host_that_asks_for_more_than_a_minute_is_not_waited_for():
    assert waits(ProviderTransientError("maintenance", retry_after_s=3600.0)) == []


def test_a_time_out_is_repeated_once_only():
    assert waits(ProviderTimeoutError("slow")) == [0.5]


@each(
    "error",
    [
        ProviderAuthError("no"),
        ProviderQuotaError("used up"),
        ProviderInputTooLargeError("too large", reason="items"),
        ProviderRedirectError("elsewhere"),
        ProviderUnavailableError("no such model"),
        ProviderRejectedError("no"),
    ],
)
def test_what_waiting_cannot_mend_is_not_repeated(error):
    assert waits(error) == []


@pytest.mark.parametrize("error", [BROKEN, ProviderBadResponseError("garbled")])
def test_a_probe_is_one_attempt(error):
    assert waits(error, SINGLE) == []


async def attempt(outcomes, policy=None):
    clock, retries = FakeClock(), []
    left = iter(outcomes)

    async def call():
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    try:
        result = await retrying(
            call,
            policy or RetryPolicy(),
            clock=clock,
            draw=lambda: 0.0,
            on_retry=lambda error, wait: retries.append((error, wait)),
        )
    except ProviderTransientError as error:
        result = error
    return result, clock.sleeps, retries


async def test_the_real_clock_goes_on_and_sleeps():
    clock = SystemClock()
    began = clock.now()
    await clock.sleep(0.01)
    assert 0.01 <= clock.now() - began < 5


async def test_the_first_success_ends_the_attempts():
    result, sleeps, retries = await attempt([BROKEN, BROKEN, "vectors"])
    assert result == "vectors"
    assert sleeps == [0.5, 1.0]
    assert retries == [(BROKEN, 0.5), (BROKEN, 1.0)]


async def test_the_last_failure_is_raised_when_the_attempts_are_used_up():
    last = ProviderTransientError("still broken")
    result, sleeps, _ = await attempt([BROKEN, BROKEN, BROKEN, last])
    assert result is last
    assert sleeps == [0.5, 1.0, 2.0]


async def test_no_wait_begins_that_would_pass_the_deadline():
    result, sleeps, _ = await attempt([BROKEN] * 9, RetryPolicy(attempts=9, deadline_s=4.0))
    assert result is BROKEN
    assert sleeps == [0.5, 1.0, 2.0]


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
