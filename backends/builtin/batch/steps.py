"""The life of one batch job: upload, submit, poll, read, delete; and what every failure means for it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import IO, Final, Protocol

import anyio
from msgspec.structs import replace

from backends.builtin.batch import claiming
from backends.builtin.batch.claiming import BatchSwitch
from backends.builtin.store.port import BY_REQUEST, READERS, JobRecord, Store, View, Writer, now_ms
from config.runtime.logs import Log
from config.runtime.priority import SearchPriority
from config.runtime.tasks import BoundedWork
from config.settings import BatchSettings
from providers.batch.hosts import BatchHost, RemoteJob, Result
from providers.batch.vendor_jobs import BatchAccess
from providers.provider_errors import (
    ProviderError,
    ProviderInputTooLargeError,
    ProviderRateLimitError,
    ProviderTransientError,
)
from providers.provider_interface import ItemError, Vector

_log = Log()

_MOST_ATTEMPTS: Final = 5
_KEPT_CLOSED: Final = 20
_LONGEST_PAUSE_MS: Final = 60_000
_GRACE_MS: Final = 3_600_000
"""Beyond the vendor's own window, or its time to cancel a job."""
_UNKNOWN: Final = frozenset({404, 405, 410})


class Writes(Protocol):
    """What gives writers: the lease of this work, or a store that is not shared."""

    def writer(self) -> AbstractContextManager[Writer]: ...


class Verdicts:
    """All methods are blocking: they write to the store."""

    def __init__(self, writes: Writes, access: BatchAccess, settings: BatchSettings) -> None:
        self._writes = writes
        self._access = access
        self._settings = settings

    def stumbled(self, job: JobRecord, error: ProviderError) -> None:
        """A step of the job failed."""
        _log.warning("batch job", label=job.label, state=job.state, error=error.message)
        if job.state in ("prepared", "uploaded") and error.status in _UNKNOWN:
            self._give_up(job, error.message, off_for_ms=claiming.UNAVAILABLE_MS)
        elif self._is_hopeless(job, error):
            if job.state in ("prepared", "uploaded") and _speaks_of_size(error):
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
        """The vendor takes less at once: its texts go into smaller jobs, or are given up as a failure."""
        with self._writes.writer() as writer:
            is_wanted = writer.jobs.wish_to_cancel(job) is None
            is_divided = is_wanted and claiming.divide(writer, job, reason)
        if not is_divided:
            self._give_up(job, reason)

    def _is_hopeless(self, job: JobRecord, error: ProviderError) -> bool:
        if job.state == "submitted":  # it is being worked on, and paid for, whatever we hear
            return error.status in _UNKNOWN or self._is_too_old(job)
        lasting = error.final or not error.retryable
        return lasting or job.attempts + 1 >= _MOST_ATTEMPTS

    def _pause_ms(self, attempts: int, error: ProviderError) -> int:
        backoff = min(self._settings.poll_interval_ms << attempts, _LONGEST_PAUSE_MS)
        return max(backoff, int((error.retry_after_s or 0) * 1000))

    def check_age(self, job: JobRecord) -> None:
        """A job that neither ends nor can be cancelled is not waited for."""
        if self._is_too_old(job):
            self._give_up(job, "It neither ended nor could it be cancelled.")

    def _is_too_old(self, job: JobRecord) -> bool:
        window_ms = self._access.limits.window_s * 1000
        if job.cancelling and self._settings.wait:
            window_ms = min(window_ms, self._settings.timeout_minutes * 60_000)
        return now_ms() - (job.submitted_at_ms or now_ms()) > window_ms + _GRACE_MS

    def end(self, job: JobRecord) -> None:
        """All that the job gave is stored: its other texts wait no longer."""
        with self._writes.writer() as writer:
            job = _as_wished(writer, job)
            state = claiming.switch_of(writer, job.digest)
            claiming.save_switch(writer, _judged(job, state))
            writer.jobs.release(job)
            writer.jobs.save(replace(job, state="read", attempts=0, next_at_ms=0))

    def end_early(self, job: JobRecord) -> None:
        """It was to be cancelled before the vendor began with it."""
        self.end(replace(job, outcome="cancelled"))

    def _give_up(self, job: JobRecord, reason: str, *, off_for_ms: int = 0) -> None:
        self.end(replace(job, outcome="failed", reason=reason))
        if off_for_ms:
            with self._writes.writer() as writer:
                state = claiming.switch_of(writer, job.digest)
                claiming.save_switch(writer, state.switched_off(reason, now_ms(), off_for_ms))

    def drop_unsent(self, job: JobRecord) -> None:
        """Batch was switched off before anything of this job left."""
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


def _speaks_of_size(error: ProviderError) -> bool:
    """Gemini says no more than that there were too many requests, however often one waits."""
    return isinstance(error, ProviderInputTooLargeError | ProviderRateLimitError)


def _as_wished(view: View, job: JobRecord) -> JobRecord:
    """Where a person wished the job to end, it is no failure that it did; unless it was done by then."""
    if view.jobs.wish_to_cancel(job) != BY_REQUEST:
        return job
    if job.outcome == "completed":
        return replace(job, cancelling=True, reason=None)
    return replace(job, cancelling=True, outcome="cancelled", reason=BY_REQUEST)


def _judged(job: JobRecord, state: BatchSwitch) -> BatchSwitch:
    """What the end of a job says about batch jobs as such."""
    if job.outcome == "completed" and 2 * job.refused <= job.items:
        return state.succeeded()
    if job.outcome == "cancelled" and job.reason in (None, BY_REQUEST):  # None: at the vendor's
        return state.switched_off(BY_REQUEST, now_ms())
    reason = job.reason or f"{job.refused} of {job.items} texts got no vector."
    return state.failed(f"A batch job ended as {job.outcome}: {reason}", now_ms())


_MISSING: Final = "The batch job's results hold nothing about this text."
_TOO_LARGE: Final = "The vendor takes fewer texts at once."
_LONGEST_POLL_MS: Final = 60_000
_POLLS_OF_AN_AGE: Final = 20
"""A job is asked after when it has grown older by this part of its age."""


class LinesError(ProviderTransientError):
    """The texts could not be written down for the vendor."""


class Steps:
    def __init__(
        self,
        store: Store,
        writes: Writes,
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
            await self._disk.run_out(partial(self._verdicts.end_early, job))
            return
        name = f"memory-gateway-{job.label}.jsonl"
        # Also the first thing that is asked of a host: one without batch jobs says so here.
        uploaded = await host.find_upload(name)
        if uploaded is None:
            with await self._disk.run_out(partial(self._lines, job, host)) as file:
                if not os.fstat(file.fileno()).st_size:
                    # All of its texts have left the notes.
                    await self._save(replace(job, state="read", outcome="cancelled"))
                    return
                uploaded = await host.upload(name, file)
        await self._save(replace(job, state="uploaded", input_file=uploaded, attempts=0))

    def _lines(self, job: JobRecord, host: BatchHost) -> IO[bytes]:
        """A temporary file with one for each text, to be closed by the caller. Raises `LinesError`."""
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
                await self._disk.run_out(partial(self._verdicts.end_early, job))
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
            await self._disk.run_out(
                partial(self._verdicts.too_large, job, remote.reason or _TOO_LARGE)
            )
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
        await self._disk.run_out(partial(self._verdicts.check_age, job))

    def _pause_ms(self, age_ms: int) -> int:
        least = self._settings.poll_interval_ms
        return max(least, min(age_ms // _POLLS_OF_AN_AGE, _LONGEST_POLL_MS))

    async def _read(self, job: JobRecord, host: BatchHost) -> None:
        intake = await self._disk.run_out(partial(self._intake, job))

        async def on_results(results: Sequence[Result]) -> None:
            take_in = partial(self._take_in, intake, results)
            with anyio.CancelScope(shield=True):
                await self._disk.run_out(self._priority.polite("results", take_in))
            self._on_stored()

        for file_id in job.result_files.split():
            await host.read(file_id, on_results)
        await self._disk.run_out(partial(self._finish, intake))

    def _intake(self, job: JobRecord) -> _Intake:
        with self._store.view() as view:
            return _Intake(job, view.jobs.waiting_hashes(job))

    def _take_in(self, intake: _Intake, results: Sequence[Result]) -> None:
        """One slice of results, and that nobody waits for them any longer, in one transaction."""
        items = intake.fresh(results)
        failures = [(key, item.message) for key, item in items if isinstance(item, ItemError)]
        vectors = [(key, item) for key, item in items if not isinstance(item, ItemError)]
        job = replace(
            intake.job,
            stored=intake.job.stored + len(vectors),
            refused=intake.job.refused + len(failures),
        )
        with self._writes.writer() as writer:
            if vectors:
                writer.embeddings.put(self._access.fingerprint, vectors)
            writer.embeddings.record_failures(self._access.fingerprint, failures)
            writer.jobs.release(job, [key for key, _ in items])
            writer.jobs.save(job)
        intake.taken(job, [key for key, _ in items])

    def _finish(self, intake: _Intake) -> None:
        """What the results say nothing about is embedded in the ordinary way."""
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
        await self._disk.run_out(partial(self._verdicts.close, job))

    async def _save(self, job: JobRecord) -> None:
        def save() -> None:
            with self._writes.writer() as writer:
                writer.jobs.save(job)

        with anyio.CancelScope(shield=True):  # what was reached with the vendor must be known
            await self._disk.run_out(save)


class _Intake:
    """The reading of one job's results: which texts still wait, and the counts so far."""

    def __init__(self, job: JobRecord, waiting: set[bytes]) -> None:
        self.job = job
        self.waiting = waiting

    def fresh(self, results: Sequence[Result]) -> list[tuple[bytes, Vector | ItemError]]:
        """Results of texts that wait for them: not of unknown ids, and each text once."""
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
    """What else was written down as a reason is over when the vendor answers."""
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
