"""Trying a request again: how often, after how long, and when to stop.

The rules are a pure function of error and attempt. The loop is our own rather than a library's,
because each wait must honour the host's `Retry-After`, be bounded by one deadline for all attempts,
be shared with the pacing of other requests, and run on an injected clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from providers.errors import ProviderError, ProviderRateLimitError, ProviderTimeoutError
from providers.resilience.clock import Clock

_T = TypeVar("_T")


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Backoff `base_s * 2**(attempt - 1)`, at most `cap_s`, plus up to `jitter` of itself."""

    attempts: int = 4
    rate_limit_attempts: int = 6
    timeout_attempts: int = 2
    base_s: float = 0.5
    cap_s: float = 8.0
    jitter: float = 0.2
    longest_wait_s: float = 60.0
    """A host that asks for more is not waited for."""
    deadline_s: float = 600.0
    """For all attempts and waits together; no wait begins that would pass it."""

    def wait_s(self, error: ProviderError, attempt: int, draw: float) -> float | None:
        """Seconds to wait after the failure of attempt number `attempt` (from 1); None: give up.

        `draw` is a random number in [0, 1). A host's own wish is a lower bound, jitter comes on top.
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
"""For a probe: one attempt tells enough."""


async def retrying(
    call: Callable[[], Awaitable[_T]],
    policy: RetryPolicy,
    *,
    clock: Clock,
    draw: Callable[[], float],
    on_retry: Callable[[ProviderError, float], None],
) -> _T:
    """Calls until success, a failure that is not worth repeating, or the deadline.

    `on_retry` hears of each failure that is waited out, and of the wait in seconds.
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
