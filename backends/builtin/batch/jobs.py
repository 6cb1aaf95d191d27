"""The batch jobs of one index: made of large backlogs, looked after until they are closed.

Owns the one task that advances every job when it is due, as many at once as configured. What a step
does stands in `steps`, what a failure means in `setbacks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import apsw
import structlog
from anyio.to_thread import run_sync

from backends.builtin.batch import claiming, dividing, records, reporting, switch
from backends.builtin.batch.agenda import Agenda, plan
from backends.builtin.batch.records import JobRecord
from backends.builtin.batch.reporting import BatchReport
from backends.builtin.batch.setbacks import Verdicts
from backends.builtin.batch.steps import Steps
from backends.builtin.storage.database import Database
from backends.builtin.vectors.refusals import now_ms
from backends.errors import IndexUnavailableError
from config.settings import BatchSettings
from providers.batch.interface import BatchAccess, BatchHost
from providers.errors import (
    ProviderAuthError,
    ProviderError,
    ProviderTimeoutError,
    ProviderTransientError,
)
from providers.fingerprint import Fingerprint

_log = structlog.get_logger(__name__)

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
        database: Database,
        access: BatchAccess,
        settings: BatchSettings,
        *,
        on_stored: Callable[[], None],
        on_released: Callable[[], None],
    ) -> None:
        """`on_stored` is called whenever vectors were stored, `on_released` when a job has ended, so
        that its remaining texts can be embedded in the ordinary way.
        """
        self._database = database
        self._access = access
        self._settings = settings
        self._verdicts = Verdicts(database, access, settings)
        self._steps = Steps(database, access, settings, self._verdicts, on_stored)
        self._on_released = on_released
        self._wake = anyio.Event()
        self._host: BatchHost | None = None
        self._host_is_refused = False
        self._opening = anyio.Lock()

    def wake(self) -> None:
        self._wake.set()

    def takes(self, fingerprint: Fingerprint) -> bool:
        """Whether a backlog of this provider may go into jobs at present. Blocking."""
        if fingerprint != self._access.fingerprint:
            return False
        with self._database.reading() as connection:
            return not switch.load(connection, fingerprint.digest()).is_off(now_ms())

    def claim(self, fingerprint: Fingerprint) -> None:
        """Puts the whole backlog into jobs, if it is large. Blocking."""
        with self._database.writing() as connection:
            made = claiming.claim(connection, fingerprint, self._access.limits)
        _log.info("batch jobs", made=made, place=self._access.place)

    def is_waited_for(self, connection: apsw.Connection, fingerprint: Fingerprint) -> bool:
        """Whether vectors of this provider are still to come from jobs."""
        return records.is_waiting(connection, fingerprint.digest())

    async def run(self) -> None:
        """Works until cancelled."""
        try:
            while True:
                self._wake = anyio.Event()
                try:
                    pause_s = await self._round()
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
        agenda = await run_sync(self._agenda)
        for job in agenda.unsent:
            await run_sync(self._verdicts.drop_unsent, job)
        async with anyio.create_task_group() as tasks:
            for job in agenda.due:
                tasks.start_soon(self._attend, job)
        if agenda.unsent:
            self._on_released()
        return agenda.pause_s

    def _agenda(self) -> Agenda:
        """From one state of the index: a wish that comes later is no part of it, and is not lost."""
        digest = self._access.fingerprint.digest()
        with self._database.reading() as connection:
            return plan(
                records.open_jobs(connection, digest),
                now_ms=now_ms(),
                is_off=switch.load(connection, digest).is_off(now_ms()),
                capacity=dividing.capacity(connection, digest),
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
            await run_sync(self._verdicts.stumbled, job, ProviderTimeoutError(message))
        except ProviderError as error:
            self._host_is_refused |= isinstance(error, ProviderAuthError)
            await run_sync(self._verdicts.stumbled, job, error)
        except IndexUnavailableError:
            raise
        except Exception as fault:  # noqa: BLE001 - ours; a job must not try the same for ever
            _log.exception("batch job", label=job.label)
            message = f"Internal fault ({type(fault).__name__}); see the log."
            await run_sync(self._verdicts.stumbled, job, ProviderTransientError(message))
        if job.state in ("prepared", "uploaded", "submitted", "ended"):
            await self._tell_if_released(job)

    async def _tell_if_released(self, job: JobRecord) -> None:
        def is_released() -> bool:
            with self._database.reading() as connection:
                return not records.waiting_hashes(connection, job)

        if await run_sync(is_released):
            self._on_released()

    async def _opened(self) -> BatchHost:
        async with self._opening:
            if self._host is None:
                self._host = await run_sync(self._access.open)
            return self._host

    async def _close_host(self) -> None:
        host, self._host = self._host, None
        self._host_is_refused = False
        if host is not None:
            await host.aclose()

    def report(self, connection: apsw.Connection) -> BatchReport:
        """For `status`."""
        return reporting.report(connection, self._access)
