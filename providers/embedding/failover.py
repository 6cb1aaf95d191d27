"""The provider in use: the primary, or its fallback while the primary is down, and the way back.

Vectors of two providers never mix: a run that fails is not continued by the other provider, every result
names its fingerprint, and listeners are called on each change, so that the index can choose the vectors that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import anyio
import msgspec

from config.runtime.logs import Log
from config.runtime.tasks import ResettableEvent
from providers.embedding.service import DEFAULT_QUERY_DEADLINE_S, EmbeddingService, OnBatch, OnSend
from providers.provider_interface import (
    EmbeddingsState,
    FallbackRecord,
    Fingerprint,
    ProviderError,
    ProviderUnavailableError,
    QueryVector,
)
from providers.resilience import Clock, SystemClock

_log = Log()
_SHORTEST_PAUSE_S = 30.0


class ProviderChange(msgspec.Struct, frozen=True, kw_only=True):
    """`lost`: the primary is down and nothing replaces it; `fell-back`: the fallback replaces it;
    `recovered`: the primary answers again and is in use.
    """

    event: Literal["lost", "fell-back", "recovered"]
    provider: str
    """The provider in use from now on."""
    fingerprint: Fingerprint
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
        self,
        text: str,
        *,
        deadline_s: float = DEFAULT_QUERY_DEADLINE_S,
        fingerprint: Fingerprint | None = None,
    ) -> QueryVector:
        """Returns the query's vector, by the provider in use or by the one of the given fingerprint.

        Raises `ProviderError`; `ProviderUnavailableError` if no provider here has the fingerprint.
        """
        service = self._active if fingerprint is None else self._of(fingerprint)
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

    def _of(self, fingerprint: Fingerprint) -> EmbeddingService:
        for service in self._services():
            if service.fingerprint == fingerprint:
                return service
        raise ProviderUnavailableError(
            f"No provider in use makes vectors of {fingerprint.provider} / {fingerprint.model}."
        )

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
        mark = self._active.fingerprint
        _log.warning(f"embedding.{event}", provider=mark.provider, reason=self._reason)
        change = ProviderChange(
            event=event, provider=mark.provider, fingerprint=mark, reason=self._reason
        )
        for listener in tuple(self._listeners):
            listener(change)
