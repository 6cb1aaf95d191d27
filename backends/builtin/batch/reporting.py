"""What `status` says about batch jobs: whether they are used, each job, how far it is."""

from __future__ import annotations

from backends.builtin.batch import claiming, records
from backends.builtin.batch.claiming import THRESHOLD
from backends.builtin.store.port import JobRecord, View, now_ms
from backends.interface import BatchReport, JobReport
from providers.batch.hosts import BatchAccess


def not_used(reason: str) -> BatchReport:
    return BatchReport(enabled=False, reason=reason, threshold=THRESHOLD)


def report(view: View, access: BatchAccess) -> BatchReport:
    now, digest = now_ms(), access.fingerprint.digest()
    state = records.load(view, digest)
    return BatchReport(
        enabled=not state.is_off(now),
        reason=state.reason,
        threshold=THRESHOLD,
        failures=state.failures,
        off_for_s=(state.off_until_ms - now) // 1000 if state.is_off(now) else None,
        capacity=claiming.capacity(view, digest),
        waiting=view.jobs.waiting(digest),
        jobs=jobs(view),
    )


def jobs(view: View) -> tuple[JobReport, ...]:
    """All that are remembered, the newest first."""
    now = now_ms()
    return tuple(_job(job, now) for job in view.jobs.recent())


def _job(job: JobRecord, now: int) -> JobReport:
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
