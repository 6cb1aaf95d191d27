"""Giving every stored text its vector, in the background.

One task finds texts without a vector of the provider in use, has them embedded in requests that many files
share, and stores each answer as it arrives, so that nothing is ever paid for twice. A large backlog is left to batch
jobs (`batch_jobs`), except for its newest texts. While a provider fails it is tried again from time to
time, and searches go on by keywords. After a change of provider or model the old vectors stay until the new one has
embedded all texts. If several gateways share a store, one of them at a time does all this; the others check now and
then whether anything is left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import anyio
import msgspec

from backends.builtin.embedding.batch_jobs import KEPT_BACK, THRESHOLD, BatchJobs
from backends.builtin.store.leasing import LOOK_S, LeaseHolder
from backends.builtin.store.port import LeaseLostError, Store, Version, View, Writer
from backends.interface import BackfillState, IndexUnavailableError, ProgressCallback, SyncProgress
from config.errors import ErrorKind
from config.runtime.logs import Log
from config.runtime.tasks import (
    Backoff,
    BoundedWork,
    ResettableEvent,
    SearchPriority,
    Wakeup,
    cancelled_after,
)
from config.settings import CacheSettings
from providers.embedding.service import Delivery, Embeddings, ProviderChange
from providers.provider_interface import (
    CircuitOpenError,
    Fingerprint,
    ItemError,
    ProviderBadResponseError,
    ProviderError,
    ProviderTransientError,
    QueryVector,
    Vector,
)
from providers.resilience import Clock, SystemClock

_log = Log()

_TEXTS_A_RUN: Final = 2_000
"""Enough to fill requests well, few enough to see what changed meanwhile."""
_QUIET_S: Final = 0.3
"""A sync stores texts in slices of a twentieth of a second: if none came for this long, it has ended,
and its texts can share requests."""
QUIET_BEFORE_JOBS_S: Final = 2.0
"""A backlog that still grows would end up in many small jobs."""
LONGEST_GROWTH_S: Final = 600.0
"""After this time a backlog goes into jobs although it is still growing."""
_LONGEST_QUIET_S: Final = 10.0
_FIRST_PAUSE_S: Final = 1.0
_LAST_PAUSE_S: Final = 30.0
_FIRST_OFFER_S: Final = 30.0
_LAST_OFFER_S: Final = 3600.0
"""The pause between two attempts at texts that a working provider refuses again and again."""
_LONGEST_SLIP_MS: Final = 40_000
"""The longest pause before a text is sent again whose vector should have come. The host is to blame, and only a new
request shows that it works again: one is sent within a minute."""
_SHOWN_FAILURES: Final = 20
_NO_ANSWER: Final = "The host gave no answer to this text."
_RELEASING_S: Final = 1.0
_MODEL_IS_USED_MS: Final = 24 * 3600 * 1000
"""The time for which a model counts as in use after a gateway announced it. During that time the other gateways keep
the model's vectors: otherwise gateways that are upgraded one by one would embed everything in turns."""
_ANNOUNCE_EVERY_S: Final = 3600.0
_MODELS_KEY: Final = "models_in_use"


class _Answer(NamedTuple):
    """The results of one request, by the hash of the text."""

    fingerprint: Fingerprint
    vectors: list[tuple[bytes, Vector]]
    refusals: list[tuple[bytes, str]]
    slips: list[tuple[bytes, str]]
    """Vectors that are missing or wrong although the provider seems to have tried to compute them."""

    @property
    def hashes(self) -> Iterator[bytes]:
        return (text_hash for text_hash, _ in (*self.vectors, *self.refusals, *self.slips))


class Backfill:
    """Runs beside the backend that owns it, which calls `wake` after every change of the stored texts."""

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
        priority: SearchPriority | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Without `drops_superseded` the vectors of all other providers stay: a better one may return.

        `on_stored` is called, on the event loop, whenever vectors were stored or dropped. No batch jobs
        are made while `is_indexing`.
        """
        self._store = store
        self._lease = LeaseHolder(store, "embedding")
        self._disk = BoundedWork("storing of embeddings")
        self._embeddings = embeddings
        self._cache = cache
        self._drops_superseded = drops_superseded
        self._on_stored = on_stored
        self._batch = batch
        self._is_indexing = is_indexing
        self._priority = priority or SearchPriority()
        self._clock = clock or SystemClock()
        self._grows_since: float | None = None
        self._wake = ResettableEvent()
        self._wake.set()
        self._unsaved: list[_Answer] = []
        self._suspects: list[bytes] = []
        """The texts of the last request that failed as if the host were to blame."""
        self._are_suspected = False
        """True if the last round ended with them; the next one shows whether they or the host were to blame."""
        self._saved_limits: object = None
        self._dimensions: int | None = None
        self._retry_in_s: float | None = None
        """Seconds until a refused text is due; None: there is none."""
        self._claims_end_s: float | None = None
        """Seconds until a text that another gateway has sent may be sent; None: there is none."""
        self._offers = Backoff(_FIRST_OFFER_S, 2 * _FIRST_OFFER_S, _LAST_OFFER_S)
        self._offers_are_due = False
        self._is_untidy = True
        """True if texts or vectors changed in this process since it tidied up."""
        self._seen: Version | None = None
        """The version of the store at the end of the last round."""
        self._announced_at = -math.inf
        """The time at which this process last announced to others which models are in use here."""
        self._moved = Wakeup()
        """Set when vectors were stored, and at the end of each round."""
        self.running = False
        self.has_caught_up = False
        """True once the provider in use has embedded every text."""
        self.last_error: str | None = None

    def wake(self) -> None:
        self._is_untidy = True
        self._wake.set()

    def note_query(self, query: QueryVector) -> None:
        """Called with the vector of each query. Other dimensions show that the host changed its model under the same
        name; and since the host answers, texts that it refused are sent again.
        """
        if query.fingerprint != self._embeddings.fingerprint:
            return
        if len(query.vector) != self._dimensions:
            self._dimensions = len(query.vector)
            self.wake()
        self._offer()

    def _offer(self) -> None:
        """Schedules refused texts for another attempt, since the provider works, unless that failed lately."""
        if (self._retry_in_s is None and self.last_error is None) or self._offers.left_s > 0:
            return
        self._offers.failed()  # ever longer pauses, until nothing is refused any more
        self._offers_are_due = True
        self.wake()

    async def rested(self, progress: ProgressCallback | None) -> BackfillState:
        """Waits until nothing is left to do for the provider in use, or until it fails for more than a single text."""
        while (
            self.running or self._are_suspected or (self.last_error is None and self._wake.is_set())
        ):
            await self._moved.wait()
            if progress is not None:
                coverage = (await self._disk.run_out(self._state)).coverage
                progress(SyncProgress(done=coverage.embedded, total=coverage.total))
        return await self._disk.run_out(self._state)

    def _state(self) -> BackfillState:
        with self._store.view() as view:
            return self.report(view)

    async def run(self) -> None:
        """Works until cancelled."""
        unsubscribe = self._embeddings.subscribe(self._on_change)
        backoff = Backoff(_FIRST_PAUSE_S, 2 * _FIRST_PAUSE_S, _LAST_PAUSE_S)
        try:
            while True:
                if await self._embed_all():
                    backoff.succeeded()
                    await self._rest()
                else:
                    backoff.failed()
                    circuit_s = self._embeddings.state().active.next_probe_in_s or 0.0
                    await self._woken(max(backoff.left_s, circuit_s))
        finally:
            unsubscribe()

    async def _rest(self) -> None:
        """Waits until there may be something to do."""
        if not self._store.is_shared:
            await self._woken(self._retry_in_s)
            return
        pause_s = min(
            pause for pause in (self._retry_in_s, self._claims_end_s, math.inf) if pause is not None
        )
        due_at = anyio.current_time() + pause_s
        while (left_s := due_at - anyio.current_time()) > 0:
            await self._woken(min(LOOK_S, left_s))
            if self._wake.is_set():
                return
            with suppress(IndexUnavailableError):  # the next call that needs the index reports it
                if await self._disk.run_out(self._others_wrote):
                    return

    def _others_wrote(self) -> bool:
        """Returns whether the store has changed; also True when it is time to announce again the models in use here."""
        with self._store.view() as view:
            return view.version() != self._seen or self._is_to_announce_models

    async def _embed_all(self) -> bool:
        """Embeds all that is pending; returns whether nothing is left to do for the provider in use."""
        self._are_suspected = False
        try:
            async with self._lease.hold():
                self.running = True
                await self._embed_pending()
                await self._disk.run_out(self._tidy)
            self._on_stored()
        except LeaseLostError as error:
            _log.info("embedding passed on", reason=str(error))
        except (ProviderError, IndexUnavailableError) as error:
            if isinstance(error, IndexUnavailableError):
                self._wake.clear()  # nothing was looked at, so it would end each pause at once
            # "The next attempt is in 20 s" would be read much later.
            self.last_error = str(error.cause if isinstance(error, CircuitOpenError) else error)
            _log.warning("embedding paused", error=str(error), kind=error.kind)
        except Exception as fault:  # noqa: BLE001 - an internal fault; it must not end the process that answers
            self.last_error = f"internal fault ({type(fault).__name__}); see the log"
            _log.exception("embedding paused")
        else:
            if self.last_error is not None:
                self.last_error = None
                self._offer()
            return True
        finally:
            self.running = False
            self._moved.fire()
        return False

    async def _embed_pending(self) -> None:
        if self._unsaved:  # these were paid for, so they come first
            await self._disk.run_out(self._save)
        has_failed = self.last_error is not None
        while True:
            await self._settle()
            await self._embeddings.prepare()
            most: int | None = None
            if has_failed:
                await self._embeddings.check()
                has_failed = False
                # The host works: one of these texts may make it fail. Half of them are tried until that one is found.
                most = len(self._suspects) // 2 or None
            mark = self._embeddings.fingerprint
            if len(self._suspects) == 1 and most is None:
                await self._disk.run_out(self._refuse, mark, self._suspects.pop())
            if self._offers_are_due:
                self._offers_are_due = False
                await self._disk.run_out(self._offer_again, mark)
            texts = await self._disk.run_out(
                self._pending, mark, self._embeddings.state().active.dimensions
            )
            if self._embeddings.fingerprint != mark:
                continue  # another provider took over meanwhile, and may have vectors of them
            if not texts:
                self._grows_since = None
                return
            texts = texts[:most]
            if await self._are_for_jobs(mark, texts):
                await self._embed(texts[:KEPT_BACK])  # these do not wait for a job
                await self._hand_over(mark)
            else:
                await self._embed(texts)

    async def _are_for_jobs(self, mark: Fingerprint, texts: Sequence[object]) -> bool:
        """Returns whether a backlog may go into batch jobs, even one that is small only because a sync still runs."""
        may_become_large = len(texts) > KEPT_BACK and self._is_still_growing()
        if self._batch is None or not (len(texts) >= THRESHOLD or may_become_large):
            return False
        return await self._disk.run_out(self._batch.takes, mark)

    async def _hand_over(self, mark: Fingerprint) -> None:
        """Puts a backlog into batch jobs once it has stopped growing: no sync runs, and no text was added.

        After `LONGEST_GROWTH_S` it no longer waits for the end of the growth.
        """
        await self._woken(QUIET_BEFORE_JOBS_S)
        if self._batch is None or self._is_still_growing():
            return
        self._grows_since = None
        await self._disk.run_out(self._batch.claim, self._lease, mark)
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
        async with cancelled_after(partial(self._clock.sleep, timeout_s)):
            await self._wake.wait()

    async def _embed(self, texts: Sequence[tuple[bytes, str]]) -> None:
        """Raises `ProviderError`, also if the provider itself is to blame for missing vectors."""
        answers: list[_Answer] = []
        sent: set[bytes] = set()

        async def on_send(positions: Sequence[int]) -> None:
            claimed = [texts[position][0] for position in positions]
            sent.update(claimed)
            await self._disk.run_out(self._lease.claim, claimed)

        async def on_batch(delivery: Delivery) -> None:
            answers.append(_answer(texts, delivery))
            self._unsaved.append(answers[-1])
            with anyio.CancelScope(shield=True):  # also what arrives while we close was paid for
                await self._disk.run_out(self._priority.polite("embeddings", self._save))
            self._on_stored()
            self._moved.fire()

        try:
            await self._embeddings.embed_documents(
                [text for _, text in texts],
                on_batch=on_batch,
                on_send=on_send if self._store.is_shared else None,
            )
        except (ProviderTransientError, ProviderBadResponseError):
            answered = {text_hash for answer in answers for text_hash in answer.hashes}
            self._suspects = [text_hash for text_hash, _ in texts if text_hash not in answered]
            self._are_suspected = self._embeddings.state().active.status != "open"
            raise
        else:
            self._suspects = []
        finally:
            await self._release(sent.difference(*(answer.hashes for answer in answers)))
        if any(answer.slips for answer in answers):
            await self._embeddings.check()
        elif not any(answer.refusals for answer in answers):
            self._offer()

    async def _release(self, unanswered: Collection[bytes]) -> None:
        """Lets any gateway send these texts again; if the store cannot be written, they may do so later."""
        if not unanswered:
            return
        with anyio.move_on_after(_RELEASING_S, shield=True), suppress(IndexUnavailableError):
            await self._disk.run_out(self._store.release, sorted(unanswered))

    def _offer_again(self, mark: Fingerprint) -> None:
        with self._lease.writer() as writer:
            writer.embeddings.offer_again(mark)

    def _refuse(self, mark: Fingerprint, text_hash: bytes) -> None:
        """Records as refused a text that a working host did not answer, so that it no longer stops the others."""
        with self._lease.writer() as writer:
            writer.embeddings.record_failures(mark, [(text_hash, self.last_error or _NO_ANSWER)])

    def _pending(self, mark: Fingerprint, dimensions: int | None) -> list[tuple[bytes, str]]:
        with self._store.view() as view:
            return view.embeddings.pending(mark, limit=_TEXTS_A_RUN, dimensions=dimensions)

    def _save(self) -> None:
        """Stores what has arrived, in one transaction; what could not be stored is kept for later."""
        limits = self._embeddings.learned()
        self._is_untidy = True
        with self._lease.writer() as writer:
            for answer in self._unsaved:
                if answer.vectors:
                    writer.embeddings.put(answer.fingerprint, answer.vectors)
                writer.embeddings.record_failures(answer.fingerprint, answer.refusals)
                writer.embeddings.record_failures(
                    answer.fingerprint, answer.slips, longest_ms=_LONGEST_SLIP_MS
                )
            if limits != self._saved_limits:
                save_learned(writer, limits)
        self._saved_limits = limits
        self._unsaved.clear()

    def _tidy(self) -> None:
        """Deletes what no search will use again: vectors of other providers, and those of texts that are gone.

        A provider's vectors are deleted only when those of the one in use are complete, and never those of the primary
        provider or of its fallback. On a shared store the gateway that changed something tidies up.
        """
        fingerprint = self._embeddings.fingerprint
        is_untidy, self._is_untidy = self._is_untidy or not self._store.is_shared, False
        try:
            self._put_in_order(fingerprint, is_untidy=is_untidy)
        except BaseException:
            self._is_untidy = True
            raise
        self._store.tidy()
        with self._store.view() as view:
            self._seen = view.version()

    def _put_in_order(self, fingerprint: Fingerprint, *, is_untidy: bool) -> None:
        """Writes only if there is a reason: each commit on a shared store makes the others look."""
        with self._store.view() as view:
            fallen = view.embeddings.fallen_out_of_use() if is_untidy else ()
            awaits = self._batch is not None and view.jobs.waiting(fingerprint.digest()) > 0
            self._retry_in_s = view.embeddings.next_retry_s(fingerprint)
            self._claims_end_s = view.embeddings.claims_end_s()
        awaits |= self._claims_end_s is not None
        if is_untidy:
            with self._lease.writer() as writer:
                self._drop_unused(writer, fallen, may_supersede=not awaits)
        elif self._is_to_announce_models:
            with self._lease.writer() as writer:
                self._announce_models(writer)
        if self._retry_in_s is None:
            self._offers.succeeded()
        self.has_caught_up |= not awaits

    def _drop_unused(self, writer: Writer, fallen: Sequence[int], *, may_supersede: bool) -> None:
        embeddings, fingerprint = writer.embeddings, self._embeddings.fingerprint
        has_vectors = fingerprint.digest() in embeddings.dimensions()
        are_alone = not self._store.is_shared or self._announce_models(writer)
        if self._drops_superseded and has_vectors and may_supersede and are_alone:
            embeddings.drop_superseded(self._embeddings.fingerprints())
        embeddings.forget_gone()
        embeddings.refresh_use(fallen)
        embeddings.prune(self._cache.max_entries if self._cache.enabled else 0)
        self._retry_in_s = embeddings.next_retry_s(fingerprint)

    @property
    def _is_to_announce_models(self) -> bool:
        return self._store.is_shared and time.monotonic() > self._announced_at + _ANNOUNCE_EVERY_S

    def _announce_models(self, writer: Writer) -> bool:
        """Announces the models in use here; returns whether no gateway used another one lately.

        The vectors of a model that a gateway uses are kept, complete or not.
        """
        now = writer.now_ms()  # another host's clock may be days ahead
        text = writer.remembered(_MODELS_KEY)
        used: dict[str, int] = msgspec.json.decode(text) if text else {}
        ours = {one.digest().hex(): now for one in self._embeddings.fingerprints()}
        since = now - _MODEL_IS_USED_MS
        others = {one: at for one, at in used.items() if one not in ours and at > since}
        writer.remember(_MODELS_KEY, msgspec.json.encode({**others, **ours}).decode())
        self._announced_at = time.monotonic()
        return not others

    def report(self, view: View) -> BackfillState:
        """Returns the state for `status`; the counts are those of the caller's view."""
        fingerprint = self._embeddings.fingerprint
        return BackfillState(
            running=self.running,
            last_error=self.last_error,
            coverage=view.embeddings.coverage(fingerprint),
            failed_texts=view.embeddings.failed_texts(fingerprint, limit=_SHOWN_FAILURES),
        )

    def _on_change(self, change: ProviderChange) -> None:
        if change.event == "fell-back":
            self._suspects = []
        _log.info("embeddings", change=change.event, provider=change.provider, reason=change.reason)
        if change.event == "recovered":
            self._offers.succeeded()
            self._offers_are_due = True
        if change.event != "lost":  # otherwise there is no provider to ask
            self._wake.set()


LEARNED_KEY: Final = "learned_limits"
"""The key under which the store remembers the request limits that hosts have."""


def load_learned(view: View) -> dict[bytes, Mapping[str, object]]:
    """Returns the request limits that an earlier process learned from hosts, by fingerprint digest."""
    text = view.remembered(LEARNED_KEY)
    learned: dict[str, Mapping[str, object]] = msgspec.json.decode(text) if text else {}
    return {bytes.fromhex(digest): limits for digest, limits in learned.items()}


def save_learned(writer: Writer, learned: Mapping[bytes, Mapping[str, object]]) -> None:
    known = {**load_learned(writer), **learned}
    text = msgspec.json.encode({digest.hex(): limits for digest, limits in known.items()}).decode()
    writer.remember(LEARNED_KEY, text)


def _answer(texts: Sequence[tuple[bytes, str]], delivery: Delivery) -> _Answer:
    answer = _Answer(delivery.fingerprint, [], [], [])
    for position, item in zip(delivery.positions, delivery.items, strict=True):
        text_hash = texts[position][0]
        if not isinstance(item, ItemError):
            answer.vectors.append((text_hash, item))
        elif item.kind == ErrorKind.PROVIDER_BAD_RESPONSE:
            answer.slips.append((text_hash, item.message))
        else:
            answer.refusals.append((text_hash, item.message))
    return answer
