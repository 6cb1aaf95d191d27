"""A circuit breaker: a host that keeps failing is left alone, then tried by one request at a time.

Closed: requests pass. Open: they fail at once with the last cause. When the cooldown is over, one
request is let through as a probe; its success closes the circuit, its failure doubles the cooldown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec

from providers.errors import (
    CircuitOpenError,
    ProviderBadResponseError,
    ProviderError,
    ProviderNotReadyError,
    ProviderRateLimitError,
    ProviderTransientError,
)
from providers.resilience.clock import Clock


class CircuitPolicy(msgspec.Struct, frozen=True, kw_only=True):
    failures: int = 3
    """Failed requests in a row (each after its retries) that open the circuit."""
    cooldown_s: float = 30.0
    """After the first opening; doubled by every failed probe."""
    longest_cooldown_s: float = 600.0
    patience_s: float = 60.0
    """A rate limit that asks for a longer pause than this opens the circuit for that pause."""


class CircuitState(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["closed", "open", "half-open"]
    failures: int
    """In a row."""
    reason: str | None = None
    """The last failure; None once a request has succeeded."""
    next_probe_in_s: float | None = None


class Circuit:
    """For one host. Belongs to one event loop."""

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
        """Counts a failure that was found out outside a guarded request."""
        self._count(error, 0.0, probe=False)

    def trip(self, error: ProviderError) -> None:
        """Opens the circuit for a reason that was found out outside a guarded request."""
        self._failures += 1
        self._open(error, self._policy.cooldown_s)

    def state(self) -> CircuitState:
        """May be asked from any thread."""
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
            return  # nobody was asked, so it tells nothing of the host
        elif probe or not isinstance(error, ProviderRateLimitError):
            # The host is well; it only did not like this request, or wants it later.
            self._close()

    def _count(self, error: ProviderError, pause_s: float, *, probe: bool) -> None:
        self._failures += 1
        self._cause = error
        if self._probe_at is not None and not probe:
            # It began before the circuit opened, and tells nothing new.
            return
        if probe or error.final or self._failures >= self._policy.failures:
            cooldown = self._policy.cooldown_s * 2.0**self._openings
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
