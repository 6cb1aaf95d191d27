"""When the index is brought up to date without anybody waiting for it.

Owns the queue of reasons and the one task that works it off: what is asked for while a sync runs is
followed up by another, so nothing is swallowed. A failing sync is tried again with growing pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import anyio
import structlog

from backends.interface import MemoryBackend, SyncReport, SyncRequest
from config.errors import MemoryGatewayError

_log = structlog.get_logger(__name__)

FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 300.0
_MINUTE_S: Final = 60
_LONGEST_SLEEP_S: Final = 7 * 24 * 3600
"""Timers overflow somewhere; a week is often enough for any interval."""


def retry_pause_s(failures: int) -> float:
    """The pause after so many failures in a row: each one twice the last, up to a limit."""
    return min(FIRST_RETRY_S * 2.0 ** min(failures - 1, 30), LAST_RETRY_S)


class SyncScheduler:
    """Runs background syncs of one backend, one at a time."""

    def __init__(
        self,
        backend: MemoryBackend,
        *,
        interval_minutes: float,
        pause_s: Callable[[int], float] = retry_pause_s,
    ) -> None:
        self._backend = backend
        self._pause_s = pause_s
        self._interval_s = interval_minutes * _MINUTE_S
        self._reasons: dict[str, None] = {}
        self._wake = anyio.Event()
        self.last_error: str | None = None
        """Why the last background sync failed; None after a success."""

    def request(self, reason: str) -> None:
        """Asks for a sync soon. Never waits; several requests become one sync."""
        self._reasons[reason] = None
        self._wake.set()

    async def run(self) -> None:
        """Works until cancelled."""
        failures = 0
        while True:
            await self._next_reason()
            reasons = tuple(self._reasons)
            self._reasons.clear()
            self._wake = anyio.Event()
            if await self._sync(", ".join(reasons)):
                failures = 0
                continue
            failures += 1
            with anyio.move_on_after(self._pause_s(failures)):
                await self._wake.wait()
            for reason in reasons:
                self.request(reason)

    async def _next_reason(self) -> None:
        if not self._interval_s:
            await self._wake.wait()
            return
        due = time.monotonic() + self._interval_s
        while (left := due - time.monotonic()) > 0:
            with anyio.move_on_after(min(left, _LONGEST_SLEEP_S)):
                await self._wake.wait()
                return
        self._reasons["interval"] = None

    async def _sync(self, reason: str) -> bool:
        try:
            report = await self._backend.sync(SyncRequest(reason=reason))
        except MemoryGatewayError as error:
            self.last_error = str(error)
            _log.warning("sync failed", reason=reason, error=str(error), kind=error.kind)
            return False
        except Exception as fault:  # noqa: BLE001 - ours; it must not end the process that answers
            self.last_error = f"internal fault ({type(fault).__name__}); see the log"
            _log.exception("sync failed", reason=reason)
            return False
        self.last_error = None
        _log_report(report)
        return report.complete


def _log_report(report: SyncReport) -> None:
    changed = report.added + report.changed + report.removed
    log = _log.info if changed or report.skipped else _log.debug
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
