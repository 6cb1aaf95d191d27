"""Bringing the index up to date in the background: no request during a sync is lost, and failures are tried again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import msgspec

from backends.interface import MemoryBackend, SkippedFile, SyncReport, SyncRequest
from config.errors import MemoryGatewayError
from config.runtime.logs import Log
from config.runtime.tasks import Wakeup

MAX_REASONS: Final = 32
"""The most reasons at a time, since clients name them; further ones count as one."""
OTHER_REASONS: Final = "others"
_log = Log()
FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 60.0
"""A health check reports the failure until the next attempt."""
VERIFY_EVERY_S: Final = 600.0
"""The interval at which some files are read again although their stamps say that nothing changed."""
_MINUTE_S: Final = 60
_LONGEST_SLEEP_S: Final = 7 * 24 * 3600
"""Longer timers may overflow; a week is often enough for any interval."""


class DueSync(msgspec.Struct, frozen=True):
    """One sync that would do everything asked for so far."""

    generation: int
    request: SyncRequest


class Generations:
    """Requests by reason, in the order in which the reasons first came up."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}
        """The generation of the last request, by reason."""
        self._requested = self._forced = self._verifying = 0
        """The generations of the last request of all, of the last with force, and of the last that verifies."""
        self._settled = 0

    def ask(self, reason: str, *, force: bool = False, verify: bool = False) -> None:
        """Notes a request."""
        self._requested += 1
        if reason not in self._asked and len(self._asked) >= MAX_REASONS:
            reason = OTHER_REASONS
        self._asked[reason] = self._requested
        self._forced = self._requested if force else self._forced
        self._verifying = self._requested if verify else self._verifying

    def due(self) -> DueSync | None:
        """Returns the sync that is due; None when everything is settled."""
        if not self._asked:
            return None
        request = SyncRequest(
            reason=", ".join(self._asked),
            force=self._forced > self._settled,
            verify=self._verifying > self._settled,
        )
        return DueSync(self._requested, request)

    def settle(self, generation: int) -> None:
        """Notes that a sync that began with this generation is done, and with it all earlier requests."""
        self._settled = generation
        self._asked = {reason: last for reason, last in self._asked.items() if last > generation}


def retry_pause_s(failures: int) -> float:
    """Returns the pause after this many failures in a row: each is twice the last, up to a limit."""
    return min(FIRST_RETRY_S * 2.0 ** min(failures - 1, 30), LAST_RETRY_S)


ObserveSync = Callable[[Awaitable[SyncReport]], Awaitable[SyncReport]]
"""Waits for a sync and returns its report or raises its error."""


class SyncScheduler:
    """Runs background syncs of one backend, one at a time."""

    def __init__(
        self,
        backend: MemoryBackend,
        *,
        interval_minutes: float,
        verify_every_s: float = VERIFY_EVERY_S,
        pause_s: Callable[[int], float] = retry_pause_s,
        observe: ObserveSync = lambda sync: sync,
    ) -> None:
        self._backend = backend
        self._observe = observe
        self._pause_s = pause_s
        self._interval_s = min(interval_minutes * _MINUTE_S, _LONGEST_SLEEP_S)
        self._verify_every_s = verify_every_s
        self._generations = Generations()
        self._wakeup = Wakeup()
        self._skipped: tuple[SkippedFile, ...] = ()
        self.attempted = anyio.Event()
        """Set once the first sync has ended, however it ended."""
        self.last_error: str | None = None
        """The error of the last background sync; None after a success."""
        self.look_s = 0.0
        """The duration of the last sync that read no file: the cost of looking alone."""

    def request(self, reason: str, *, force: bool = False, verify: bool = False) -> None:
        """Asks for a sync soon. Never waits; several requests become one sync."""
        self._generations.ask(reason, force=force, verify=verify)
        self._wakeup.fire()

    def hand_over(self, successor: SyncScheduler) -> None:
        """Passes on the pending requests that a successor does not make by itself at its start."""
        due = self._generations.due()
        if due is not None and (due.request.force or due.request.verify):
            request = due.request
            successor.request(request.reason, force=request.force, verify=request.verify)

    async def run(self) -> None:
        """Works until cancelled."""
        async with anyio.create_task_group() as tasks:
            if self._interval_s:
                tasks.start_soon(self._ask_every, self._interval_s, "interval", False)
            tasks.start_soon(self._ask_every, self._verify_every_s, "verify", True)
            await self._work_off()

    async def _ask_every(self, seconds: float, reason: str, verify: bool) -> None:
        while True:
            await anyio.sleep(seconds)
            self.request(reason, verify=verify)

    async def _work_off(self) -> None:
        failures = 0
        while True:
            while (due := self._generations.due()) is None:
                await self._wakeup.wait()
            done = await self._sync(due.request)
            self.attempted.set()
            if done:
                self._generations.settle(due.generation)
                failures = 0
                continue
            failures += 1
            with anyio.move_on_after(self._pause_s(failures)):
                await self._wakeup.wait()

    async def _sync(self, request: SyncRequest) -> bool:
        """Runs a sync; returns whether everything that was asked for is done."""
        try:
            report = await self._observe(self._backend.sync(request))
        except MemoryGatewayError as error:
            self.last_error = str(error)
            _log.warning("sync failed", reason=request.reason, error=str(error), kind=error.kind)
            return False
        except Exception as fault:  # noqa: BLE001 - ours; it must not end the process that answers
            self.last_error = f"internal fault ({type(fault).__name__}); see the log"
            _log.exception("sync failed", reason=request.reason)
            return False
        self.last_error = None
        self._report(report)
        return report.complete

    def _report(self, report: SyncReport) -> None:
        """Logs at a visible level only what is new: polling goes on day and night."""
        changed = report.added + report.changed + report.removed
        if not (changed or report.bytes_read):
            self.look_s = report.duration_ms / 1000
        log = _log.info if changed or report.skipped != self._skipped else _log.debug
        self._skipped = report.skipped
        log(
            "synced",
            reason=report.reason,
            files=report.scanned,
            added=report.added,
            changed=report.changed,
            removed=report.removed,
            skipped=len(report.skipped),
            ms=report.duration_ms,
        )
