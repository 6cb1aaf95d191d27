"""What `systemctl status` shows of a working service."""

from __future__ import annotations

import re

from backends.interface import SearchAnswer, SyncReport
from gateway.metrics import Metrics
from gateway.notify import describe
from gateway.tools.status import Health


def test_a_fresh_service_says_that_it_is_well():
    assert describe("main", Health("ok"), Metrics()) == "Agent main: ok. 0 searches."


def test_work_done_and_what_is_wrong_are_told_in_one_line():
    metrics = Metrics()
    metrics.searched(SearchAnswer(hits=(), outcome="empty", mode="keyword"), 0.01)
    metrics.synced(
        SyncReport(
            reason="boot", scanned=1200, added=1, changed=0, removed=0, unchanged=0, skipped=(),
            chunks_written=1, bytes_read=1, duration_ms=1, complete=True,
        )
    )  # fmt: skip
    line = describe("main", Health("degraded", ("No vectors: refused.", "x")), metrics)
    assert re.fullmatch(
        r"Agent main: degraded \(No vectors: refused\)\. "
        r"1,200 files at the last sync \(\d\d:\d\d, boot\), 1 search\.",
        line,
    )
