"""How jobs end, and what every setback means: try again later, give the job up, switch batch off.

Owns these decisions and their traces in the database. Whatever happens to a job, its texts never wait
in vain: they are released, and get their vectors by ordinary requests or by another job.
"""

from __future__ import annotations

from typing import Final

import apsw
import structlog
from msgspec.structs import replace

from backends.builtin.batch import dividing, records, switch
from backends.builtin.batch.records import BY_REQUEST, JobRecord
from backends.builtin.batch.switch import Switch
from backends.builtin.storage.database import Database
from backends.builtin.vectors.refusals import now_ms
from config.settings import BatchSettings
from providers.batch.interface import BatchAccess
from providers.errors import (
    ProviderError,
    ProviderInputTooLargeError,
    ProviderRateLimitError,
)

_log = structlog.get_logger(__name__)

_MOST_ATTEMPTS: Final = 5
_LONGEST_PAUSE_MS: Final = 60_000
_GRACE_MS: Final = 3_600_000
"""Beyond the vendor's own window, or its time to cancel a job."""
_UNKNOWN: Final = frozenset({404, 405, 410})


class Verdicts:
    """All methods are blocking: they write to the database."""

    def __init__(self, database: Database, access: BatchAccess, settings: BatchSettings) -> None:
        self._database = database
        self._access = access
        self._settings = settings

    def stumbled(self, job: JobRecord, error: ProviderError) -> None:
        """A step of the job failed."""
        _log.warning("batch job", label=job.label, state=job.state, error=error.message)
        if job.state in ("prepared", "uploaded") and error.status in _UNKNOWN:
            self._give_up(job, error.message, off_for_ms=switch.UNAVAILABLE_MS)
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
        with self._database.writing() as connection:
            is_wanted = records.wish_to_cancel(connection, job) is None
            is_divided = is_wanted and dividing.divide(connection, job, reason)
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
        with self._database.writing() as connection:
            job = _as_wished(connection, job)
            state = switch.load(connection, job.digest)
            switch.save(connection, _judged(job, state))
            records.release(connection, job)
            records.save(connection, replace(job, state="read", attempts=0, next_at_ms=0))

    def end_early(self, job: JobRecord) -> None:
        """It was to be cancelled before the vendor began with it."""
        self.end(replace(job, outcome="cancelled"))

    def _give_up(self, job: JobRecord, reason: str, *, off_for_ms: int = 0) -> None:
        self.end(replace(job, outcome="failed", reason=reason))
        if off_for_ms:
            with self._database.writing() as connection:
                state = switch.load(connection, job.digest)
                switch.save(connection, state.switched_off(reason, now_ms(), off_for_ms))

    def drop_unsent(self, job: JobRecord) -> None:
        """Batch was switched off before anything of this job left."""
        with self._database.writing() as connection:
            records.release(connection, job)
            records.save(connection, replace(job, state="closed", outcome="cancelled"))

    def close(self, job: JobRecord) -> None:
        with self._database.writing() as connection:
            records.release(connection, job)
            records.save(connection, replace(job, state="closed"))
            records.forget_old(connection)

    def _save(self, job: JobRecord) -> None:
        with self._database.writing() as connection:
            records.save(connection, job)


def _speaks_of_size(error: ProviderError) -> bool:
    """Gemini says no more than that there were too many requests, however often one waits."""
    return isinstance(error, ProviderInputTooLargeError | ProviderRateLimitError)


def _as_wished(connection: apsw.Connection, job: JobRecord) -> JobRecord:
    """Where a person wished the job to end, it is no failure that it did; unless it was done by then."""
    if records.wish_to_cancel(connection, job) != BY_REQUEST:
        return job
    if job.outcome == "completed":
        return replace(job, cancelling=True, reason=None)
    return replace(job, cancelling=True, outcome="cancelled", reason=BY_REQUEST)


def _judged(job: JobRecord, state: Switch) -> Switch:
    """What the end of a job says about batch jobs as such."""
    if job.outcome == "completed" and 2 * job.refused <= job.items:
        return state.succeeded()
    if job.outcome == "cancelled" and job.reason in (None, BY_REQUEST):  # None: at the vendor's
        return state.switched_off(BY_REQUEST, now_ms())
    reason = job.reason or f"{job.refused} of {job.items} texts got no vector."
    return state.failed(f"A batch job ended as {job.outcome}: {reason}", now_ms())
