"""The batch jobs of one index: made of large backlogs, looked after until they are closed, cancelled by a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import anyio

from backends.backend_errors import IndexUnavailableError
from backends.builtin.batch import claiming
from backends.builtin.batch.claiming import THRESHOLD
from backends.builtin.batch.steps import Steps, Verdicts
from backends.builtin.store.leasing import LOOK_S, LeaseHolder
from backends.builtin.store.opening import if_there
from backends.builtin.store.port import READERS, JobRecord, Store, View, Writer, now_ms
from backends.interface import BatchReport, JobReport
from config.runtime.logs import Log
from config.runtime.priority import SearchPriority
from config.runtime.tasks import BoundedWork, ResettableEvent
from config.settings import BatchSettings, Settings
from providers.batch.hosts import BatchHost
from providers.batch.vendor_jobs import BatchAccess, find_batch
from providers.choosing import Choice
from providers.provider_errors import (
    ProviderAuthError,
    ProviderError,
    ProviderTimeoutError,
    ProviderTransientError,
)
from providers.provider_interface import Fingerprint

_SHORTEST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 60.0
"""A wish to cancel a job, written down by another process, wakes nobody."""
_log = Log()


class Agenda(NamedTuple):
    due: tuple[JobRecord, ...]
    """To advance now."""
    unsent: tuple[JobRecord, ...]
    """Not to be begun any more."""
    pause_s: float | None
    """Seconds until there is more to do; None when nothing is open."""


def plan(
    jobs: Sequence[JobRecord],
    *,
    now_ms: int,
    is_off: bool,
    capacity: int | None,
    concurrency: int,
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
    """As many of these as may go on beside those under way, whose numbers of texts are given."""
    started: list[JobRecord] = []
    for job in prepared:
        sizes = [*under_way, *(one.items for one in started)]
        is_too_much = capacity is not None and sizes and sum(sizes) + job.items > capacity
        if is_too_much or len(sizes) >= concurrency:
            break
        started.append(job)
    return started


def _pause_s(candidates: Sequence[JobRecord], now_ms: int) -> float | None:
    """None of these is due."""
    if not candidates:
        return None
    soonest_ms = min(job.next_at_ms for job in candidates)
    return min(max(_SHORTEST_PAUSE_S, (soonest_ms - now_ms) / 1000), _LONGEST_PAUSE_S)


_LONGEST_STEP_S: Final = 3600.0
"""For an upload or a download of some hundred megabytes on a slow line."""
_RETRY_S: Final = 1.0
"""After the database could not be used."""
_FAULT_PAUSE_S: Final = 60.0
_CLOSING_S: Final = 1.0


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
        """Whether a backlog of this provider may go into jobs at present. Blocking."""
        if fingerprint != self._access.fingerprint:
            return False
        with self._store.view() as view:
            return not claiming.switch_of(view, fingerprint.digest()).is_off(now_ms())

    def claim(self, writer: Writer, fingerprint: Fingerprint) -> None:
        """Puts the whole backlog into jobs, if it is large. Blocking."""
        made = claiming.claim(writer, fingerprint, self._access.limits)
        _log.info("batch jobs", made=made, place=self._access.place)

    def is_waited_for(self, view: View, fingerprint: Fingerprint) -> bool:
        """Whether vectors of this provider are still to come from jobs."""
        return view.jobs.waiting(fingerprint.digest()) > 0

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
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_S):
                await self._close_host()

    async def _round(self) -> float | None:
        """Advances what is due; returns the seconds until more is, None when nothing is open."""
        if self._host_is_refused:
            await self._close_host()
        agenda = await self._disk.run_out(self._agenda)
        for job in agenda.unsent:
            await self._disk.run_out(partial(self._verdicts.drop_unsent, job))
        async with anyio.create_task_group() as tasks:
            for job in agenda.due:
                tasks.start_soon(self._attend, job)
        if agenda.unsent:
            self._on_released()
        return agenda.pause_s

    def _agenda(self) -> Agenda:
        """From one state of the index: a wish that comes later is no part of it, and is not lost."""
        digest = self._access.fingerprint.digest()
        with self._store.view() as view:
            return plan(
                view.jobs.open(digest),
                now_ms=now_ms(),
                is_off=claiming.switch_of(view, digest).is_off(now_ms()),
                capacity=claiming.capacity(view, digest),
                concurrency=self._settings.concurrency,
            )

    async def _attend(self, job: JobRecord) -> None:
        try:
            await self._advance(job)
        except IndexUnavailableError as error:
            _log.warning("batch job paused", label=job.label, error=str(error))
            await anyio.sleep(_RETRY_S)
        except Exception:  # noqa: BLE001 - ours; it must not end the process that answers
            _log.exception("batch job paused", label=job.label)
            await anyio.sleep(_FAULT_PAUSE_S)

    async def _advance(self, job: JobRecord) -> None:
        try:
            with anyio.fail_after(_LONGEST_STEP_S):
                await self._steps.advance(job, await self._opened())
        except TimeoutError:
            message = f"{self._access.place} took too long for a step of a batch job."
            await self._disk.run_out(
                partial(self._verdicts.stumbled, job, ProviderTimeoutError(message))
            )
        except ProviderError as error:
            self._host_is_refused |= isinstance(error, ProviderAuthError)
            await self._disk.run_out(partial(self._verdicts.stumbled, job, error))
        except IndexUnavailableError:
            raise
        except Exception as fault:  # noqa: BLE001 - ours; a job must not try the same for ever
            _log.exception("batch job", label=job.label)
            message = f"Internal fault ({type(fault).__name__}); see the log."
            await self._disk.run_out(
                partial(self._verdicts.stumbled, job, ProviderTransientError(message))
            )
        if job.state in ("prepared", "uploaded", "submitted", "ended"):
            await self._tell_if_released(job)

    async def _tell_if_released(self, job: JobRecord) -> None:
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
        """For `status`."""
        now, digest = now_ms(), self._access.fingerprint.digest()
        state = claiming.switch_of(view, digest)
        return BatchReport(
            enabled=not state.is_off(now),
            reason=state.reason,
            threshold=THRESHOLD,
            failures=state.failures,
            off_for_s=(state.off_until_ms - now) // 1000 if state.is_off(now) else None,
            capacity=claiming.capacity(view, digest),
            waiting=view.jobs.waiting(digest),
            jobs=job_reports(view),
        )


def not_used(reason: str) -> BatchReport:
    return BatchReport(enabled=False, reason=reason, threshold=THRESHOLD)


def job_reports(view: View) -> tuple[JobReport, ...]:
    """All that are remembered, the newest first."""
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


def open_jobs(
    settings: Settings,
    store: Store,
    choice: Choice,
    *,
    priority: SearchPriority,
    on_stored: Callable[[], None],
    on_released: Callable[[], None],
) -> BatchJobs | str:
    """Or the reason why there are none. Blocking: reads the auth profiles."""
    access = find_batch(settings, choice)
    if isinstance(access, str):
        return access
    return BatchJobs(
        store,
        access,
        settings.search.remote.batch,
        priority=priority,
        on_stored=on_stored,
        on_released=on_released,
    )


def list_jobs(settings: Settings) -> tuple[JobReport, ...]:
    """All jobs that are remembered, the newest first. Blocking. Raises IndexUnavailableError."""
    with if_there(settings) as store:
        if store is None:
            return ()
        with store.view() as view:
            return job_reports(view)


def cancel_job(settings: Settings, job_id: int) -> bool:
    """Whether there is such a job under way. Blocking. Raises IndexUnavailableError."""
    with if_there(settings) as store:
        if store is None:
            return False
        with store.writer() as writer:
            return writer.jobs.ask_to_cancel(job_id)
