"""Embedding by one provider: requests with their retries, time limits and circuit, runs of many texts, queries.

`sizing` decides how much goes into a request, and `providers.resilience` what a failure of the host means.
`Embeddings` is the provider in use: the primary, or its fallback while the primary is down, and the way back. Vectors
of two providers never mix: a run that fails is not continued by the other provider, every result names its fingerprint,
and listeners are called on each change, so that the index can choose the vectors that fit.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Literal

import anyio
import msgspec

from config.errors import ErrorKind
from config.runtime.decoding import prepared
from config.runtime.logs import Log
from config.runtime.remembered import Remembered, size_of
from config.runtime.tasks import ResettableEvent
from providers.embedding import sizing
from providers.embedding.sizing import LearnedLimits, WorkList
from providers.provider_interface import (
    EmbeddedBatch,
    Embedder,
    EmbeddingsState,
    FallbackRecord,
    Fingerprint,
    FingerprintState,
    InputLimits,
    ItemError,
    ProviderBadResponseError,
    ProviderError,
    ProviderInputTooLargeError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderTimeoutError,
    ProviderUnavailableError,
    QueryVector,
    ServiceState,
    Statistics,
    Vector,
)
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

_log = Log()

QUERIES_BYTES: Final = 4 * 1024 * 1024
"""Some 600 questions at 1,536 dimensions."""
_ARRAY_BYTES: Final = 128
DEFAULT_QUERY_DEADLINE_S: Final = 4.0
_GRACE_S: Final = 0.1
"""Added to the deadline, so that the request's own time limit ends first and the circuit counts it."""
_LEAST_TIME_S: Final = 0.001
_HARMLESS: Final = "ping"
_S_A_TOKEN: Final = 0.01
"""A host that reads a hundred tokens a second, which is a slow one, has time for all of them."""


class RequestOptions(msgspec.Struct, frozen=True, kw_only=True):
    at_once: int = 4
    """Document requests under way at the same time, at most."""
    timeout_s: float = 120.0
    """The most time for one document request."""
    least_timeout_s: float = 120.0
    """The time for a request of few tokens; each token adds to it."""
    check_timeout_s: float = 120.0
    """The time for one harmless text."""
    retry: RetryPolicy = RetryPolicy()
    circuit: CircuitPolicy = CircuitPolicy()


REMOTE = RequestOptions(
    least_timeout_s=30.0,
    check_timeout_s=15.0,
    circuit=CircuitPolicy(cooldown_s=20.0, longest_cooldown_s=20.0),
)
"""Only a request shows that a host works again: the time limit of one harmless text and the pause after it together
are less than a minute. One such text every half minute harms no host. The circuit lets one through a little sooner,
so that a caller that asks every half minute is not refused for coming too early."""


class Delivery(msgspec.Struct, frozen=True):
    """Part of a run's result: `items[i]` belongs to the text at `positions[i]` of the call."""

    positions: tuple[int, ...]
    items: tuple[Vector | ItemError, ...]
    fingerprint: Fingerprint


OnBatch = Callable[[Delivery], Awaitable[None]]
OnSend = Callable[[Sequence[int]], Awaitable[None]]
"""Called with the positions of the texts that are about to be sent."""


class EmbeddingService:
    """Belongs to one event loop. Every method may be cancelled, which aborts its HTTP request."""

    def __init__(
        self,
        embedder: Embedder,
        *,
        learned: LearnedLimits | None = None,
        options: RequestOptions | None = None,
        clock: Clock | None = None,
        draw: Callable[[], float] | None = None,
    ) -> None:
        self._embedder = embedder
        self.options = options or RequestOptions()
        self._clock = clock or SystemClock()
        self._draw = draw or random.SystemRandom().random
        self._circuit = Circuit(self._clock, self.options.circuit)
        self._pacer = Pacer(self._clock, self.options.at_once)
        self.counters = Statistics()
        self._refused: ProviderRejectedError | None = None
        """The rejection of the last query, if the host rejected it. That is not a failure of the host, so the
        circuit stays closed, but `status` shows it."""
        self._queries = QueryCache()
        self._proven = False
        self.learned = learned or LearnedLimits()
        """Kept across restarts by the caller, under `fingerprint.digest()`, through `to_dict` and `from_dict`."""

    @property
    def fingerprint(self) -> Fingerprint:
        return self._embedder.fingerprint

    @property
    def limits(self) -> InputLimits:
        """The limits of one request, by the provider's documentation."""
        return self._embedder.limits

    @property
    def dimensions(self) -> int | None:
        """None until the first answer, unless configured."""
        return self._embedder.dimensions

    @property
    def is_prepared(self) -> bool:
        """True if `prepare` has nothing left to do."""
        return self._embedder.is_prepared

    async def prepare(self) -> None:
        """Waits for what the provider needs before its first text, such as a download.

        Raises `ProviderError`. A request without it is allowed, and fails at once if it was needed.
        """
        if self.is_prepared:
            return
        with self._counting_failures(), self._circuit.request():
            await self._embedder.prepare()

    async def run(self) -> None:
        """Runs the work that the provider needs beside its requests, until cancelled."""
        await self._embedder.run()

    async def embed_documents(
        self, texts: Sequence[str], *, on_batch: OnBatch, on_send: OnSend | None = None
    ) -> None:
        """Embeds all texts, in requests as large and as many at once as the host allows.

        `on_send` is awaited before each request; when it raises, nothing is sent any more.

        `on_batch` is awaited for each request that completes, never twice at the same time; while
        it runs, its place among the requests stays taken. Each text is delivered once, with a
        vector or an `ItemError`. Raises `ProviderError` when the provider fails as a whole (texts
        not delivered by then were not embedded), and whatever the two raise.
        """
        proven = self._proven and self._circuit.state().status == "closed"
        await DocumentRun(texts, on_batch, self, proven=proven, on_send=on_send).execute()
        self._proven = True

    async def embed_query(
        self, text: str, *, deadline_s: float = DEFAULT_QUERY_DEADLINE_S
    ) -> Vector:
        """Returns the query's vector, cached; equal queries at the same time share one request.

        Raises `ProviderError`: at once while the circuit is open, at the latest after `deadline_s`.
        """
        if not text.strip():
            raise ProviderRejectedError("A blank query cannot be embedded.")
        self.counters.queries += 1
        cached = self._queries.peek(text)
        if cached is not None and self.dimensions in (None, len(cached)):
            self.counters.query_cache_hits += 1
            return cached
        if cached is not None:
            self._queries.clear()  # they come from the model that the host had before
        ask = partial(self._request_query, text, deadline_s)
        with anyio.move_on_after(deadline_s + _GRACE_S):
            return await self._queries.get(text, ask)
        error = ProviderTimeoutError(
            f"There was no vector for the query within {deadline_s:.3g} s."
        )
        # The request had passed its own time limit and was still cleaning up: it is not counted yet.
        self._circuit.blame(error)
        raise error

    async def probe(self) -> None:
        """Sends one harmless text once, if the circuit allows it. Raises `ProviderError`."""
        await self.prepare()
        await self.check(once=True)

    def state(self) -> ServiceState:
        circuit, mark = self._circuit.state(), self.fingerprint
        refused = self._refused
        status: Literal["ready", "degraded", "open"] = "open"
        if circuit.status == "closed":
            status = "degraded" if circuit.failures or refused else "ready"
        return ServiceState(
            provider=mark.provider,
            model=mark.model,
            endpoint=mark.endpoint,
            status=status,
            reason=circuit.reason or (refused.message if refused else None),
            next_probe_in_s=circuit.next_probe_in_s,
            dimensions=self.dimensions,
            fingerprint=msgspec.convert(mark, prepared(FingerprintState), from_attributes=True),
            learned_limits=self.learned.to_dict(),
            statistics=msgspec.structs.replace(self.counters),
            details=self._embedder.report(),
        )

    async def aclose(self) -> None:
        await self._embedder.aclose()

    def time_for(self, tokens: int) -> float:
        """Returns the time limit, in seconds, for a request of about this many tokens."""
        return min(self.options.timeout_s, self.options.least_timeout_s + _S_A_TOKEN * tokens)

    async def request_documents(
        self, texts: Sequence[str], *, timeout_s: float, once: bool = False
    ) -> EmbeddedBatch:
        """Sends one request, retried as the kind of error allows, or not at all (`once`). Raises `ProviderError`.

        `timeout_s` is for each attempt. Several texts that timed out are not sent again together: the caller divides
        them, since the host may hang at one of them.
        """

        async def attempt() -> EmbeddedBatch:
            async with self._pacer.turn():
                self.counters.requests += 1
                with self._within(timeout_s):
                    batch = await self._embedder.embed_documents(texts)
            self._pacer.succeeded()
            self._refused = None
            self.counters.tokens += batch.tokens
            return batch

        with self._counting_failures(), self._circuit.request() as probe:
            policy = SINGLE if probe or once else self.options.retry
            if len(texts) > 1:
                policy = msgspec.structs.replace(policy, timeout_attempts=1)
            return await retrying(
                attempt, policy, clock=self._clock, draw=self._draw, on_retry=self._wait_out
            )

    async def check(self, *, once: bool = False) -> None:
        """Sends one harmless text, if the circuit allows it. Raises `ProviderError`.

        A host that rejects even that is unusable with these settings: that is a
        `ProviderUnavailableError`, and opens the circuit. So does an answer without a vector, which
        says that the texts did not cause the missing vectors: a `ProviderBadResponseError`.
        """
        timeout_s = min(self.options.timeout_s, self.options.check_timeout_s)
        try:
            batch = await self.request_documents([_HARMLESS], timeout_s=timeout_s, once=once)
        except ProviderRejectedError as error:
            unavailable = ProviderUnavailableError(
                error.message, remedy=error.remedy, status=error.status
            )
            self._circuit.trip(unavailable)
            raise unavailable from None
        for item in batch.items:
            if isinstance(item, ItemError):
                unusable = ProviderBadResponseError(item.message)
                self._circuit.trip(unusable)
                raise unusable

    async def _request_query(self, text: str, deadline_s: float) -> Vector:
        """Requests the vector of a query. Raises `ProviderError`, at the latest when the deadline has passed."""
        ends = self._clock.now() + deadline_s

        async def attempt() -> Vector:
            self.counters.requests += 1
            with self._within(max(_LEAST_TIME_S, ends - self._clock.now())):
                vector = await self._embedder.embed_query(text)
            self._refused = None
            return vector

        patience = RetryPolicy(
            attempts=2,
            rate_limit_attempts=2,
            timeout_attempts=1,
            base_s=0.2,
            longest_wait_s=deadline_s / 2,
            deadline_s=deadline_s,
        )
        with self._counting_failures(), self._circuit.request() as probe:
            policy = SINGLE if probe else patience
            try:
                return await retrying(
                    attempt, policy, clock=self._clock, draw=self._draw, on_retry=self._count_retry
                )
            except ProviderRejectedError as error:
                self._refused = error
                raise

    def _wait_out(self, error: ProviderError, wait_s: float) -> None:
        self._count_retry(error, wait_s)
        if isinstance(error, ProviderRateLimitError):
            self._pacer.slow_down(wait_s)

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
            mark = self._embedder.fingerprint
            raise ProviderTimeoutError(
                f"{mark.provider} ({mark.endpoint}) did not answer within {seconds:.3g} s."
            ) from None


class DocumentRun:
    """The embedding of many texts. Use once: `await DocumentRun(...).execute()`."""

    def __init__(
        self,
        texts: Sequence[str],
        on_batch: OnBatch,
        service: EmbeddingService,
        *,
        proven: bool,
        on_send: OnSend | None = None,
    ) -> None:
        self._texts = texts
        self._on_send = on_send
        self._on_batch = on_batch
        self._service = service
        self._learned = service.learned
        self._blank = [at for at, text in enumerate(texts) if not text.strip()]
        waiting = [at for at, text in enumerate(texts) if text.strip()]
        self._work_list = WorkList([sizing.size_of(text) for text in texts], waiting, self._limits)
        self._error: Exception | None = None
        self._delivering = anyio.Lock()
        self._settings_are_fine = False
        self.proven = anyio.Event()
        if proven:
            self.proven.set()

    async def execute(self) -> None:
        """Raises the first error that ended the run, after the requests under way have been delivered."""
        if self._blank:
            blank = ItemError(kind=ErrorKind.INVALID_PARAMS, message="The text is blank.")
            await self._deliver(self._blank, (blank,) * len(self._blank))
        async with anyio.create_task_group() as group:
            group.start_soon(self._work)
            # One at a time until it is known that the host takes requests of this size, so that a
            # wrong key or size is refused once, not four times.
            await self.proven.wait()
            for _ in range(self._service.options.at_once - 1):
                group.start_soon(self._work)
        if self._error is not None:
            raise self._error

    async def _work(self) -> None:
        try:
            while self._error is None and (positions := self._work_list.take()) is not None:
                await self._handle(positions)
        except Exception as error:  # noqa: BLE001 - raised again by `execute`, outside the group
            self._error = self._error or error
        finally:
            self.proven.set()

    async def _handle(self, positions: list[int]) -> None:
        if self._on_send is not None:
            await self._on_send(positions)
        try:
            batch = await self._service.request_documents(
                [self._texts[at] for at in positions],
                timeout_s=self._service.time_for(self._work_list.size(positions).tokens),
            )
        except ProviderInputTooLargeError as error:
            await self._too_large(positions, error)
        except ProviderRejectedError as error:
            await self._rejected(positions, error)
        except (ProviderTimeoutError, ProviderRateLimitError):
            if len(positions) == 1:
                raise
            self._work_list.shrink(positions)
        else:
            self._learned.accepted(self._work_list.size(positions), counted=batch.tokens)
            if self._learned.settled:
                self.proven.set()
            await self._deliver(positions, batch.items)

    async def _too_large(self, positions: list[int], error: ProviderInputTooLargeError) -> None:
        if len(positions) == 1:
            await self._fail(positions, error)
        elif error.reason == "input":
            self._work_list.split(positions)
        else:
            self._learned.refused(self._work_list.size(positions), error.reason, error.limit)
            self._work_list.put_back(positions)
            _log.info("embedding.size_learned", reason=error.reason, limits=self._learned.to_dict())

    async def _rejected(self, positions: list[int], error: ProviderRejectedError) -> None:
        """Raises the rejection if the settings caused it, and not the texts."""
        if not self._settings_are_fine:
            await self._service.check()
            self._settings_are_fine = True
        if len(positions) == 1:
            await self._fail(positions, error)
        else:
            self._work_list.split(positions)

    async def _fail(self, positions: list[int], error: ProviderError) -> None:
        await self._deliver(positions, (ItemError(kind=error.kind, message=error.message),))

    async def _deliver(
        self, positions: Sequence[int], items: tuple[Vector | ItemError, ...]
    ) -> None:
        errors = sum(isinstance(item, ItemError) for item in items)
        self._service.counters.item_errors += errors
        self._service.counters.documents += len(items) - errors
        fingerprint = self._service.fingerprint
        async with self._delivering:
            await self._on_batch(Delivery(tuple(positions), items, fingerprint))

    def _limits(self) -> InputLimits:
        return self._learned.apply(self._service.limits)


class _Flight:
    """One request under way, and the error that ended it, if any."""

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.error: ProviderError | None = None


class QueryCache:
    """Vectors by text."""

    def __init__(self, most_bytes: int = QUERIES_BYTES) -> None:
        self._vectors: Remembered[str, Vector] = Remembered(most_bytes, _query_bytes)
        self._flights: dict[str, _Flight] = {}

    @property
    def bytes_used(self) -> int:
        return self._vectors.bytes_used

    def peek(self, text: str) -> Vector | None:
        """Returns the cached vector, if there is one."""
        return self._vectors.get(text)

    def clear(self) -> None:
        self._vectors.clear()

    async def get(self, text: str, ask: Callable[[], Awaitable[Vector]]) -> Vector:
        """Returns the vector from the cache, from an equal request under way, or from `ask`."""
        while True:
            cached = self.peek(text)
            if cached is not None:
                return cached
            flight = self._flights.get(text)
            if flight is None:
                return await self._fly(text, ask)
            await flight.landed.wait()
            if flight.error is not None:
                raise flight.error

    async def _fly(self, text: str, ask: Callable[[], Awaitable[Vector]]) -> Vector:
        flight = self._flights[text] = _Flight()
        try:
            vector = await ask()
            self._vectors.put(text, vector)
        except ProviderError as error:
            flight.error = error
            raise
        finally:
            del self._flights[text]
            flight.landed.set()
        return vector


def _query_bytes(text: str, vector: Vector) -> int:
    return size_of(text) + _ARRAY_BYTES + len(vector) * vector.itemsize


# --- The provider in use --------------------------------------------------------------------------

_SHORTEST_PAUSE_S: Final = 30.0
"""The shortest pause between two attempts at a lost primary."""


class ProviderChange(msgspec.Struct, frozen=True, kw_only=True):
    """`lost`: the primary is down and nothing replaces it; `fell-back`: the fallback replaces it;
    `recovered`: the primary answers again and is in use.
    """

    event: Literal["lost", "fell-back", "recovered"]
    provider: str
    """The provider in use from now on."""
    reason: str | None = None


class Embeddings:
    """Belongs to one event loop. `run` should run beside it in a task group of the owner."""

    def __init__(
        self,
        primary: EmbeddingService,
        fallback: EmbeddingService | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._primary = primary
        self._fallback = fallback
        self._active = primary
        self._clock = clock or SystemClock()
        self._reason: str | None = None
        self._lost = ResettableEvent()
        self._listeners: list[Callable[[ProviderChange], None]] = []

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the provider in use."""
        return self._active.fingerprint

    def fingerprints(self) -> tuple[Fingerprint, ...]:
        """Returns the fingerprints of all providers that may be in use, now or after a failure."""
        return tuple(service.fingerprint for service in self._services())

    def learned(self) -> dict[bytes, dict[str, dict[str, float]]]:
        """Returns the learned request sizes of the hosts, to be given to `open_embeddings` next time."""
        return {
            service.fingerprint.digest(): service.learned.to_dict() for service in self._services()
        }

    def subscribe(self, listener: Callable[[ProviderChange], None]) -> Callable[[], None]:
        """Calls `listener` on each change, on the event loop; returns a function that unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def is_prepared(self) -> bool:
        """True if the provider in use has all that it needs before its first text."""
        return self._active.is_prepared

    async def prepare(self) -> None:
        """Waits until the provider in use can embed documents. Raises `ProviderError`."""
        service = self._active
        with self._watching(service):
            await service.prepare()

    async def check(self) -> None:
        """Asks the provider in use once for the vector of one harmless text. Raises `ProviderError`.

        For a caller that got no vectors from it: this costs less than a whole request that fails again,
        and shows whether the texts were the cause.
        """
        service = self._active
        with self._watching(service):
            await service.probe()

    async def embed_documents(
        self, texts: Sequence[str], *, on_batch: OnBatch, on_send: OnSend | None = None
    ) -> None:
        """Embeds texts by the provider in use, as `EmbeddingService.embed_documents` does.

        When it raises, the provider in use may have changed: compare `fingerprint`, and begin again
        with the texts that have no vector under the new one.
        """
        service = self._active
        with self._watching(service):
            await service.embed_documents(texts, on_batch=on_batch, on_send=on_send)

    async def embed_query(
        self, text: str, *, deadline_s: float = DEFAULT_QUERY_DEADLINE_S
    ) -> QueryVector:
        """Returns the query's vector, by the provider in use. Raises `ProviderError`."""
        service = self._active
        with self._watching(service):
            vector = await service.embed_query(text, deadline_s=deadline_s)
        return QueryVector(vector, service.fingerprint)

    async def probe(self) -> bool:
        """Tries a lost primary now, if its circuit allows. Returns whether it is in use afterwards."""
        try:
            await self._primary.probe()
        except ProviderError:
            return False
        self._recover()
        return True

    async def run(self) -> None:
        """Runs the work that has to run beside the requests, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.watch)
            for service in self._services():
                tasks.start_soon(service.run)

    async def watch(self) -> None:
        """Tries a lost primary whenever its circuit allows, until cancelled."""
        while True:
            await self._lost.wait()
            pause = self._primary.state().next_probe_in_s or 0.0
            await self._clock.sleep(max(_SHORTEST_PAUSE_S, pause))
            await self.probe()

    def state(self) -> EmbeddingsState:
        record = None
        if self._active is not self._primary:
            origin = self._primary.fingerprint.provider
            record = FallbackRecord(origin=origin, reason=self._reason or "unknown")
        return EmbeddingsState(
            active=self._active.state(),
            primary=self._primary.state(),
            fallback=self._fallback.state() if self._fallback else None,
            fell_back=record,
        )

    async def aclose(self) -> None:
        for service in self._services():
            await service.aclose()

    def _services(self) -> tuple[EmbeddingService, ...]:
        return (self._primary,) if self._fallback is None else (self._primary, self._fallback)

    @contextmanager
    def _watching(self, service: EmbeddingService) -> Iterator[None]:
        """Learns from an operation of the primary whether it works."""
        try:
            yield
        except ProviderError as error:
            if service is self._primary and service.state().status == "open":
                self._lose(error)
            raise
        if service is self._primary:
            self._recover()

    def _lose(self, error: ProviderError) -> None:
        if self._lost.is_set():
            return
        self._reason = error.message
        self._lost.set()
        if self._fallback is not None:
            self._active = self._fallback
        self._announce("lost" if self._fallback is None else "fell-back")

    def _recover(self) -> None:
        """Returns to the primary, unless nothing was sent, as for a cached query: then its circuit is still open."""
        if not self._lost.is_set() or self._primary.state().status == "open":
            return
        self._active, self._reason = self._primary, None
        self._lost.clear()
        self._announce("recovered")

    def _announce(self, event: Literal["lost", "fell-back", "recovered"]) -> None:
        name = self._active.fingerprint.provider
        _log.warning(f"embedding.{event}", provider=name, reason=self._reason)
        change = ProviderChange(event=event, provider=name, reason=self._reason)
        for listener in tuple(self._listeners):
            listener(change)
