"""Giving every stored text its vector, in the background.

One task finds texts without a vector of the provider in use, has them embedded in requests that many files
share, and stores each answer as it arrives, so that nothing is ever paid twice. A large backlog is left to batch
jobs (`backends.builtin.batch`), but for its newest texts. A provider that fails is waited for; searches go on by
keywords meanwhile. After a change of provider or
model the old vectors stay until the new one has embedded all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import anyio
import msgspec
import structlog

from backends.builtin.batch.claiming import KEPT_BACK, THRESHOLD
from backends.builtin.batch.jobs import BatchJobs
from backends.builtin.store.port import Store, View, Writer
from backends.errors import IndexUnavailableError
from backends.interface import BackfillState
from config.errors import ErrorKind
from config.runtime.bounded import BoundedWork
from config.runtime.tasks import Backoff, ResettableEvent
from config.settings import CacheSettings
from providers.embedding.documents import Delivery
from providers.embedding.failover import Change, Embeddings
from providers.errors import ProviderError
from providers.interface import Fingerprint, ItemError, QueryVector, Vector
from providers.resilience import Clock, SystemClock

_log = structlog.get_logger(__name__)

_TEXTS_A_RUN: Final = 2_000
"""Enough to fill requests well, few enough to see what changed meanwhile."""
_QUIET_S: Final = 0.3
"""A sync stores texts in slices of a twentieth of a second: after so long without any it has ended,
and its texts can share requests."""
QUIET_BEFORE_JOBS_S: Final = 2.0
"""A backlog that still grows would end up in many small jobs."""
LONGEST_GROWTH_S: Final = 600.0
"""After so long a backlog goes into jobs although it grows still."""
_LONGEST_QUIET_S: Final = 10.0
_FIRST_PAUSE_S: Final = 1.0
_LAST_PAUSE_S: Final = 30.0
_FIRST_OFFER_S: Final = 30.0
_LAST_OFFER_S: Final = 3600.0
"""Between two offers of the texts that were refused to a provider that works, and refuses them again."""
_SHOWN_FAILURES: Final = 20


class _Answer(NamedTuple):
    """What one request gave, by the hash of the text."""

    fingerprint: Fingerprint
    vectors: list[tuple[bytes, Vector]]
    failures: list[tuple[bytes, str]]
    has_slips: bool
    """Whether a vector is missing or wrong that the provider seems to have tried to give."""


class Backfill:
    """Runs beside the backend that owns it; `wake` after every change of the stored texts."""

    def __init__(
        self,
        store: Store,
        embeddings: Embeddings,
        cache: CacheSettings,
        *,
        drops_superseded: bool = True,
        on_stored: Callable[[], None] = lambda: None,
        batch: BatchJobs | None = None,
        is_indexing: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
    ) -> None:
        """Without `drops_superseded` the vectors of all other providers stay: a better one may return.

        `on_stored` is called, on the event loop, whenever vectors were stored or dropped. No batch jobs
        are made while `is_indexing`.
        """
        self._store = store
        self._disk = BoundedWork("storing of embeddings")
        self._embeddings = embeddings
        self._cache = cache
        self._drops_superseded = drops_superseded
        self._on_stored = on_stored
        self._batch = batch
        self._is_indexing = is_indexing
        self._clock = clock or SystemClock()
        self._grows_since: float | None = None
        self._wake = ResettableEvent()
        self._wake.set()
        self._unsaved: list[_Answer] = []
        self._saved_limits: object = None
        self._dimensions: int | None = None
        self._retry_in_s: float | None = None
        """Until a refused text is due; None: there is none."""
        self._offers = Backoff(_FIRST_OFFER_S, 2 * _FIRST_OFFER_S, _LAST_OFFER_S)
        self._offers_are_due = False
        self.running = False
        self.has_caught_up = False
        """Whether every text has been embedded once by the provider in use."""
        self.last_error: str | None = None

    def wake(self) -> None:
        self._wake.set()

    def heed(self, query: QueryVector) -> None:
        """A host may have changed its model under the same name: other dimensions tell. And one that
        answers is offered what it refused.
        """
        if query.fingerprint != self._embeddings.fingerprint:
            return
        if query.vector.size != self._dimensions:
            self._dimensions = query.vector.size
            self.wake()
        self._offer()

    def _offer(self) -> None:
        """The provider works: what it refused goes to it once more, unless that was of no use lately."""
        if (self._retry_in_s is None and self.last_error is None) or self._offers.left_s > 0:
            return
        self._offers.failed()  # until nothing is refused any more
        self._offers_are_due = True
        self.wake()

    async def run(self) -> None:
        """Works until cancelled."""
        unsubscribe = self._embeddings.subscribe(self._on_change)
        backoff = Backoff(_FIRST_PAUSE_S, 2 * _FIRST_PAUSE_S, _LAST_PAUSE_S)
        try:
            while True:
                if await self._embed_all():
                    backoff.succeeded()
                    await self._woken(self._retry_in_s)
                else:
                    backoff.failed()
                    await self._woken(self._pause(backoff.left_s))
        finally:
            unsubscribe()

    async def _embed_all(self) -> bool:
        """Whether nothing is left to do for the provider in use."""
        self.running = True
        try:
            await self._embed_pending()
            await self._disk.run_out(self._tidy)
            self._on_stored()
        except (ProviderError, IndexUnavailableError) as error:
            self.last_error = str(error)
            _log.warning("embedding paused", error=str(error), kind=error.kind)
        except Exception as fault:  # noqa: BLE001 - ours; it must not end the process that answers
            self.last_error = f"internal fault ({type(fault).__name__}); see the log"
            _log.exception("embedding paused")
        else:
            if self.last_error is not None:
                self.last_error = None
                self._offer()
            return True
        finally:
            self.running = False
        return False

    async def _embed_pending(self) -> None:
        if self._unsaved:  # paid for, so they come before anything else is
            await self._disk.run_out(self._save)
        has_failed = self.last_error is not None
        while True:
            await self._settle()
            await self._embeddings.prepare()
            if has_failed:
                await self._embeddings.check()
                has_failed = False
            mark = self._embeddings.fingerprint
            if self._offers_are_due:
                self._offers_are_due = False
                await self._disk.run_out(partial(self._offer_again, mark))
            texts = await self._disk.run_out(
                partial(self._pending, mark, self._embeddings.state().active.dimensions)
            )
            if self._embeddings.fingerprint != mark:
                continue  # another provider took over meanwhile, and may have vectors of them
            if not texts:
                return
            if await self._are_for_jobs(mark, texts):
                await self._embed(texts[:KEPT_BACK])  # these do not wait for a job
                await self._hand_over(mark)
            else:
                await self._embed(texts)

    async def _are_for_jobs(self, mark: Fingerprint, texts: Sequence[object]) -> bool:
        """A backlog that is small only because a sync has not come further may be one, too."""
        may_become_large = len(texts) > KEPT_BACK and self._is_still_growing()
        if self._batch is None or not (len(texts) >= THRESHOLD or may_become_large):
            return False
        return await self._disk.run_out(partial(self._batch.takes, mark))

    async def _hand_over(self, mark: Fingerprint) -> None:
        """Puts a backlog into batch jobs, once it has stopped growing: no sync goes on, no text came.

        Growth that does not end is not waited for.
        """
        await self._woken(QUIET_BEFORE_JOBS_S)
        if self._batch is None or self._is_still_growing():
            return
        self._grows_since = None
        await self._disk.run_out(partial(self._batch.claim, mark))
        self._batch.wake()

    def _is_still_growing(self) -> bool:
        if not (self._wake.is_set() or self._is_indexing()):
            return False
        now = anyio.current_time()
        self._grows_since = self._grows_since or now
        return now < self._grows_since + LONGEST_GROWTH_S

    async def _settle(self) -> None:
        """Waits until no more texts are being stored, but not for long."""
        with anyio.move_on_after(_LONGEST_QUIET_S):
            while self._wake.is_set():
                self._wake.clear()
                await self._woken(_QUIET_S)

    async def _woken(self, timeout_s: float | None) -> None:
        if timeout_s is None:
            await self._wake.wait()
            return
        async with anyio.create_task_group() as tasks:

            async def elapsed() -> None:
                await self._clock.sleep(timeout_s)
                tasks.cancel_scope.cancel()

            tasks.start_soon(elapsed)
            await self._wake.wait()
            tasks.cancel_scope.cancel()

    async def _embed(self, texts: Sequence[tuple[bytes, str]]) -> None:
        """Raises `ProviderError`, also where it is the provider's own fault that vectors are missing."""
        answers: list[_Answer] = []

        async def on_batch(delivery: Delivery) -> None:
            answers.append(_answer(texts, delivery))
            self._unsaved.append(answers[-1])
            with anyio.CancelScope(shield=True):  # also what arrives while we close was paid for
                await self._disk.run_out(self._save)
            self._on_stored()

        await self._embeddings.embed_documents([text for _, text in texts], on_batch=on_batch)
        if any(answer.has_slips for answer in answers):
            await self._embeddings.check()
        elif not any(answer.failures for answer in answers):
            self._offer()

    def _offer_again(self, mark: Fingerprint) -> None:
        with self._store.writer() as writer:
            writer.embeddings.offer_again(mark)

    def _pending(self, mark: Fingerprint, dimensions: int | None) -> list[tuple[bytes, str]]:
        with self._store.view() as view:
            return view.embeddings.pending(mark, limit=_TEXTS_A_RUN, dimensions=dimensions)

    def _save(self) -> None:
        """Stores what has arrived, in one transaction; what could not be stored is kept for later."""
        limits = self._embeddings.learned()
        with self._store.writer() as writer:
            for answer in self._unsaved:
                if answer.vectors:
                    writer.embeddings.put(answer.fingerprint, answer.vectors)
                writer.embeddings.record_failures(answer.fingerprint, answer.failures)
            if limits != self._saved_limits:
                save_learned(writer, limits)
        self._saved_limits = limits
        self._unsaved.clear()

    def _tidy(self) -> None:
        """What no search will use again goes: vectors of other providers, texts long gone.

        A provider's vectors go only when those of the one in use are complete, and never those of
        the other one of a pair that stands in for each other.
        """
        fingerprint = self._embeddings.fingerprint
        with self._store.view() as view:
            fallen = view.embeddings.fallen_out_of_use()
            awaits = self._batch is not None and self._batch.is_waited_for(view, fingerprint)
        with self._store.writer() as writer:
            embeddings = writer.embeddings
            has_vectors = embeddings.has_vectors(fingerprint)
            if self._drops_superseded and has_vectors and not awaits:
                embeddings.drop_superseded(self._embeddings.fingerprints())
            embeddings.forget_gone()
            embeddings.refresh_use(fallen)
            embeddings.prune(self._cache.max_entries if self._cache.enabled else 0)
            self._retry_in_s = embeddings.next_retry_s(fingerprint)
        if self._retry_in_s is None:
            self._offers.succeeded()
        self.has_caught_up |= not awaits
        self._store.tidy()

    def report(self, view: View) -> BackfillState:
        """For `status`; the counts are those of the caller's view."""
        fingerprint = self._embeddings.fingerprint
        return BackfillState(
            running=self.running,
            last_error=self.last_error,
            coverage=view.embeddings.coverage(fingerprint),
            failed_texts=view.embeddings.failed_texts(fingerprint, limit=_SHOWN_FAILURES),
        )

    def _pause(self, backoff_s: float) -> float:
        """As long as the provider's circuit stays open, at least."""
        return max(backoff_s, self._embeddings.state().active.next_probe_in_s or 0.0)

    def _on_change(self, change: Change) -> None:
        _log.info("embeddings", change=change.event, provider=change.provider, reason=change.reason)
        if change.event == "recovered":
            self._offers.succeeded()
            self._offers_are_due = True
        self._wake.set()


_LEARNED_KEY: Final = "learned_limits"


def load_learned(view: View) -> dict[bytes, Mapping[str, Any]]:
    """Request limits that hosts taught an earlier process, by fingerprint digest."""
    text = view.remembered(_LEARNED_KEY)
    learned: dict[str, Mapping[str, Any]] = msgspec.json.decode(text) if text else {}
    return {bytes.fromhex(digest): limits for digest, limits in learned.items()}


def save_learned(writer: Writer, learned: Mapping[bytes, Mapping[str, Any]]) -> None:
    known = {**load_learned(writer), **learned}
    text = msgspec.json.encode({digest.hex(): limits for digest, limits in known.items()}).decode()
    writer.remember(_LEARNED_KEY, text)


def _answer(texts: Sequence[tuple[bytes, str]], delivery: Delivery) -> _Answer:
    slips = ErrorKind.PROVIDER_BAD_RESPONSE
    has_slips = any(isinstance(item, ItemError) and item.kind == slips for item in delivery.items)
    answer = _Answer(delivery.fingerprint, [], [], has_slips)
    for position, item in zip(delivery.positions, delivery.items, strict=True):
        text_hash = texts[position][0]
        if isinstance(item, ItemError):
            answer.failures.append((text_hash, item.message))
        else:
            answer.vectors.append((text_hash, item))
    return answer
