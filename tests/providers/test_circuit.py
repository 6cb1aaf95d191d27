"""The circuit breaker, on a clock that does not move."""

import anyio
import pytest

from providers.provider_interface import (
    CircuitOpenError,
    ProviderAuthError,
    ProviderInputTooLargeError,
    ProviderNotReadyError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderTransientError,
)
from providers.resilience import Circuit

BROKEN = ProviderTransientError("the host is broken", remedy="Wait.")


@pytest.fixture
def circuit(clock):
    return Circuit(clock)


def fail(circuit, error=BROKEN):
    with pytest.raises(type(error)), circuit.request():
        raise error


def succeed(circuit):
    with circuit.request() as probe:
        pass
    return probe


def open_(circuit):
    for _ in range(3):
        fail(circuit)


def refused(circuit):
    with pytest.raises(CircuitOpenError) as caught, circuit.request():
        pass
    return caught.value


def test_it_opens_after_three_failures_in_a_row(circuit):
    for _ in range(2):
        fail(circuit)
    assert circuit.state().status == "closed"
    fail(circuit)
    state = circuit.state()
    assert (state.status, state.next_probe_in_s) == ("open", 30.0)
    assert state.reason == "the host is broken"


def test_a_success_in_between_starts_the_count_anew(circuit):
    for _ in range(5):
        fail(circuit)
        fail(circuit)
        succeed(circuit)
    assert circuit.state().status == "closed"
    assert circuit.state().reason is None


def test_while_open_it_repeats_the_cause_and_says_so(circuit, clock):
    open_(circuit)
    clock.advance(10)
    error = refused(circuit)
    assert error.cause is BROKEN
    assert error.retry_after_s == 20.0
    assert "20 s" in error.message
    assert "the host is broken" in error.message
    assert error.remedy == "Wait."


def test_after_the_cooldown_one_probe_is_let_through_at_a_time(circuit, clock):
    open_(circuit)
    clock.advance(30)
    assert circuit.state().status == "half-open"
    with circuit.request() as probe:
        assert probe
        assert "being tried now" in str(refused(circuit))
    assert circuit.state().status == "closed"
    assert not succeed(circuit)


def test_each_failed_probe_doubles_the_cooldown_up_to_ten_minutes(circuit, clock):
    open_(circuit)
    cooldowns = []
    for _ in range(7):
        cooldowns.append(circuit.state().next_probe_in_s)
        clock.advance(cooldowns[-1])
        fail(circuit)
    assert cooldowns == [30, 60, 120, 240, 480, 600, 600]


def test_a_host_that_is_away_for_weeks_is_probed_every_ten_minutes(circuit, clock):
    open_(circuit)
    for _ in range(2_000):
        clock.advance(circuit.state().next_probe_in_s)
        fail(circuit)
    assert circuit.state().next_probe_in_s == 600.0


def test_recovery_forgets_the_past(circuit, clock):
    open_(circuit)
    clock.advance(30)
    fail(circuit)
    clock.advance(60)
    succeed(circuit)
    open_(circuit)
    assert circuit.state().next_probe_in_s == 30


def test_a_final_error_opens_it_at_once(circuit):
    fail(circuit, ProviderAuthError("wrong key"))
    assert circuit.state().status == "open"


def test_requests_under_way_when_it_opens_do_not_prolong_it(circuit, clock):

    def late():
        with circuit.request():
            open_(circuit)
            clock.advance(10)
            raise ProviderTransientError("late")

    with pytest.raises(ProviderTransientError):
        late()
    assert circuit.state().next_probe_in_s == 20


def test_a_short_rate_limit_is_no_failure_and_a_long_one_is_obeyed(circuit):
    for _ in range(9):
        fail(circuit, ProviderRateLimitError("slower", retry_after_s=5))
    assert circuit.state().status == "closed"
    fail(circuit, ProviderRateLimitError("much slower", retry_after_s=900))
    assert circuit.state().next_probe_in_s == 900


@pytest.mark.parametrize(
    "error",
    [
        ProviderRejectedError("odd text"),
        ProviderInputTooLargeError("long text", reason="input"),
        ProviderRateLimitError("slower"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_probe_that_meets_a_living_host_closes_it(circuit, clock, error):
    open_(circuit)
    clock.advance(30)
    fail(circuit, error)
    assert circuit.state().status == "closed"


def test_a_host_that_asks_for_a_longer_pause_gets_it(circuit):
    for _ in range(3):
        fail(circuit, ProviderTransientError("maintenance", retry_after_s=3600))
    assert circuit.state().next_probe_in_s == 3600


@pytest.mark.anyio
async def test_a_cancelled_probe_counts_as_nothing_and_frees_its_place(circuit, clock):
    open_(circuit)
    clock.advance(30)
    with anyio.CancelScope() as scope:
        with circuit.request():
            scope.cancel()
            await anyio.sleep_forever()
    assert circuit.state().status == "half-open"
    assert succeed(circuit)


def test_a_provider_that_is_not_ready_says_nothing_of_its_host(circuit, clock):
    open_(circuit)
    clock.advance(30)
    fail(circuit, ProviderNotReadyError("the model is not there yet"))
    assert (circuit.state().status, circuit.state().reason) == ("half-open", "the host is broken")
    fail(circuit)
    assert circuit.state().next_probe_in_s == 60.0


def test_failures_that_others_found_out_count_like_its_own(circuit):
    fail(circuit)
    circuit.blame(BROKEN)
    assert circuit.state().status == "closed"
    circuit.blame(BROKEN)
    assert circuit.state().status == "open"
