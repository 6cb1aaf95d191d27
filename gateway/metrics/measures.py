"""Everything that is counted while the gateway works.

Owns the names, labels and meanings. Labels only ever hold words of closed lists, so their number is
bounded whatever a client sends.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable

from backends.interface import SearchAnswer, SyncReport
from config.errors import MemoryGatewayError
from gateway.metrics.activity import Activity
from gateway.metrics.instruments import Counter, Family, Histogram

_LANES = {
    "keyword": ("keyword",),
    "vector": ("vector",),
    "hybrid": ("keyword", "vector"),
    "rerank": ("keyword", "vector", "rerank"),
}
"""Which ways of finding take part in a mode of searching."""


class Metrics:
    """Of one process, from its start."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.started_at = time.time()
        self.last_sync: SyncReport | None = None
        self.last_sync_at = self.started_at
        self._requests = Counter("requests", "Requests answered.", "method", "outcome")
        self._request_time = Histogram("request_seconds", "From accepted to answered.", "method")
        self._searches = Counter("searches", "Searches done.", "backend", "mode", "outcome")
        self._lanes = Counter("search_lanes", "Searches in which a lane took part.", "lane")
        self._weakened = Counter("searches_weakened", "Searches weaker than asked.", "cause")
        self._search_time = Histogram(
            "search_seconds", "Parts of a search, and all of it.", "stage"
        )
        self._syncs = Counter("syncs", "Syncs of index and disk.", "outcome")
        self._sync_time = Histogram("sync_seconds", "How long syncs took.")
        self._synced = Counter("synced_files", "Files that syncs found changed.", "change")

    def answered(self, method: str, outcome: str, seconds: float) -> None:
        """A request of the pipe; `outcome` is `ok` or the kind of its error."""
        self._requests.add(method, outcome)
        self._request_time.observe(seconds, method)

    async def observe_search(self, backend: str, search: Awaitable[SearchAnswer]) -> SearchAnswer:
        """The answer of the search, or its error, which is counted on the way."""
        started = time.perf_counter()
        try:
            answer = await search
        except MemoryGatewayError:
            self._searches.add(backend, "none", "failed")
            raise
        self.searched(answer, time.perf_counter() - started)
        return answer

    async def observe_sync(self, sync: Awaitable[SyncReport]) -> SyncReport:
        """The report of the sync, or its error, which is counted on the way."""
        try:
            report = await sync
        except MemoryGatewayError:
            self._syncs.add("failed")
            raise
        self.synced(report)
        return report

    def searched(self, answer: SearchAnswer, seconds: float) -> None:
        mode = answer.mode or "none"
        self._searches.add(answer.backend or "none", mode, answer.outcome)
        for lane in _LANES.get(mode, ()):
            self._lanes.add(lane)
        causes = {"warning": answer.warning, "stale": answer.stale, "fallback": answer.fallback}
        for cause, found in causes.items():
            if found is not None:
                self._weakened.add(cause)
        self._search_time.observe(seconds, "total")
        for stage, milliseconds in answer.timings_ms.items():
            self._search_time.observe(milliseconds / 1000, stage)

    def synced(self, report: SyncReport) -> None:
        self.last_sync, self.last_sync_at = report, time.time()
        self._syncs.add("complete" if report.complete and not report.error else "incomplete")
        self._sync_time.observe(report.duration_ms / 1000)
        changes = {"added": report.added, "changed": report.changed, "removed": report.removed}
        for change, files in changes.items():
            self._synced.add(change, amount=files)

    def activity(self) -> Activity:
        """A summary for people."""
        by_mode: dict[str, int] = {}
        for (_, mode, _), count in self._searches.values.items():
            by_mode[mode] = by_mode.get(mode, 0) + int(count)
        failed = sum(
            count for (_, outcome), count in self._requests.values.items() if outcome != "ok"
        )
        return Activity(
            uptime_s=round(time.monotonic() - self._started, 1),
            requests=self._requests.total(),
            failed_requests=int(failed),
            searches=by_mode,
            search_ms_median=_milliseconds(self._search_time.quantile(0.5, "total")),
            search_ms_p95=_milliseconds(self._search_time.quantile(0.95, "total")),
            syncs=self._syncs.total(),
        )

    def families(self) -> tuple[Family, ...]:
        instruments = (
            *(self._requests, self._request_time),
            *(self._searches, self._lanes, self._weakened, self._search_time),
            *(self._syncs, self._sync_time, self._synced),
        )
        return tuple(instrument.family() for instrument in instruments)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
