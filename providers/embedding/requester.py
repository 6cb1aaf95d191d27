"""One request to one provider with everything around it: circuit, retries, pace, time limit, counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import anyio
import msgspec

from providers.errors import (
    ProviderBadResponseError,
    ProviderError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderTimeoutError,
    ProviderUnavailableError,
)
from providers.interface import EmbeddedBatch, Embedder, ItemError, Statistics, Vector
from providers.resilience import (
    SINGLE,
    Circuit,
    CircuitPolicy,
    Clock,
    Pacer,
    RetryPolicy,
    SystemClock,
    retrying,
)

_LEAST_TIME_S = 0.001
_HARMLESS = "ping"
_S_A_TOKEN = 0.01
"""A host that reads a hundred tokens a second, which is a slow one, has time for all of them."""


class Counters(msgspec.Struct):
    """The running counts; belongs to one event loop."""

    requests: int = 0
    retries: int = 0
    failures: int = 0
    documents: int = 0
    item_errors: int = 0
    queries: int = 0
    query_cache_hits: int = 0
    tokens: int = 0

    def snapshot(self) -> Statistics:
        return Statistics(
            requests=self.requests,
            retries=self.retries,
            failures=self.failures,
            documents=self.documents,
            item_errors=self.item_errors,
            queries=self.queries,
            query_cache_hits=self.query_cache_hits,
            tokens=self.tokens,
        )


class RequestOptions(msgspec.Struct, frozen=True, kw_only=True):
    at_once: int = 4
    """Document requests under way at the same time, at most."""
    timeout_s: float = 120.0
    """For one document request, at most."""
    least_timeout_s: float = 120.0
    """For a request of few tokens; each further one adds to it."""
    check_timeout_s: float = 120.0
    """For one harmless text."""
    retry: RetryPolicy = RetryPolicy()
    circuit: CircuitPolicy = CircuitPolicy()


REMOTE = RequestOptions(
    least_timeout_s=30.0,
    check_timeout_s=15.0,
    circuit=CircuitPolicy(cooldown_s=20.0, longest_cooldown_s=20.0),
)
"""Nobody knows that a host works again before it is asked: the time limit of one harmless text and the pause after
it together are less than a minute. Such a text every half a minute harms no host. The circuit lets one through sooner,
so that those who ask every half a minute are not turned away for coming too early."""


class Requester:
    def __init__(
        self,
        embedder: Embedder,
        options: RequestOptions,
        *,
        clock: Clock | None = None,
        draw: Callable[[], float] | None = None,
    ) -> None:
        self.embedder = embedder
        self.options = options
        self._clock = clock or SystemClock()
        self._draw = draw or random.SystemRandom().random
        self.circuit = Circuit(self._clock, options.circuit)
        self.pacer = Pacer(self._clock, options.at_once)
        self.counters = Counters()
        self.refused: ProviderRejectedError | None = None
        """The rejection of the last query, if the host rejected it. That is no failure of the host, so the
        circuit stays closed, but `status` shows it."""

    def time_for(self, tokens: int) -> float:
        """Seconds that a host has for a request of about so many tokens."""
        return min(self.options.timeout_s, self.options.least_timeout_s + _S_A_TOKEN * tokens)

    async def documents(
        self, texts: Sequence[str], *, timeout_s: float, once: bool = False
    ) -> EmbeddedBatch:
        """Raises `ProviderError` after the retries that the error's kind deserves, or at `once`.

        `timeout_s` is for each attempt.
        """

        async def attempt() -> EmbeddedBatch:
            async with self.pacer.turn():
                self.counters.requests += 1
                with self._within(timeout_s):
                    batch = await self.embedder.embed_documents(texts)
            self.pacer.succeeded()
            self.refused = None
            self.counters.tokens += batch.tokens
            return batch

        with self._counting_failures(), self.circuit.request() as probe:
            policy = SINGLE if probe or once else self.options.retry
            return await retrying(
                attempt, policy, clock=self._clock, draw=self._draw, on_retry=self._wait_out
            )

    async def prepare(self) -> None:
        """Waits, however long, until the provider can be used. Raises `ProviderError`."""
        if self.embedder.is_prepared:
            return
        with self._counting_failures(), self.circuit.request():
            await self.embedder.prepare()

    async def check(self, *, once: bool = False) -> None:
        """Sends one harmless text, if the circuit allows it. Raises `ProviderError`.

        A host that rejects even that is unusable with these settings: that is a
        `ProviderUnavailableError`, and opens the circuit. So does an answer without a vector, which
        says that the texts are not to blame for those that did not come: a `ProviderBadResponseError`.
        """
        timeout_s = min(self.options.timeout_s, self.options.check_timeout_s)
        try:
            batch = await self.documents([_HARMLESS], timeout_s=timeout_s, once=once)
        except ProviderRejectedError as error:
            unavailable = ProviderUnavailableError(
                error.message, remedy=error.remedy, status=error.status
            )
            self.circuit.trip(unavailable)
            raise unavailable from None
        for item in batch.items:
            if isinstance(item, ItemError):
                unusable = ProviderBadResponseError(item.message)
                self.circuit.trip(unusable)
                raise unusable

    async def query(self, text: str, deadline_s: float) -> Vector:
        """Raises `ProviderError`, at the latest when the deadline has passed."""
        ends = self._clock.now() + deadline_s

        async def attempt() -> Vector:
            self.counters.requests += 1
            with self._within(max(_LEAST_TIME_S, ends - self._clock.now())):
                vector = await self.embedder.embed_query(text)
            self.refused = None
            return vector

        patience = RetryPolicy(
            attempts=2,
            rate_limit_attempts=2,
            timeout_attempts=1,
            base_s=0.2,
            longest_wait_s=deadline_s / 2,
            deadline_s=deadline_s,
        )
        with self._counting_failures(), self.circuit.request() as probe:
            policy = SINGLE if probe else patience
            try:
                return await retrying(
                    attempt, policy, clock=self._clock, draw=self._draw, on_retry=self._count_retry
                )
            except ProviderRejectedError as error:
                self.refused = error
                raise

    def _wait_out(self, error: ProviderError, wait_s: float) -> None:
        self._count_retry(error, wait_s)
        if isinstance(error, ProviderRateLimitError):
            self.pacer.slow_down(wait_s)

    def _count_retry(self, _error: ProviderError, _wait_s: float) -> None:
        self.counters.retries += 1

    @contextmanager
    def _counting_failures(self) -> Iterator[None]:
        try:
            yield
        except ProviderError:
            self.counters.failures += 1
            raise

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        try:
            with anyio.fail_after(seconds):
                yield
        except TimeoutError:
            mark = self.embedder.fingerprint
            raise ProviderTimeoutError(
                f"{mark.provider} ({mark.endpoint}) did not answer within {seconds:.3g} s."
            ) from None
