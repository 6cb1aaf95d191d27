"""The last syncs of an index, for `status`.

Owns which of them are worth remembering: polling must not push out the syncs that did something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from backends.interface import SyncReport

REMEMBERED: Final = 10


class RecentSyncs:
    """Newest first. Of uneventful syncs in a row with one reason only the newest is kept."""

    def __init__(self) -> None:
        self._reports: deque[SyncReport] = deque(maxlen=REMEMBERED)

    def __iter__(self) -> Iterator[SyncReport]:
        return iter(self._reports)

    def add(self, report: SyncReport) -> None:
        if self._reports and _is_repetition(self._reports[0], report):
            self._reports.popleft()
        self._reports.appendleft(report)


def _is_repetition(last: SyncReport, report: SyncReport) -> bool:
    return last.reason == report.reason and _is_uneventful(last) and _is_uneventful(report)


def _is_uneventful(report: SyncReport) -> bool:
    return report.complete and not (report.added or report.changed or report.removed)
