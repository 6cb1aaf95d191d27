"""The meaning of texts and queries: which provider gives vectors, and what to do without one.

Owns the choice of the provider for one index, its background work, and the query's vector. Choosing
reads files and environment, so it happens beside the first requests; a search waits for it no
longer than for a vector. Whatever fails here leaves searches with their keywords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import apsw
import msgspec
import structlog
from anyio.to_thread import run_sync

from backends.builtin.database import Database
from backends.errors import IndexUnavailableError
from backends.interface import Fallback
from config.errors import MemoryGatewayError
from config.settings import Settings

if TYPE_CHECKING:
    from backends.builtin.backfill import Backfill
    from providers.choosing import Choice
    from providers.failover import Embeddings, QueryVector

_log = structlog.get_logger(__name__)


class Meaning(NamedTuple):
    """The vector of a query, or why there is none when there should be one."""

    vector: QueryVector | None = None
    warning: str | None = None


class Semantics:
    """The vector side of one index. `run` must be running."""

    def __init__(self, settings: Settings, database: Database, *, backfill: bool) -> None:
        self._settings = settings
        self._database = database
        self._wants_backfill = backfill
        self._chosen = anyio.Event()
        self._choice: Choice | None = None
        self._embeddings: Embeddings | None = None
        self._backfill: Backfill | None = None
        self._failure: str | None = None
        """Why no provider could be opened."""

    @property
    def is_off(self) -> bool:
        """Whether there will be no vectors: nothing has to be waited for."""
        off = self._settings.search.provider == "none"
        vectors = self._settings.search.store.vector.enabled
        return off or not vectors or (self._chosen.is_set() and self._embeddings is None)

    async def run(self) -> None:
        """Chooses the provider, then embeds what has no vector, until cancelled."""
        if self.is_off:
            self._chosen.set()
            return
        await self._open()
        if self._embeddings is None:
            return
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._embeddings.watch)
                if self._backfill is not None:
                    tasks.start_soon(self._backfill.run)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(1.0):
                await self._embeddings.aclose()

    async def _open(self) -> None:
        try:
            await run_sync(self._choose)
        except MemoryGatewayError as error:
            self._failure = str(error)
        except Exception as fault:  # noqa: BLE001 - ours; it must not end the process that answers
            self._failure = f"internal fault ({type(fault).__name__}); see the log"
            _log.exception("embeddings cannot be opened")
        finally:
            self._chosen.set()

    def wake(self) -> None:
        """New texts were stored."""
        if self._backfill is not None:
            self._backfill.wake()

    async def meaning(self, query: str) -> Meaning:
        """Never raises for a provider's sake: without a vector the search goes by keywords."""
        if self.is_off or not query.strip():
            return Meaning()
        deadline_s = self._settings.search.query.embedding_timeout_ms / 1000
        ends = anyio.current_time() + deadline_s
        with anyio.move_on_after(deadline_s):
            await self._chosen.wait()
        if not self._chosen.is_set():
            return Meaning(warning="Answered by keywords: the provider is still being chosen.")
        if self._embeddings is None:
            return Meaning()
        return await self._vector(self._embeddings, query, ends - anyio.current_time())

    async def _vector(self, embeddings: Embeddings, query: str, deadline_s: float) -> Meaning:
        from providers.errors import ProviderError  # noqa: PLC0415 - not needed without a provider

        try:
            # Its own deadline, none around it: a host's silence must be counted against the host.
            found = await embeddings.embed_query(query, deadline_s=deadline_s)
        except ProviderError as error:
            return Meaning(warning=f"Answered by keywords, without the query's vector: {error}")
        except Exception as fault:  # noqa: BLE001 - ours; keywords answer all the same
            _log.exception("query not embedded")
            name = type(fault).__name__
            return Meaning(warning=f"Answered by keywords: internal fault ({name}); see the log")
        if self._backfill is not None:
            self._backfill.heed_dimensions(found.vector.size)
        return Meaning(found)

    def _choose(self) -> None:
        from backends.builtin.backfill import Backfill  # noqa: PLC0415 - not part of the start
        from backends.builtin.vectors import store  # noqa: PLC0415
        from providers.choosing import choose, open_embeddings  # noqa: PLC0415

        self._choice = choose(self._settings)
        try:
            with self._database.reading() as connection:
                learned = store.load_learned(connection)
        except IndexUnavailableError:
            learned = {}
        self._embeddings = open_embeddings(self._settings, self._choice, learned=learned)
        _log.info("embeddings", chosen=self._choice.reason)
        if self._embeddings is not None and self._wants_backfill:
            self._backfill = Backfill(
                self._database,
                self._embeddings,
                self._settings.search.cache,
                drops_superseded=self._choice.fell_back is None,
            )

    @property
    def provider(self) -> str | None:
        """In use at this moment; None: keywords only."""
        return self._embeddings.fingerprint.provider if self._embeddings else None

    @property
    def model(self) -> str | None:
        return self._embeddings.fingerprint.model if self._embeddings else None

    @property
    def fallback(self) -> Fallback | None:
        """Set while something else than the requested provider is in use."""
        record = self._embeddings.state().fell_back if self._embeddings else None
        record = record or (self._choice.fell_back if self._choice else None)
        return Fallback(origin=record.origin, reason=record.reason) if record else None

    def weaknesses(self) -> tuple[str, ...]:
        """Why searches do not get the vectors that were asked for, if so."""
        if self._failure is not None:
            return (f"Notes are searched by keywords only: {self._failure}",)
        choice, requested = self._choice, self._settings.search.provider
        if choice is not None and choice.primary is None and requested not in {"auto", "none"}:
            return (choice.reason,)
        if self._embeddings is None:
            return ()
        state = self._embeddings.state()
        found = []
        if fallback := self.fallback:
            found.append(f"{fallback.origin} is replaced by {self.provider}: {fallback.reason}")
        if state.active.status == "open":
            found.append(f"{self.provider} gives no vectors at present: {state.active.reason}")
        return tuple(found)

    def _reason(self) -> str:
        if self._choice is not None:
            return self._choice.reason
        if self.is_off:
            return "Notes are searched by keywords only, as configured."
        return "The provider is still being chosen."

    def report(self, connection: apsw.Connection) -> dict[str, Any]:
        """For `status`: the choice with every candidate, the provider's state, the vectors."""
        report: dict[str, Any] = {
            "enabled": self._settings.search.store.vector.enabled,
            "requested": self._settings.search.provider,
            "reason": self._failure or self._reason(),
            "candidates": msgspec.to_builtins(self._choice.candidates if self._choice else ()),
        }
        if self._embeddings is not None:
            report["provider"] = msgspec.to_builtins(self._embeddings.state(), enc_hook=repr)
        if self._backfill is not None:
            report["backfill"] = msgspec.to_builtins(self._backfill.report(connection))
        return report
