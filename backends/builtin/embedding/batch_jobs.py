"""The batch jobs of one index: made of large backlogs, looked after until they are closed, cancelled by a person.

`claim_backlog` and `divide` decide which texts go into which job. `Verdicts` decides what every failure means for a
job, `Steps` takes it from state to state: upload, submit, poll, read, delete.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import IO, Final, NamedTuple

import anyio
import msgspec
from msgspec.structs import replace

from backends.builtin.store.leasing import LOOK_S, LeaseHolder
from backends.builtin.store.opening import if_there
from backends.builtin.store.port import BY_REQUEST, READERS, JobRecord, Store, View, Writer, now_ms
from backends.interface import BatchReport, IndexUnavailableError, JobReport
from config.runtime.decoding import prepared
from config.runtime.logs import Log
from config.runtime.tasks import BoundedWork, ResettableEvent, SearchPriority
from config.settings import BatchSettings, Settings
from config.vendors import JobLimits
from providers.batch import BatchAccess
from providers.provider_interface import (
    BatchHost,
    BatchResult,
    Fingerprint,
    ItemError,
    ProviderAuthError,
    ProviderError,
    ProviderInputTooLargeError,
    ProviderRateLimitError,
    ProviderTimeoutError,
    ProviderTransientError,
    RemoteJob,
    Vector,
)

_log = Log()

MOST_FAILURES: Final = 2
OFF_MS: Final = 3600 * 1000
UNAVAILABLE_MS: Final = 24 * 3600 * 1000
"""A host without batch jobs does not get them soon."""
_SWITCH: Final = "batch_switch"
SMALLEST: Final = 100
"""The fewest texts of a job that is made of a refused one: if even so few are refused, the size is not the reason."""
_KEPT_MS: Final = 7 * 24 * 3600 * 1000
"""The time for which a learned capacity counts: vendors raise the limits of accounts, so it is then tried again."""
_CAPACITY: Final = "batch_capacity"
REMEMBERED: Final = (_SWITCH, _CAPACITY)
"""The keys under which the store remembers what was learned about vendors."""
THRESHOLD: Final = 1_000
"""The number of texts without a vector from which on a backlog goes into jobs."""
KEPT_BACK: Final = 100
"""The number of newest texts of a backlog that go into no job: a text that was just saved does not wait for one."""
_BYTES_A_LINE: Final = 512
"""The bytes that a line needs beside its text, generously estimated."""
_BYTES_A_CHARACTER: Final = 4
"""The most in UTF-8; few characters of a text become two in a JSON string."""
_MOST_ATTEMPTS: Final = 5
_KEPT_CLOSED: Final = 20
_LONGEST_PAUSE_MS: Final = 60_000
_GRACE_MS: Final = 3_600_000
"""The time to wait beyond the vendor's own window, or beyond the time limit of a job that is being cancelled."""
_UNKNOWN: Final = frozenset({404, 405, 410})
_MISSING: Final = "The batch job's results hold nothing about this text."
_TOO_LARGE: Final = "The vendor takes fewer texts at once."
_LONGEST_POLL_MS: Final = 60_000
_POLLS_OF_AN_AGE: Final = 20
"""The pause between two polls of a job is its age divided by this number."""
_SHORTEST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 60.0
"""The longest wait between two rounds: a request to cancel, stored by another process, wakes nobody."""
_LONGEST_STEP_S: Final = 3600.0
"""The time for an upload or a download of some hundred megabytes on a slow line."""
_RETRY_S: Final = 1.0
"""The pause after the database could not be used."""
_FAULT_PAUSE_S: Final = 60.0
_CLOSING_S: Final = 1.0


class BatchSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """The failures of batch jobs, which switch them off. `digest` is that of the provider, in hexadecimal."""

    digest: str
    failures: int = 0
    off_until_ms: int = 0
    reason: str | None = None

    def is_off(self, now_ms: int) -> bool:
        return now_ms < self.off_until_ms

    def failed(self, reason: str, now_ms: int) -> BatchSwitch:
        """Returns the switch after another failed job; a failure after a pause switches off again at once."""
        failures = self.failures + 1
        off = now_ms + OFF_MS if failures >= MOST_FAILURES else self.off_until_ms
        return replace(self, failures=failures, off_until_ms=off, reason=reason)

    def switched_off(self, reason: str, now_ms: int, for_ms: int = OFF_MS) -> BatchSwitch:
        """Returns the switch turned off at once, whatever the count."""
        return replace(self, off_until_ms=now_ms + for_ms, reason=reason)

    def succeeded(self) -> BatchSwitch:
        return BatchSwitch(digest=self.digest)


def switch_of(view: View, digest: bytes) -> BatchSwitch:
    """Returns the switch of this provider; one that was stored for another provider is ignored."""
    text = view.remembered(_SWITCH)
    if text:
        switch = msgspec.json.decode(text, type=prepared(BatchSwitch))
        if switch.digest == digest.hex():
            return switch
    return BatchSwitch(digest=digest.hex())


def save_switch(writer: Writer, switch: BatchSwitch) -> None:
    writer.remember(_SWITCH, msgspec.json.encode(switch).decode())


def new_job(writer: Writer, digest: bytes, text_hashes: Sequence[bytes]) -> None:
    """Adds a job that these texts wait for; they wait for no other."""
    label, items = secrets.token_hex(12), len(text_hashes)
    job = JobRecord(label=label, digest=digest, items=items, created_at_ms=now_ms())
    writer.jobs.add(job, text_hashes)


class _Capacity(msgspec.Struct, frozen=True):
    digest: str
    items: int
    learned_at_ms: int


def capacity_of(view: View, digest: bytes) -> int | None:
    """Returns how many texts the vendor takes at once, in all open jobs; None: no bound is known."""
    text = view.remembered(_CAPACITY)
    if not text:
        return None
    learned = msgspec.json.decode(text, type=prepared(_Capacity))
    is_valid = learned.digest == digest.hex() and now_ms() < learned.learned_at_ms + _KEPT_MS
    return learned.items if is_valid else None


def divide(writer: Writer, job: JobRecord, reason: str) -> bool:
    """Puts the texts of a refused job into other jobs; returns False if it is too small for that.

    If other jobs were under way, perhaps their sum was too large: then the same number of texts is tried
    again when those have ended. The vendor's file of the refused job is still to be deleted.
    """
    open_jobs = writer.jobs.open(job.digest)
    under_way = [one for one in open_jobs if one.state in ("uploaded", "submitted")]
    others = sum(other.items for other in under_way if other.id != job.id)
    items = max(job.items, others) if others else job.items // 2
    if items < SMALLEST:
        return False
    learned = _Capacity(job.digest.hex(), items, now_ms())
    writer.remember(_CAPACITY, msgspec.json.encode(learned).decode())
    refused = replace(job, state="read", outcome="divided", reason=reason, attempts=0, next_at_ms=0)
    _replace(writer, refused, items)
    for other in open_jobs:
        if other.state == "prepared" and other.items > items and not other.cancelling:
            _replace(writer, replace(other, state="closed", outcome="divided"), items)
    return True


def _replace(writer: Writer, job: JobRecord, items: int) -> None:
    texts = sorted(writer.jobs.waiting_hashes(job))
    writer.jobs.release(job)
    writer.jobs.save(job)
    for begin in range(0, len(texts), items):
        new_job(writer, job.digest, texts[begin : begin + items])


def claim_backlog(writer: Writer, fingerprint: Fingerprint, limits: JobLimits) -> int:
    """Puts the backlog into new jobs; returns how many jobs.

    None is made if fewer texts are left than the threshold less the newest ones, which have been
    embedded before.
    """
    digest = fingerprint.digest()
    backlog = writer.embeddings.backlog(fingerprint)
    if len(backlog) < THRESHOLD - KEPT_BACK:
        return 0
    learned = capacity_of(writer, digest) or limits.max_items
    jobs = list(divided(backlog, replace(limits, max_items=min(learned, limits.max_items))))
    for texts in jobs:
        new_job(writer, digest, texts)
    return len(jobs)


def divided(backlog: Sequence[tuple[bytes, int]], limits: JobLimits) -> Iterator[list[bytes]]:
    """Yields the texts of each job, within the limits of lines and bytes. `backlog`: each text with its length."""
    texts: list[bytes] = []
    filled = 0
    for text_hash, length in backlog:
        needed = _BYTES_A_CHARACTER * length + _BYTES_A_LINE
        if texts and (len(texts) == limits.max_items or filled + needed > limits.max_bytes):
            yield texts
            texts, filled = [], 0
        texts.append(text_hash)
        filled += needed
    if texts:
        yield texts


class Verdicts:
    """All methods are blocking: they write to the store."""

    def __init__(
        self, writes: LeaseHolder | Store, access: BatchAccess, settings: BatchSettings
    ) -> None:
        self._writes = writes
        self._access = access
        self._settings = settings

    def stumbled(self, job: JobRecord, error: ProviderError) -> None:
        """Handles a failed step of the job: it is tried again, made smaller jobs, or ended."""
        _log.warning("batch job", label=job.label, state=job.state, error=error.message)
        if job.state in ("prepared", "uploaded") and error.status in _UNKNOWN:
            self._give_up(job, error.message, off_for_ms=UNAVAILABLE_MS)
        elif self._is_hopeless(job, error):
            # Gemini says only that there were too many requests, however often one waits.
            of_size = isinstance(error, ProviderInputTooLargeError | ProviderRateLimitError)
            if of_size and job.state in ("prepared", "uploaded"):
                self.too_large(job, error.message)
            elif job.state == "read":
                self.close(replace(job, reason=f"Files could not be deleted: {error.message}"))
            else:
                self._give_up(job, error.message)
        else:
            attempts = job.attempts + 1
            self._save(
                replace(
                    job,
                    attempts=attempts,
                    reason=job.reason if job.cancelling else error.message,
                    next_at_ms=now_ms() + self._pause_ms(attempts, error),
                )
            )

    def too_large(self, job: JobRecord, reason: str) -> None:
        """Puts the texts of a job that is too large for the vendor into smaller jobs, or gives it up as a failure."""
        with self._writes.writer() as writer:
            is_wanted = writer.jobs.wish_to_cancel(job) is None
            is_divided = is_wanted and divide(writer, job, reason)
        if not is_divided:
            self._give_up(job, reason)

    def _is_hopeless(self, job: JobRecord, error: ProviderError) -> bool:
        if job.state == "submitted":  # it is being worked on, and paid for, whatever the answer
            return error.status in _UNKNOWN or self._is_too_old(job)
        lasting = error.final or not error.retryable
        return lasting or job.attempts + 1 >= _MOST_ATTEMPTS

    def _pause_ms(self, attempts: int, error: ProviderError) -> int:
        backoff = min(self._settings.poll_interval_ms << attempts, _LONGEST_PAUSE_MS)
        return max(backoff, int((error.retry_after_s or 0) * 1000))

    def check_age(self, job: JobRecord) -> None:
        """Gives up a job that neither ends nor can be cancelled."""
        if self._is_too_old(job):
            self._give_up(job, "It neither ended nor could it be cancelled.")

    def _is_too_old(self, job: JobRecord) -> bool:
        window_ms = self._access.limits.window_s * 1000
        if job.cancelling and self._settings.wait:
            window_ms = min(window_ms, self._settings.timeout_minutes * 60_000)
        return now_ms() - (job.submitted_at_ms or now_ms()) > window_ms + _GRACE_MS

    def end(self, job: JobRecord) -> None:
        """Ends a job of which all results are stored: its other texts wait no longer."""
        with self._writes.writer() as writer:
            job = _as_wished(writer, job)
            state = switch_of(writer, job.digest)
            save_switch(writer, _judged(job, state))
            writer.jobs.release(job)
            writer.jobs.save(replace(job, state="read", attempts=0, next_at_ms=0))

    def end_early(self, job: JobRecord) -> None:
        """Ends a job that was to be cancelled before the vendor began with it."""
        self.end(replace(job, outcome="cancelled"))

    def _give_up(self, job: JobRecord, reason: str, *, off_for_ms: int = 0) -> None:
        self.end(replace(job, outcome="failed", reason=reason))
        if off_for_ms:
            with self._writes.writer() as writer:
                state = switch_of(writer, job.digest)
                save_switch(writer, state.switched_off(reason, now_ms(), off_for_ms))

    def drop_unsent(self, job: JobRecord) -> None:
        """Closes a job of which nothing was sent before batch jobs were switched off."""
        with self._writes.writer() as writer:
            writer.jobs.release(job)
            writer.jobs.save(replace(job, state="closed", outcome="cancelled"))

    def close(self, job: JobRecord) -> None:
        with self._writes.writer() as writer:
            writer.jobs.release(job)
            writer.jobs.save(replace(job, state="closed"))
            writer.jobs.forget_closed(_KEPT_CLOSED)

    def _save(self, job: JobRecord) -> None:
        with self._writes.writer() as writer:
            writer.jobs.save(job)


def _as_wished(view: View, job: JobRecord) -> JobRecord:
    """Returns the job as cancelled if a person asked for that: its end is no failure. A completed job stays so."""
    if view.jobs.wish_to_cancel(job) != BY_REQUEST:
        return job
    if job.outcome == "completed":
        return replace(job, cancelling=True, reason=None)
    return replace(job, cancelling=True, outcome="cancelled", reason=BY_REQUEST)


def _judged(job: JobRecord, state: BatchSwitch) -> BatchSwitch:
    """Returns the switch after the end of a job: whether batch jobs as such work."""
    if job.outcome == "completed" and 2 * job.refused <= job.items:
        return state.succeeded()
    if job.outcome == "cancelled" and job.reason in (None, BY_REQUEST):  # None: at the vendor's
        return state.switched_off(BY_REQUEST, now_ms())
    reason = job.reason or f"{job.refused} of {job.items} texts got no vector."
    return state.failed(f"A batch job ended as {job.outcome}: {reason}", now_ms())


class LinesError(ProviderTransientError):
    """The texts could not be written to a file for the vendor."""


class Steps:
    def __init__(
        self,
        store: Store,
        writes: LeaseHolder | Store,
        access: BatchAccess,
        settings: BatchSettings,
        verdicts: Verdicts,
        priority: SearchPriority,
        on_stored: Callable[[], None],
    ) -> None:
        self._store = store
        self._writes = writes
        self._access = access
        self._settings = settings
        self._verdicts = verdicts
        self._priority = priority
        self._on_stored = on_stored
        self._disk = BoundedWork("steps of batch jobs", READERS)

    async def advance(self, job: JobRecord, host: BatchHost) -> None:
        """Takes the job's next step. Raises `ProviderError` and `IndexUnavailableError`."""
        match job.state:
            case "prepared":
                await self._upload(job, host)
            case "uploaded":
                await self._submit(job, host)
            case "submitted":
                await self._poll(job, host)
            case "ended":
                await self._read(job, host)
            case _:
                await self._clean_up(job, host)

    async def _upload(self, job: JobRecord, host: BatchHost) -> None:
        if job.cancelling:
            await self._disk.run_out(self._verdicts.end_early, job)
            return
        name = f"memory-gateway-{job.label}.jsonl"
        # This is also the first request to a host: one without batch jobs says so here.
        uploaded = await host.find_upload(name)
        if uploaded is None:
            with await self._disk.run_out(self._lines, job, host) as file:
                if not os.fstat(file.fileno()).st_size:
                    # All of its texts have left the notes.
                    await self._save(replace(job, state="read", outcome="cancelled"))
                    return
                uploaded = await host.upload(name, file)
        await self._save(replace(job, state="uploaded", input_file=uploaded, attempts=0))

    def _lines(self, job: JobRecord, host: BatchHost) -> IO[bytes]:
        """Returns a temporary file with a line for each text, which the caller closes. Raises `LinesError`."""
        try:
            with ExitStack() as unless_complete:
                file = unless_complete.enter_context(tempfile.TemporaryFile())
                with self._store.view() as view:
                    for text_hash, text in view.jobs.texts(job):
                        file.write(host.line(text_hash.hex(), text))
                file.seek(0)
                unless_complete.pop_all()
                return file
        except OSError as error:
            raise LinesError(
                f"The texts of a batch job could not be written to a temporary file: {error.strerror}."
                " Set TMPDIR to a directory with room."
            ) from None

    async def _submit(self, job: JobRecord, host: BatchHost) -> None:
        assert job.input_file is not None
        remote = await host.find(job.input_file)
        if remote is None:
            if job.cancelling:
                await self._disk.run_out(self._verdicts.end_early, job)
                return
            remote = await host.create(job.input_file, job.label)
        now = now_ms()
        await self._save(
            replace(
                job,
                state="submitted",
                remote_id=remote.id,
                remote_state=remote.state,
                submitted_at_ms=now,
                next_at_ms=now + self._settings.poll_interval_ms,
                attempts=0,
                reason=_reason_to_cancel(job),
            )
        )

    async def _poll(self, job: JobRecord, host: BatchHost) -> None:
        assert job.remote_id is not None
        remote = await host.look(job.remote_id)
        job = replace(
            job,
            remote_state=remote.state,
            remote_done=remote.done,
            attempts=0,
            reason=_reason_to_cancel(job),
        )
        if remote.too_large:
            await self._disk.run_out(self._verdicts.too_large, job, remote.reason or _TOO_LARGE)
            return
        if remote.outcome is not None:
            await self._save(_ended(job, remote))
            return
        age_ms = now_ms() - (job.submitted_at_ms or 0)
        minutes = self._settings.timeout_minutes
        if not job.cancelling and self._settings.wait and age_ms > minutes * 60_000:
            job = replace(job, cancelling=True, reason=f"It was not done within {minutes} minutes.")
            await self._save(job)
        if job.cancelling and remote.state != "cancelling":
            await host.cancel(remote.id)
        await self._save(replace(job, next_at_ms=now_ms() + self._pause_ms(age_ms)))
        await self._disk.run_out(self._verdicts.check_age, job)

    def _pause_ms(self, age_ms: int) -> int:
        least = self._settings.poll_interval_ms
        return max(least, min(age_ms // _POLLS_OF_AN_AGE, _LONGEST_POLL_MS))

    async def _read(self, job: JobRecord, host: BatchHost) -> None:
        intake = await self._disk.run_out(self._intake, job)

        async def on_results(results: Sequence[BatchResult]) -> None:
            take_in = partial(self._take_in, intake, results)
            with anyio.CancelScope(shield=True):
                await self._disk.run_out(self._priority.polite("results", take_in))
            self._on_stored()

        for file_id in job.result_files.split():
            await host.read(file_id, on_results)
        await self._disk.run_out(self._finish, intake)

    def _intake(self, job: JobRecord) -> _Intake:
        with self._store.view() as view:
            return _Intake(job, view.jobs.waiting_hashes(job))

    def _take_in(self, intake: _Intake, results: Sequence[BatchResult]) -> None:
        """Stores one slice of results, and that their texts wait no longer, in one transaction."""
        fingerprint, items = self._access.fingerprint, intake.fresh(results)
        with self._writes.writer() as writer:
            length = writer.embeddings.dimensions().get(fingerprint.digest())
            failures = [(key, why) for key, item in items if (why := _fault(item, length))]
            failed = {key for key, _ in failures}
            vectors = [
                (key, item)
                for key, item in items
                if key not in failed and not isinstance(item, ItemError)
            ]
            job = replace(
                intake.job,
                stored=intake.job.stored + len(vectors),
                refused=intake.job.refused + len(failures),
            )
            if vectors:
                writer.embeddings.put(fingerprint, vectors)
            writer.embeddings.record_failures(fingerprint, failures)
            writer.jobs.release(job, [key for key, _ in items])
            writer.jobs.save(job)
        intake.taken(job, [key for key, _ in items])

    def _finish(self, intake: _Intake) -> None:
        """Ends the job after its results; texts without a result are embedded in the ordinary way."""
        job, missing = intake.job, intake.waiting
        if job.outcome == "completed":
            job = replace(job, refused=job.refused + len(missing))
            with self._writes.writer() as writer:
                unanswered = [(key, _MISSING) for key in missing]
                writer.embeddings.record_failures(self._access.fingerprint, unanswered)
        self._verdicts.end(job)

    async def _clean_up(self, job: JobRecord, host: BatchHost) -> None:
        files = job.result_files.split()
        for file_id in files if job.input_file is None else [job.input_file, *files]:
            await host.delete(file_id)
        await self._disk.run_out(self._verdicts.close, job)

    async def _save(self, job: JobRecord) -> None:
        def save() -> None:
            with self._writes.writer() as writer:
                writer.jobs.save(job)

        with anyio.CancelScope(shield=True):  # the state at the vendor must be recorded
            await self._disk.run_out(save)


def _fault(item: Vector | ItemError, length: int | None) -> str | None:
    """Returns why this result cannot be used; None if it can. One vector of another length must not discard the stored
    ones: requests find out whether the host has another model.
    """
    if isinstance(item, ItemError):
        return item.message
    if length is not None and len(item) != length:
        return f"The batch job gave a vector of {len(item)} dimensions instead of {length}."
    return None


class _Intake:
    """The reading of one job's results: which texts still wait, and the counts so far."""

    def __init__(self, job: JobRecord, waiting: set[bytes]) -> None:
        self.job = job
        self.waiting = waiting

    def fresh(self, results: Sequence[BatchResult]) -> list[tuple[bytes, Vector | ItemError]]:
        """Returns the results of texts that wait for them, each text once; unknown ids are left out."""
        found: dict[bytes, Vector | ItemError] = {}
        for result in results:
            try:
                text_hash = bytes.fromhex(result.key)
            except ValueError:
                continue
            if text_hash in self.waiting:
                found.setdefault(text_hash, result.item)
        return list(found.items())

    def taken(self, job: JobRecord, text_hashes: Sequence[bytes]) -> None:
        self.job = job
        self.waiting.difference_update(text_hashes)


def _reason_to_cancel(job: JobRecord) -> str | None:
    """Returns the reason of a cancellation; any other stored reason no longer applies once the vendor answers."""
    return job.reason if job.cancelling else None


def _ended(job: JobRecord, remote: RemoteJob) -> JobRecord:
    return replace(
        job,
        state="ended",
        outcome=remote.outcome,
        result_files=" ".join(remote.result_files),
        reason=remote.reason if remote.outcome == "completed" else job.reason or remote.reason,
        next_at_ms=0,
    )


class Agenda(NamedTuple):
    due: tuple[JobRecord, ...]
    """Jobs to advance now."""
    unsent: tuple[JobRecord, ...]
    """Jobs that must not begin any more."""
    pause_s: float | None
    """Seconds until there is more to do; None when nothing is open."""


def plan(
    jobs: Sequence[JobRecord], *, now_ms: int, is_off: bool, capacity: int | None, concurrency: int
) -> Agenda:
    """`jobs`: those that are not closed, the oldest first. `capacity`: how many texts the vendor takes in
    all jobs together, if that is known.
    """
    prepared = [job for job in jobs if job.state == "prepared"]
    begun = [job for job in jobs if job.state != "prepared"]
    under_way = [job.items for job in begun if job.state != "read"]
    wanted = [job for job in prepared if not job.cancelling]
    unwanted = [job for job in prepared if job.cancelling]
    startable = _startable(wanted, under_way, capacity, concurrency)
    candidates = tuple(begun) if is_off else (*begun, *unwanted, *startable)
    due = tuple(job for job in candidates if job.next_at_ms <= now_ms)
    unsent = tuple(prepared) if is_off else ()
    return Agenda(due, unsent, 0.0 if due or unsent else _pause_s(candidates, now_ms))


def _startable(
    prepared: Sequence[JobRecord], under_way: Sequence[int], capacity: int | None, concurrency: int
) -> list[JobRecord]:
    """Returns as many of these jobs as may start beside those under way, whose numbers of texts are given."""
    started: list[JobRecord] = []
    for job in prepared:
        sizes = [*under_way, *(one.items for one in started)]
        is_too_much = capacity is not None and sizes and sum(sizes) + job.items > capacity
        if is_too_much or len(sizes) >= concurrency:
            break
        started.append(job)
    return started


def _pause_s(candidates: Sequence[JobRecord], now_ms: int) -> float | None:
    """Returns the seconds until the first of these is due; none of them is yet."""
    if not candidates:
        return None
    soonest_ms = min(job.next_at_ms for job in candidates)
    return min(max(_SHORTEST_PAUSE_S, (soonest_ms - now_ms) / 1000), _LONGEST_PAUSE_S)


class BatchJobs:
    """`run` must be running; `wake` after `claim` made jobs."""

    def __init__(
        self,
        store: Store,
        access: BatchAccess,
        settings: BatchSettings,
        *,
        priority: SearchPriority,
        on_stored: Callable[[], None],
        on_released: Callable[[], None],
    ) -> None:
        """`on_stored` is called whenever vectors were stored, `on_released` when a job has ended, so
        that its remaining texts can be embedded in the ordinary way.
        """
        self._store = store
        self._access = access
        self._settings = settings
        self._lease = LeaseHolder(store, "batch")
        self._verdicts = Verdicts(self._lease, access, settings)
        self._steps = Steps(
            store, self._lease, access, settings, self._verdicts, priority, on_stored
        )
        self._on_released = on_released
        self._disk = BoundedWork("records of batch jobs", READERS)
        self._wake = ResettableEvent()
        self._host: BatchHost | None = None
        self._host_is_refused = False
        self._opening = anyio.Lock()

    def wake(self) -> None:
        self._wake.set()

    def takes(self, fingerprint: Fingerprint) -> bool:
        """Returns whether a backlog of this provider may go into jobs at present. Blocking."""
        if fingerprint != self._access.fingerprint:
            return False
        with self._store.view() as view:
            return not switch_of(view, fingerprint.digest()).is_off(now_ms())

    def claim(self, lease: LeaseHolder, fingerprint: Fingerprint) -> None:
        """Puts the whole backlog into jobs, if it is large. Blocking."""
        with lease.writer() as writer:
            made = claim_backlog(writer, fingerprint, self._access.limits)
        _log.info("batch jobs", made=made, place=self._access.place)

    async def run(self) -> None:
        """Works until cancelled."""
        try:
            while True:
                self._wake.clear()
                try:
                    async with self._lease.hold():
                        pause_s = await self._round()
                    if pause_s is None and self._store.is_shared:
                        pause_s = LOOK_S  # others may have left some
                except IndexUnavailableError as error:
                    _log.warning("batch jobs paused", error=str(error))
                    pause_s = _RETRY_S
                with anyio.move_on_after(pause_s):
                    await self._wake.wait()
        finally:
            with anyio.move_on_after(_CLOSING_S, shield=True):
                await self._close_host()

    async def _round(self) -> float | None:
        """Advances what is due; returns the seconds until more is, None when nothing is open."""
        if self._host_is_refused:
            await self._close_host()
        agenda = await self._disk.run_out(self._agenda)
        for job in agenda.unsent:
            await self._disk.run_out(self._verdicts.drop_unsent, job)
        async with anyio.create_task_group() as tasks:
            for job in agenda.due:
                tasks.start_soon(self._attend, job)
        if agenda.unsent:
            self._on_released()
        return agenda.pause_s

    def _agenda(self) -> Agenda:
        """Plans from one state of the index: a later request to cancel is not part of it, and is not lost."""
        digest = self._access.fingerprint.digest()
        with self._store.view() as view:
            return plan(
                view.jobs.open(digest),
                now_ms=now_ms(),
                is_off=switch_of(view, digest).is_off(now_ms()),
                capacity=capacity_of(view, digest),
                concurrency=self._settings.concurrency,
            )

    async def _attend(self, job: JobRecord) -> None:
        try:
            await self._advance(job)
        except IndexUnavailableError as error:
            _log.warning("batch job paused", label=job.label, error=str(error))
            await anyio.sleep(_RETRY_S)
        except Exception:  # noqa: BLE001 - an internal fault; it must not end the process that answers
            _log.exception("batch job paused", label=job.label)
            await anyio.sleep(_FAULT_PAUSE_S)

    async def _advance(self, job: JobRecord) -> None:
        stumbled: ProviderError | None = None
        try:
            with anyio.fail_after(_LONGEST_STEP_S):
                await self._steps.advance(job, await self._opened())
        except TimeoutError:
            place = self._access.place
            stumbled = ProviderTimeoutError(f"{place} took too long for a step of a batch job.")
        except ProviderError as error:
            self._host_is_refused |= isinstance(error, ProviderAuthError)
            stumbled = error
        except IndexUnavailableError:
            raise
        except Exception as fault:  # noqa: BLE001 - an internal fault; a job must not try the same for ever
            _log.exception("batch job", label=job.label)
            name = type(fault).__name__
            stumbled = ProviderTransientError(f"Internal fault ({name}); see the log.")
        if stumbled is not None:
            await self._disk.run_out(self._verdicts.stumbled, job, stumbled)
        if job.state in ("prepared", "uploaded", "submitted", "ended"):
            await self._notify_if_released(job)

    async def _notify_if_released(self, job: JobRecord) -> None:
        def is_released() -> bool:
            with self._store.view() as view:
                return not view.jobs.waiting_hashes(job)

        if await self._disk.run_out(is_released):
            self._on_released()

    async def _opened(self) -> BatchHost:
        async with self._opening:
            if self._host is None:
                self._host = await self._disk.run_out(self._access.open)
            return self._host

    async def _close_host(self) -> None:
        host, self._host = self._host, None
        self._host_is_refused = False
        if host is not None:
            await host.aclose()

    def report(self, view: View) -> BatchReport:
        """Returns the part for `status`."""
        now, digest = now_ms(), self._access.fingerprint.digest()
        state = switch_of(view, digest)
        return BatchReport(
            enabled=not state.is_off(now),
            reason=state.reason,
            threshold=THRESHOLD,
            failures=state.failures,
            off_for_s=(state.off_until_ms - now) // 1000 if state.is_off(now) else None,
            capacity=capacity_of(view, digest),
            waiting=view.jobs.waiting(digest),
            jobs=job_reports(view),
        )


def not_used(reason: str) -> BatchReport:
    return BatchReport(enabled=False, reason=reason, threshold=THRESHOLD)


def job_reports(view: View) -> tuple[JobReport, ...]:
    """Returns all jobs that are stored, the newest first."""
    now = now_ms()
    return tuple(_job_report(job, now) for job in view.jobs.recent())


def _job_report(job: JobRecord, now: int) -> JobReport:
    is_polled = job.state == "submitted"
    return JobReport(
        id=job.id,
        state=job.state,
        remote_state=job.remote_state,
        outcome=job.outcome,
        items=job.items,
        done=max(job.remote_done, job.stored),
        stored=job.stored,
        refused=job.refused,
        age_s=(now - job.created_at_ms) // 1000,
        next_poll_s=max(0, job.next_at_ms - now) / 1000 if is_polled else None,
        reason=job.reason,
    )


def list_jobs(settings: Settings) -> tuple[JobReport, ...]:
    """Returns all jobs that are stored, the newest first. Blocking. Raises IndexUnavailableError."""
    with if_there(settings) as store:
        if store is None:
            return ()
        with store.view() as view:
            return job_reports(view)


def cancel_job(settings: Settings, job_id: int) -> bool:
    """Asks for a job to be cancelled; returns whether it is under way. Blocking. Raises IndexUnavailableError."""
    with if_there(settings) as store:
        if store is None:
            return False
        with store.writer() as writer:
            return writer.jobs.ask_to_cancel(job_id)
