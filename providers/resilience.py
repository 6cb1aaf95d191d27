"""Handling failures of a host: retries, pauses, the circuit breaker, and a clock that tests can set."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Literal, Protocol, TypeVar

import anyio
import msgspec

from providers.provider_interface import (
    CircuitOpenError,
    ProviderBadResponseError,
    ProviderError,
    ProviderNotReadyError,
    ProviderRateLimitError,
    ProviderTimeoutError,
    ProviderTransientError,
)

_T = TypeVar("_T")
_SUCCESSES_TO_GROW = 5
_MOST_DOUBLINGS = 16
"""The limit of a cooldown's exponent, since a host may be away for weeks and the number would overflow."""


class Clock(Protocol):
    def now(self) -> float:
        """Seconds, monotonic, from an arbitrary start."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class CircuitPolicy(msgspec.Struct, frozen=True, kw_only=True):
    failures: int = 3
    """Failed requests in a row (each after its retries) that open the circuit."""
    cooldown_s: float = 30.0
    """The pause after the first opening; doubled by every failed probe."""
    longest_cooldown_s: float = 600.0
    patience_s: float = 60.0
    """A rate limit that asks for a longer pause than this opens the circuit for that pause."""


class CircuitState(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["closed", "open", "half-open"]
    failures: int
    """The number of failures in a row."""
    reason: str | None = None
    """The last failure; None once a request has succeeded."""
    next_probe_in_s: float | None = None


class Circuit:
    """The circuit breaker of one host. Belongs to one event loop."""

    def __init__(self, clock: Clock, policy: CircuitPolicy | None = None) -> None:
        self._clock = clock
        self._policy = policy or CircuitPolicy()
        self._failures = 0
        self._openings = 0
        self._cause: ProviderError | None = None
        self._probe_at: float | None = None
        self._probing = False

    @contextmanager
    def request(self) -> Iterator[bool]:
        """Guards one request; yields whether it is a probe.

        Raises `CircuitOpenError` instead of letting it begin. A request that is cancelled, or that
        the provider is not ready for, counts neither as success nor as failure.
        """
        probe = self._admit()
        try:
            yield probe
        except ProviderError as error:
            self._note(error, probe=probe)
            raise
        else:
            self._close()
        finally:
            if probe:
                self._probing = False

    def blame(self, error: ProviderError) -> None:
        """Counts a failure that was noticed outside a guarded request."""
        self._count(error, 0.0, probe=False)

    def trip(self, error: ProviderError) -> None:
        """Opens the circuit for a reason that was noticed outside a guarded request."""
        self._failures += 1
        self._open(error, self._policy.cooldown_s)

    def state(self) -> CircuitState:
        """May be called from any thread."""
        probe_at, cause = self._probe_at, self._cause
        status: Literal["closed", "open", "half-open"] = "closed"
        wait: float | None = None
        if probe_at is not None:
            wait = max(0.0, probe_at - self._clock.now())
            status = "open" if wait > 0 else "half-open"
        return CircuitState(
            status=status,
            failures=self._failures,
            reason=cause.message if cause else None,
            next_probe_in_s=wait,
        )

    def _admit(self) -> bool:
        if self._probe_at is None or self._cause is None:
            return False
        wait = self._probe_at - self._clock.now()
        if wait > 0 or self._probing:
            raise CircuitOpenError(self._cause, wait_s=max(0.0, wait))
        self._probing = True
        return True

    def _note(self, error: ProviderError, *, probe: bool) -> None:
        pause = error.retry_after_s or 0.0
        if isinstance(error, ProviderRateLimitError) and pause > self._policy.patience_s:
            self._open(error, pause)
        elif _counts(error):
            self._count(error, pause, probe=probe)
        elif isinstance(error, ProviderNotReadyError):
            return  # nothing was sent, so it says nothing about the host
        elif probe or not isinstance(error, ProviderRateLimitError):
            # The host works; it only refused this request, or wants it later.
            self._close()

    def _count(self, error: ProviderError, pause_s: float, *, probe: bool) -> None:
        self._failures += 1
        self._cause = error
        if self._probe_at is not None and not probe:
            # It began before the circuit opened, and gives no new information.
            return
        if probe or error.final or self._failures >= self._policy.failures:
            cooldown = self._policy.cooldown_s * 2.0 ** min(self._openings, _MOST_DOUBLINGS)
            self._open(error, max(pause_s, min(cooldown, self._policy.longest_cooldown_s)))

    def _open(self, error: ProviderError, cooldown_s: float) -> None:
        self._cause = error
        self._openings += 1
        self._probe_at = self._clock.now() + cooldown_s

    def _close(self) -> None:
        self._failures = self._openings = 0
        self._cause = self._probe_at = None


def _counts(error: ProviderError) -> bool:
    return error.final or isinstance(error, ProviderTransientError | ProviderBadResponseError)


class Pacer:
    def __init__(self, clock: Clock, at_once: int) -> None:
        self._clock = clock
        self._most = at_once
        self._limiter = anyio.CapacityLimiter(at_once)
        self._not_before = clock.now()
        self._successes = 0

    @property
    def at_once(self) -> int:
        return int(self._limiter.total_tokens)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for a free place and for the end of any pause; keeps the place for the block."""
        async with self._limiter:
            while (wait := self._not_before - self._clock.now()) > 0:
                await self._clock.sleep(wait)
            yield

    def slow_down(self, pause_s: float) -> None:
        """Delays all requests until the pause after a rate limit is over, and lets fewer run at once afterwards."""
        self._not_before = max(self._not_before, self._clock.now() + pause_s)
        self._limiter.total_tokens = max(1, self.at_once // 2)
        self._successes = 0

    def succeeded(self) -> None:
        self._successes += 1
        if self._successes >= _SUCCESSES_TO_GROW and self.at_once < self._most:
            self._limiter.total_tokens = self.at_once + 1
            self._successes = 0


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Backoff `base_s * 2**(attempt - 1)`, at most `cap_s`, plus up to `jitter` of itself."""

    attempts: int = 4
    rate_limit_attempts: int = 6
    timeout_attempts: int = 2
    base_s: float = 0.5
    cap_s: float = 8.0
    jitter: float = 0.2
    longest_wait_s: float = 60.0
    """The longest wait that a host may ask for; beyond it we give up."""
    deadline_s: float = 600.0
    """The limit of all attempts and waits together; no wait begins that would exceed it."""

    def wait_s(self, error: ProviderError, attempt: int, draw: float) -> float | None:
        """Returns the seconds to wait after the failure of attempt number `attempt` (from 1); None: give up.

        `draw` is a random number in [0, 1). A wait that the host asks for is a lower bound, to which jitter is added.
        """
        if not error.retryable or attempt >= self._attempts(error):
            return None
        wait = min(self.cap_s, self.base_s * 2.0 ** (attempt - 1))
        if error.retry_after_s is not None:
            wait = max(error.retry_after_s, self.base_s)
        if wait > self.longest_wait_s:
            return None
        return wait * (1 + self.jitter * draw)

    def _attempts(self, error: ProviderError) -> int:
        if isinstance(error, ProviderRateLimitError):
            return self.rate_limit_attempts
        return self.timeout_attempts if isinstance(error, ProviderTimeoutError) else self.attempts


SINGLE = RetryPolicy(attempts=1, rate_limit_attempts=1, timeout_attempts=1)
"""The policy of a probe, which is one attempt."""


async def retrying(
    call: Callable[[], Awaitable[_T]],
    policy: RetryPolicy,
    *,
    clock: Clock,
    draw: Callable[[], float],
    on_retry: Callable[[ProviderError, float], None],
) -> _T:
    """Calls until success, a failure that is not worth repeating, or the deadline.

    `on_retry` is called before each wait, with the failure and the wait in seconds.
    """
    ends = clock.now() + policy.deadline_s
    attempt = 1
    while True:
        try:
            return await call()
        except ProviderError as error:
            wait = policy.wait_s(error, attempt, draw())
            if wait is None or clock.now() + wait > ends:
                raise
            on_retry(error, wait)
        await clock.sleep(wait)
        attempt += 1
