"""Syncs that did nothing do not displace those that did something."""

import pytest

from backends.builtin.syncing.freshness import REMEMBERED, RecentSyncs
from backends.interface import SyncReport


@pytest.fixture
def report():
    def make(reason: str = "poll", *, changed: int = 0, complete: bool = True) -> SyncReport:
        return SyncReport(
            reason=reason, scanned=1, added=0, changed=changed, removed=0, unchanged=1, skipped=(),
            chunks_written=0, bytes_read=0, duration_ms=1.0, complete=complete,
        )  # fmt: skip

    return make


def test_of_uneventful_syncs_in_a_row_the_newest_is_kept(report):
    recent = RecentSyncs()
    reports = [report() for _ in range(5)]
    recent.add(report("boot"))
    for one in reports:
        recent.add(one)
    assert [one.reason for one in recent] == ["poll", "boot"]
    assert next(iter(recent)) is reports[-1]


def test_what_did_something_or_failed_is_kept(report):
    recent = RecentSyncs()
    for one in (report(), report(changed=1), report(), report(complete=False), report()):
        recent.add(one)
    assert len(list(recent)) == 5


def test_only_so_many_are_remembered(report):
    recent = RecentSyncs()
    for number in range(2 * REMEMBERED):
        recent.add(report(changed=number + 1))
    assert [one.changed for one in recent] == list(range(2 * REMEMBERED, REMEMBERED, -1))
