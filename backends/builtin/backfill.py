"""Giving every stored text its vector, in the background.

Owns the one task that finds texts without a vector of the provider in use, has them embedded in requests
that many files share, and stores each answer as it arrives, so that nothing is ever paid twice. A
provider that fails is waited for; searches go on by keywords meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio
import apsw
import msgspec
import structlog
from anyio.to_thread import run_sync

from backends.builtin.database import Database
from backends.builtin.vectors import store
from backends.errors import IndexUnavailableError
from config.settings import CacheSettings
from providers.documents import Delivery
from providers.errors import ProviderError
from providers.failover import Change, Embeddings
from providers.interface import ItemError

_log = structlog.get_logger(__name__)

_TEXTS_A_RUN: Final = 2_000
"""Enough to fill requests well, few enough to see what changed meanwhile."""
_FIRST_PAUSE_S: Final = 1.0
_LAST_PAUSE_S: Final = 60.0


class BackfillState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """For `status`."""

    running: bool
    last_error: str | None
    coverage: store.Coverage


class Backfill:
    """Runs beside the backend that owns it; `wake` after every change of the stored texts."""

    def __init__(self, database: Database, embeddings: Embeddings, cache: CacheSettings) -> None:
        self._database = database
        self._embeddings = embeddings
        self._cache = cache
        self._wake = anyio.Event()
        self._wake.set()
        self.running = False
        self.last_error: str | None = None

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Works until cancelled."""
        unsubscribe = self._embeddings.subscribe(self._on_change)
        pause_s = _FIRST_PAUSE_S
        try:
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                if await self._embed_all():
                    pause_s = _FIRST_PAUSE_S
                    continue
                with anyio.move_on_after(self._pause(pause_s)):
                    await self._wake.wait()
                self._wake.set()
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)
        finally:
            unsubscribe()

    async def _embed_all(self) -> bool:
        """Whether nothing is left to do for the provider in use."""
        self.running = True
        try:
            while texts := await run_sync(self._pending):
                await self._embed(texts)
            await run_sync(self._tidy)
        except (ProviderError, IndexUnavailableError) as error:
            self.last_error = str(error)
            _log.warning("embedding paused", error=str(error), kind=error.kind)
            return False
        finally:
            self.running = False
        self.last_error = None
        return True

    async def _embed(self, texts: Sequence[tuple[bytes, str]]) -> None:
        async def on_batch(delivery: Delivery) -> None:
            await run_sync(self._store, texts, delivery)

        await self._embeddings.embed_documents([text for _, text in texts], on_batch=on_batch)

    def _pending(self) -> list[tuple[bytes, str]]:
        with self._database.reading() as connection:
            return store.pending_texts(connection, self._embeddings.fingerprint, limit=_TEXTS_A_RUN)

    def _store(self, texts: Sequence[tuple[bytes, str]], delivery: Delivery) -> None:
        vectors, failures = [], []
        for position, item in zip(delivery.positions, delivery.items, strict=True):
            text_hash = texts[position][0]
            if isinstance(item, ItemError):
                failures.append((text_hash, item.message))
            else:
                vectors.append((text_hash, item))
        with self._database.writing() as connection:
            if vectors:
                store.put_vectors(connection, delivery.fingerprint, vectors)
            store.record_failures(connection, delivery.fingerprint, failures)

    def _tidy(self) -> None:
        """What no search will use again goes: vectors of other providers, texts long gone.

        A provider's vectors go only when those of the one in use are complete, and never those of
        the other one of a pair that stands in for each other.
        """
        with self._database.writing() as connection:
            store.save_learned(connection, self._embeddings.learned())
            store.drop_superseded(connection, self._embeddings.fingerprints())
            store.refresh_use(connection)
            store.prune(connection, self._cache.max_entries if self._cache.enabled else 0)

    def report(self, connection: apsw.Connection) -> BackfillState:
        """For `status`; the counts are those of the caller's transaction."""
        return BackfillState(
            running=self.running,
            last_error=self.last_error,
            coverage=store.coverage(connection, self._embeddings.fingerprint),
        )

    def _pause(self, backoff_s: float) -> float:
        """As long as the provider's circuit stays open, at least."""
        return max(backoff_s, self._embeddings.state().active.next_probe_in_s or 0.0)

    def _on_change(self, change: Change) -> None:
        _log.info("embeddings", change=change.event, provider=change.provider, reason=change.reason)
        self._wake.set()
