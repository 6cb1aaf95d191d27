"""The provider in use, the vector of a query or the reason why it has none, and the part of `status` about vectors.

`Residency` decides when the resident vectors are loaded, renewed, and released when memory is short.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
from anyio.to_thread import run_sync
from msgspec.structs import replace

from backends.builtin.store.port import Store, View
from backends.interface import (
    BackfillState,
    EmbeddingModel,
    Fallback,
    IndexUnavailableError,
    ProgressCallback,
    VectorDetails,
)
from config.errors import MemoryGatewayError
from config.runtime import PROC
from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork, ResettableEvent, SearchPriority
from config.settings import Settings
from providers.provider_interface import Fingerprint, ProviderError, QueryVector

if TYPE_CHECKING:
    from backends.builtin.embedding.backfill import Backfill
    from backends.builtin.embedding.batch_jobs import BatchJobs
    from backends.builtin.store.port import VectorMemory
    from providers.choosing import Choice
    from providers.embedding.service import Embeddings, EmbeddingService

STALLED_PERCENT: Final = 10.0
_PROC: Final = Path(PROC)
_CGROUPS: Final = Path("/sys/fs/cgroup")
_SOME: Final = r"(?m)^some avg10=([0-9.]+)"
_log = Log()
IDLE_S: Final = 30 * 60.0
"""Loading a hundred thousand vectors again takes a second or two."""
_LOOK_S: Final = 10.0
"""The pause between two checks of memory and idleness while vectors are in memory."""
_SHORTEST_PAUSE_S: Final = 0.1
_SHARE: Final = 0.1
"""The largest share of one core that renewals take while changes keep coming."""


def memory_is_short(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> bool:
    """Reads two small files; never raises."""
    return any(_stalled(path) >= STALLED_PERCENT for path in _sources(proc, cgroups))


def _sources(proc: Path, cgroups: Path) -> Iterator[Path]:
    yield proc / "pressure" / "memory"
    try:
        groups = (proc / "self" / "cgroup").read_text(encoding="utf-8")
    except OSError:
        return
    for line in groups.splitlines():
        if line.startswith("0::/"):
            yield cgroups / line.removeprefix("0::/") / "memory.pressure"


def _stalled(path: Path) -> float:
    try:
        found = re.search(_SOME, path.read_text(encoding="utf-8"))
    except OSError:
        return 0.0
    return float(found[1]) if found else 0.0


class Residency:
    """Belongs to one event loop; `run` must be running."""

    def __init__(
        self,
        store: Store,
        vectors: VectorMemory,
        priority: SearchPriority,
        *,
        idle_s: float = IDLE_S,
        look_s: float = _LOOK_S,
        is_short: Callable[[], bool] = memory_is_short,
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._priority = priority
        self._disk = BoundedWork("residency of vectors")
        self._idle_s = idle_s
        self._look_s = look_s
        self._is_short = is_short
        self._wake = ResettableEvent()
        self._wanted: Fingerprint | None = None
        """The provider whose vectors were searched last; None: none were searched since they were released."""
        self._used_at = 0.0
        self._behind = False

    def used(self, fingerprint: Fingerprint) -> None:
        """Notes that a search was answered by the vectors of this provider."""
        self._used_at = anyio.current_time()
        if self._wanted != fingerprint:
            self._wanted = fingerprint
            self.changed()

    def changed(self) -> None:
        """Notes that chunks or vectors were written."""
        self._behind = True
        if self._wanted is not None:
            self._wake.set()

    async def run(self) -> None:
        """Works until cancelled."""
        try:
            while True:
                await self._woken()
                if self._wanted is None:
                    continue
                if reason := await self._reason_to_release():
                    self._vectors.release()
                    self._wanted = None
                    _log.info("resident vectors given back", reason=reason)
                elif self._behind:
                    await self._renew(self._wanted)
        finally:
            self._vectors.release()  # also ends a loading that is under way

    async def _woken(self) -> None:
        with anyio.move_on_after(None if self._wanted is None else self._look_s):
            await self._wake.wait()
        self._wake.clear()

    async def _reason_to_release(self) -> str | None:
        if anyio.current_time() - self._used_at >= self._idle_s:
            return "nobody searched"
        return "memory is short" if await self._disk.run_out(self._is_short) else None

    async def _renew(self, fingerprint: Fingerprint) -> None:
        self._behind = False
        started = anyio.current_time()
        try:
            refresh = partial(self._refresh, fingerprint)
            await self._disk.run_out(self._priority.polite("vectors in memory", refresh))
        except IndexUnavailableError as error:
            _log.warning("resident vectors not renewed", error=str(error), kind=error.kind)
        except Exception:  # noqa: BLE001 - an internal fault; another engine answers, and the process must go on
            _log.exception("resident vectors not renewed")
        spent = anyio.current_time() - started
        await anyio.sleep(max(_SHORTEST_PAUSE_S, spent * (1 / _SHARE - 1)))

    def _refresh(self, fingerprint: Fingerprint) -> None:
        with self._store.view() as view:
            space = view.vectors(fingerprint)
            if space is not None:
                space.refresh(self._priority.give_way)


class Meaning(msgspec.Struct, frozen=True, gc=False):
    """The vector of a query, or why it has none. Neither of them: no vector was wanted, or there is no provider."""

    vector: QueryVector | None = None
    warning: str | None = None


class QueryReader:
    """Belongs to one event loop. `aclose` closes the predecessor."""

    def __init__(
        self,
        embeddings: Embeddings,
        predecessor: EmbeddingService | None,
        *,
        is_superseded: Callable[[], bool],
    ) -> None:
        """`is_superseded` returns whether the provider in use has read every note by now."""
        self._embeddings = embeddings
        self._predecessor = predecessor
        self._is_superseded = is_superseded
        self._failed = False

    @property
    def predecessor(self) -> Fingerprint | None:
        """The fingerprint of the model that still answers for the provider in use."""
        if self._predecessor is None or self._failed or self._is_superseded():
            return None
        return self._predecessor.fingerprint

    async def read(self, query: str, deadline_s: float) -> Meaning:
        """Never raises because of a provider."""
        ends = anyio.current_time() + deadline_s
        if self._predecessor is not None and self.predecessor is not None:
            found = await self._read_as_before(self._predecessor, query, deadline_s)
            if found is not None:
                return Meaning(found)
            if anyio.current_time() >= ends:  # the new one is not asked, so it is not to blame
                silent = self._predecessor.fingerprint.model
                return Meaning(warning=f"Answered by keywords: {silent} gave no vector in time.")
        try:
            # The provider's own deadline, with none around it: a host's silence must count as its failure.
            left_s = max(0.0, ends - anyio.current_time())
            return Meaning(await self._embeddings.embed_query(query, deadline_s=left_s))
        except ProviderError as error:
            return Meaning(warning=f"Answered by keywords, without the query's vector: {error}")
        except Exception as fault:  # noqa: BLE001 - an internal fault; keywords answer all the same
            _log.exception("query not embedded")
            name = type(fault).__name__
            return Meaning(warning=f"Answered by keywords: internal fault ({name}); see the log")

    async def _read_as_before(
        self, predecessor: EmbeddingService, query: str, deadline_s: float
    ) -> QueryVector | None:
        try:
            vector = await predecessor.embed_query(query, deadline_s=deadline_s)
        except ProviderError as error:
            # The former model is being replaced: after one failure the search uses what the new model has read.
            self._failed = True
            _log.warning(
                "predecessor given up", model=predecessor.fingerprint.model, error=str(error)
            )
            return None
        return QueryVector(vector, predecessor.fingerprint)

    async def aclose(self) -> None:
        if self._predecessor is not None:
            await self._predecessor.aclose()


class Semantics:
    """Everything about the vectors of one index. `run` must be running."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        backfill: bool,
        is_indexing: Callable[[], bool] = lambda: False,
        priority: SearchPriority | None = None,
    ) -> None:
        """`is_indexing` returns whether more texts will come; `priority` is that of searches over the vectors."""
        self._settings = settings
        self._store = store
        self._wants_backfill = backfill
        self._chosen = anyio.Event()
        self._choice: Choice | None = None
        self._embeddings: Embeddings | None = None
        self._backfill: Backfill | None = None
        self._reader: QueryReader | None = None
        self._residency: Residency | None = None
        self._batch: BatchJobs | None = None
        self._no_batch = "No provider is in use."
        """The reason why there are no batch jobs, if there are none."""
        self._embedding = anyio.CancelScope()
        self._is_indexing = is_indexing
        self._priority = priority or SearchPriority()
        self.vectors: VectorMemory | None = None
        """The stored vectors that are kept in memory; None until a provider is open."""
        self._failure: str | None = None
        """The reason why no provider could be opened."""

    @property
    def is_off(self) -> bool:
        """True if there will be no vectors, so that nothing has to be waited for."""
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
                if self._wants_backfill and self._choice is not None:
                    tasks.start_soon(self._load_for_queries, self._choice)
                tasks.start_soon(self._embeddings.run)
                tasks.start_soon(self._embed)
                if self._residency is not None:
                    tasks.start_soon(self._residency.run)
        finally:
            with anyio.move_on_after(1.0, shield=True):
                await self._embeddings.aclose()
                if self._reader is not None:
                    await self._reader.aclose()

    async def _embed(self) -> None:
        with self._embedding:
            async with anyio.create_task_group() as tasks:
                for task in (self._backfill, self._batch):
                    if task is not None:
                        tasks.start_soon(task.run)

    def retire(self) -> None:
        """Stops embedding texts; queries are still embedded."""
        self._embedding.cancel()

    async def opened(self) -> Embeddings | None:
        """Returns the providers once they are chosen; None for keywords only, and `reason` says why."""
        if not self.is_off:
            await self._chosen.wait()
        return self._embeddings

    async def _open(self) -> None:
        try:
            await run_sync(self._choose)
        except MemoryGatewayError as error:
            self._failure = str(error)
        except Exception as fault:  # noqa: BLE001 - an internal fault; it must not end the process that answers
            self._failure = f"internal fault ({type(fault).__name__}); see the log"
            _log.exception("embeddings cannot be opened")
        finally:
            self._chosen.set()

    async def _load_for_queries(self, choice: Choice) -> None:
        """Loads what queries need, for a process that keeps running, so that no query waits for it later."""
        from providers.choosing import load_for_queries  # noqa: PLC0415 - not for the start

        with suppress(Exception):  # the first query reports it
            await run_sync(load_for_queries, choice, abandon_on_cancel=True)

    async def choice_made(self, patience_s: float) -> None:
        """Waits until the provider is chosen, which takes milliseconds, but no longer than `patience_s`."""
        with anyio.move_on_after(patience_s):
            await self._chosen.wait()

    def wake(self) -> None:
        """Notes that texts were stored."""
        if self._backfill is not None:
            self._backfill.wake()
        if self._residency is not None:
            self._residency.changed()

    async def embed_all(self, progress: ProgressCallback | None) -> BackfillState | None:
        """See `MemoryBackend.embed`."""
        await self.opened()
        return None if self._backfill is None else await self._backfill.rested(progress)

    def searched(self, fingerprint: Fingerprint) -> None:
        """Notes that a search was answered by the vectors of this provider."""
        if self._residency is not None:
            self._residency.used(fingerprint)

    async def meaning(self, query: str, patience_s: float | None = None) -> Meaning:
        """Never raises because of a provider: without a vector the search goes by keywords.

        If the caller's time limit is shorter than the provider's, its end is not counted as a failure of the provider.
        """
        if patience_s is None:
            return await self._meaning(query)
        with anyio.move_on_after(patience_s):
            return await self._meaning(query)
        return Meaning(warning=f"Answered by keywords: no vector within {patience_s:g} s.")

    async def _meaning(self, query: str) -> Meaning:
        deadline_s = self._settings.search.query.embedding_timeout_ms / 1000
        if self.is_off or not deadline_s or not query.strip():
            return self.no_meaning()
        ends = anyio.current_time() + deadline_s
        with anyio.move_on_after(deadline_s):
            await self._chosen.wait()
        if not self._chosen.is_set():
            return Meaning(warning="Answered by keywords: the provider is still being chosen.")
        if self._reader is None:
            return self.no_meaning()
        meaning = await self._reader.read(query, ends - anyio.current_time())
        if self._backfill is not None and meaning.vector is not None:
            self._backfill.note_query(meaning.vector)
        return meaning

    def no_meaning(self) -> Meaning:
        """Returns the empty meaning of a query that is not embedded, with the reason unless the settings want it so."""
        if self._embeddings is not None:
            return Meaning()
        return Meaning(warning=" ".join(self.weaknesses()) or None)

    def _choose(self) -> None:
        from providers.choosing import choose, open_embeddings  # noqa: PLC0415 - not for the start

        self._choice = choose(self._settings)
        if self._choice.primary is not None:
            learned, dimensions = self._learned()
            self._embeddings = open_embeddings(
                self._settings, self._choice, learned=learned, dimensions=dimensions
            )
        _log.info("embeddings", chosen=self._choice.reason)
        if self._embeddings is None:
            return
        predecessor = self._predecessor(self._choice, self._embeddings)
        self.vectors = self._store.open_vectors(self._settings.search.store.vector)
        if self._wants_backfill and self.vectors is not None:
            self._prepare_background(self._embeddings, self.vectors, self._choice)
        self._reader = QueryReader(self._embeddings, predecessor, is_superseded=self._has_caught_up)

    def _prepare_background(
        self, embeddings: Embeddings, vectors: VectorMemory, choice: Choice
    ) -> None:
        from backends.builtin.embedding.backfill import Backfill  # noqa: PLC0415 - not part of the start

        self._residency = Residency(self._store, vectors, self._priority)
        self._batch = self._open_batch(choice, self._residency)
        self._backfill = Backfill(
            self._store,
            embeddings,
            self._settings.search.cache,
            drops_superseded=choice.fell_back is None,
            on_stored=self._residency.changed,
            batch=self._batch,
            is_indexing=self._is_indexing,
            priority=self._priority,
        )

    def _open_batch(self, choice: Choice, residency: Residency) -> BatchJobs | None:
        """Opens the batch jobs, if the vendor has them. Reads the auth profiles."""
        from backends.builtin.embedding.batch_jobs import BatchJobs  # noqa: PLC0415 - not part of the start
        from providers.batch import find_batch  # noqa: PLC0415 - likewise

        access = find_batch(self._settings, choice)
        if isinstance(access, str):
            self._no_batch = access
            return None
        return BatchJobs(
            self._store,
            access,
            self._settings.search.remote.batch,
            priority=self._priority,
            on_stored=residency.changed,
            on_released=self.wake,
        )

    def _learned(self) -> tuple[Mapping[bytes, Mapping[str, object]], Mapping[bytes, int]]:
        """Returns what is known of hosts, and the dimensions of the vectors that they gave."""
        from backends.builtin.embedding.backfill import load_learned  # noqa: PLC0415 - not for the start

        try:
            with self._store.view() as view:
                return load_learned(view), view.embeddings.dimensions()
        except IndexUnavailableError:
            return {}, {}

    def _predecessor(self, choice: Choice, embeddings: Embeddings) -> EmbeddingService | None:
        """Returns the model whose vectors still cover more notes than those of the provider in use, if there is one."""
        from providers.choosing import open_predecessor  # noqa: PLC0415

        mark = embeddings.fingerprint
        try:
            with self._store.view() as view:
                before = view.embeddings.superseded(mark)
                if before in embeddings.fingerprints() and not (
                    view.jobs.waiting(mark.digest()) or view.embeddings.pending(mark, limit=1)
                ):
                    return None  # primary provider and fallback: this one has read all that it can
        except IndexUnavailableError:
            return None
        if before is None:
            return None
        return open_predecessor(self._settings, choice, before)

    def _has_caught_up(self) -> bool:
        return self._backfill is not None and self._backfill.has_caught_up

    @property
    def fingerprint(self) -> Fingerprint | None:
        """The fingerprint of the provider in use at this moment; None: keywords only."""
        return self._embeddings.fingerprint if self._embeddings else None

    @property
    def fallback(self) -> Fallback | None:
        """Set while another provider than the requested one is in use."""
        record = self._embeddings.state().fell_back if self._embeddings else None
        record = record or (self._choice.fell_back if self._choice else None)
        return Fallback(origin=record.origin, reason=record.reason) if record else None

    def weaknesses(self) -> tuple[str, ...]:
        """Returns why searches do not get the vectors that the settings ask for; nothing if they do."""
        if self._failure is not None:
            return (f"Notes are searched by keywords only: {self._failure}",)
        choice, requested = self._choice, self._settings.search.provider
        if choice is not None and choice.primary is None and requested not in {"auto", "none"}:
            return (f"{choice.reason} {choice.remedy or ''}".rstrip(),)
        if choice is not None and choice.reasons_in_vain:
            return choice.reasons_in_vain
        if self._embeddings is None:
            return ()
        active = self._embeddings.state().active
        found = []
        if fallback := self.fallback:
            found.append(f"{fallback.origin} is replaced by {active.provider}: {fallback.reason}")
        if active.status == "open":
            found.append(f"{active.provider} gives no vectors at present: {active.reason}")
        elif active.status == "degraded":
            found.append(f"The last request to {active.provider} failed: {active.reason}")
        elif lacks := self._lacks():
            found.append(f"{active.provider} gives no vectors yet: {lacks}")
        return tuple(found)

    def _lacks(self) -> str | None:
        """Returns what the provider in use still waits for, as far as it was known when it was chosen."""
        if self._embeddings is None or self._embeddings.is_prepared or self.fallback:
            return None
        primary = self._choice.primary if self._choice else None
        return primary.lacks if primary else None

    @property
    def reason(self) -> str:
        """The reason why this provider is in use, or why none is."""
        if self._failure is not None:
            return self._failure
        if self._choice is not None:
            return self._choice.reason
        if self.is_off:
            return "Notes are searched by keywords only, as configured."
        return "The provider is still being chosen."

    def report(self, view: View) -> VectorDetails:
        """Returns the part for `status`: the choice with every candidate, the provider's state, the vectors."""
        report = VectorDetails(
            enabled=self._settings.search.store.vector.enabled,
            requested=self._settings.search.provider,
            reason=self.reason,
            candidates=tuple(self._choice.candidates) if self._choice else (),
        )
        if self._embeddings is not None:
            state, space = self._embeddings.state(), view.vectors(self._embeddings.fingerprint)
            if (lacks := self._lacks()) and state.active.status == "ready":
                state = replace(state, active=replace(state.active, status="waiting", reason=lacks))
            report = replace(report, provider=state, search=space.status() if space else None)
        if self._reader is not None and (before := self._reader.predecessor) is not None:
            former = EmbeddingModel(before.provider, before.model)
            report = replace(report, answered_by=former)
        if self._backfill is not None:
            from backends.builtin.embedding.batch_jobs import not_used  # noqa: PLC0415 - not part of the start

            batch = self._batch.report(view) if self._batch else not_used(self._no_batch)
            report = replace(report, backfill=self._backfill.report(view), batch=batch)
        return report
