"""What the floor above uses to get vectors: one provider with its policies, query cache and state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Literal

import anyio
import msgspec

from config.runtime.remembered import Remembered, size_of
from providers.embedding.documents import DocumentRun, OnBatch, OnSend
from providers.embedding.requester import Requester, RequestOptions
from providers.embedding.sizing import LearnedLimits
from providers.errors import ProviderError, ProviderRejectedError, ProviderTimeoutError
from providers.interface import Embedder, Fingerprint, FingerprintState, ServiceState, Vector
from providers.resilience import Clock

QUERIES_BYTES: Final = 4 * 1024 * 1024
"""Some 600 questions at 1,536 dimensions."""
_ARRAY_BYTES: Final = 128
DEFAULT_QUERY_DEADLINE_S = 4.0
_GRACE_S = 0.1
"""The request's own time limit ends first, so that the circuit counts it."""


class _Flight:
    """One request under way, and how it ended."""

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.error: ProviderError | None = None


class QueryCache:
    """Vectors by text."""

    def __init__(self, most_bytes: int = QUERIES_BYTES) -> None:
        self._vectors: Remembered[str, Vector] = Remembered(most_bytes, _query_bytes)
        self._flights: dict[str, _Flight] = {}

    @property
    def bytes_held(self) -> int:
        return self._vectors.bytes_held

    def peek(self, text: str) -> Vector | None:
        """The cached vector."""
        return self._vectors.get(text)

    async def get(self, text: str, ask: Callable[[], Awaitable[Vector]]) -> Vector:
        """The vector from the cache, from an equal request under way, or from `ask`."""
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
        self._requester = Requester(embedder, options or RequestOptions(), clock=clock, draw=draw)
        self._queries = QueryCache()
        self._proven = False
        self.learned = learned or LearnedLimits()
        """To be kept across restarts, under `fingerprint.digest()`, by `to_dict` and `from_dict`."""

    @property
    def fingerprint(self) -> Fingerprint:
        return self._embedder.fingerprint

    @property
    def dimensions(self) -> int | None:
        """None until the first answer, unless configured."""
        return self._embedder.dimensions

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare` has nothing left to do."""
        return self._embedder.is_prepared

    async def prepare(self) -> None:
        """Waits for what the provider needs before its first text, such as a download.

        Raises `ProviderError`. Asking without it is allowed, and fails at once where it is needed.
        """
        await self._requester.prepare()

    async def run(self) -> None:
        """Runs what the provider needs beside its requests, until cancelled."""
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
        proven = self._proven and self._requester.circuit.state().status == "closed"
        run = DocumentRun(
            texts, on_batch, self._requester, self.learned, proven=proven, on_send=on_send
        )
        await run.execute()
        self._proven = True

    async def embed_query(
        self, text: str, *, deadline_s: float = DEFAULT_QUERY_DEADLINE_S
    ) -> Vector:
        """The query's vector, cached; equal queries at the same time share one request.

        Raises `ProviderError`: at once while the circuit is open, at the latest after `deadline_s`.
        """
        if not text.strip():
            raise ProviderRejectedError("A blank query cannot be embedded.")
        counters = self._requester.counters
        counters.queries += 1
        cached = self._queries.peek(text)
        if cached is not None:
            counters.query_cache_hits += 1
            return cached
        ask = partial(self._requester.query, text, deadline_s)
        with anyio.move_on_after(deadline_s + _GRACE_S):
            return await self._queries.get(text, ask)
        error = ProviderTimeoutError(
            f"There was no vector for the query within {deadline_s:.3g} s."
        )
        # The request had passed its own time limit and was still cleaning up: it is not counted yet.
        self._requester.circuit.blame(error)
        raise error

    async def probe(self) -> None:
        """Sends one harmless text once, if the circuit allows it. Raises `ProviderError`."""
        await self._requester.prepare()
        await self._requester.check(once=True)

    def state(self) -> ServiceState:
        circuit, mark = self._requester.circuit.state(), self.fingerprint
        refused = self._requester.refused
        unwell: Literal["ready", "degraded"] = (
            "degraded" if circuit.failures or refused else "ready"
        )
        return ServiceState(
            provider=mark.provider,
            model=mark.model,
            endpoint=mark.endpoint,
            status=unwell if circuit.status == "closed" else "open",
            reason=circuit.reason or (refused.message if refused else None),
            next_probe_in_s=circuit.next_probe_in_s,
            dimensions=self.dimensions,
            fingerprint=msgspec.convert(mark, FingerprintState, from_attributes=True),
            learned_limits=self.learned.to_dict(),
            statistics=self._requester.counters.snapshot(),
            details=self._embedder.report(),
        )

    async def aclose(self) -> None:
        await self._embedder.aclose()
