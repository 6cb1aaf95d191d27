"""The counts of a sync agree with each other at every moment."""

from __future__ import annotations

import pytest

from backends.builtin.syncing.freshness import Tally
from backends.builtin.syncing.planning import Change, FileOutcome, ObsoleteFile, SyncPlan
from backends.builtin.syncing.sessions import SessionPlan, TranscriptPart
from backends.builtin.syncing.surveying import Survey
from backends.files.roots import MemoryRoots
from backends.files.scan import FailedDirectory, FoundFile, ScanResult
from backends.interface import SkippedFile, SyncProgress, SyncRequest

NEW, EDITED, DOUBTFUL, GONE = (
    "memory/new.md",
    "memory/edited.md",
    "memory/doubtful.md",
    "memory/gone.md",
)
BLOCKED = SkippedFile(path=EDITED, reason="Permission denied")
LINK = SkippedFile(path="memory/link.md", reason="symbolic link")


def found(path: str) -> FoundFile:
    return FoundFile(path, 2, 100, 1, 1, 1)


@pytest.fixture
def tally(tmp_path):
    files = tuple(map(found, (NEW, EDITED, DOUBTFUL)))
    scan = ScanResult(
        roots=MemoryRoots(tmp_path), files=(*files, found("memory/same.md")), skipped=(LINK,),
        skipped_count=1, failed_dirs=(FailedDirectory("memory/sub", "no permission"),), missing=(),
    )  # fmt: skip
    plan = SyncPlan(
        to_read=files, to_remove=(ObsoleteFile(GONE, 1),), added=frozenset({NEW}),
        doubtful=frozenset({DOUBTFUL}), unchanged=1,
    )  # fmt: skip
    tally = Tally()
    tally.begin(Survey(scan, plan, SessionPlan(), plan))
    return tally


def work_off(tally: Tally, **changes: FileOutcome) -> None:
    for task in tally.tasks:
        name = task.path.removeprefix("memory/").removesuffix(".md")
        tally.add(task, changes.get(name, FileOutcome(Change.SAME, bytes_read=100)))


def test_before_its_survey_a_sync_has_done_nothing():
    report = Tally().report(SyncRequest(), 0.5, "The disk is gone.")
    assert (report.scanned, report.duration_ms, report.complete) == (0, 500.0, False)
    assert report.error == "The disk is gone."


def test_removals_come_first_and_what_is_doubtful_is_not_pending(tally):
    assert [task.path for task in tally.tasks] == [GONE, NEW, EDITED, DOUBTFUL]
    assert tally.pending == {GONE, NEW, EDITED}


def test_every_outcome_is_counted_where_it_belongs(tally):
    work_off(
        tally,
        gone=FileOutcome(Change.GONE),
        new=FileOutcome(Change.WRITTEN, 3, 100),
        edited=FileOutcome(Change.WRITTEN, 2, 100),
    )
    report = tally.report(SyncRequest(reason="boot"), 0.0, None)
    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 1, 2)
    assert (report.chunks_written, report.bytes_read, report.scanned) == (5, 300, 4)
    assert report.complete
    assert tally.pending == set()
    assert tally.progress() == SyncProgress(
        done=4, total=4, path=DOUBTFUL, bytes_done=300, bytes_total=300
    )


def test_a_file_that_was_changing_makes_the_sync_incomplete_and_is_no_error(tally):
    work_off(tally, new=FileOutcome(Change.LATER))
    report = tally.report(SyncRequest(), 0.0, None)
    assert tally.later == 1
    assert not report.complete
    assert report.error is None


def test_what_could_not_be_read_is_named_beside_what_is_skipped_by_rule(tally):
    work_off(
        tally,
        edited=FileOutcome(Change.SKIPPED, skipped=BLOCKED),
        gone=FileOutcome(Change.GONE),
    )
    report = tally.report(SyncRequest(), 0.0, None)
    assert [skipped.path for skipped in report.skipped] == [LINK.path, "memory/sub", EDITED]
    assert report.scanned == report.added + report.changed + report.unchanged == 3
    assert tally.unreadable == [BLOCKED]
    assert report.complete


def test_what_could_not_be_read_this_time_is_told_apart_from_what_stays_unreadable(tally):
    assert (tally.unread_files, tally.unread, tally.unlisted) == (0, [], 1)
    work_off(
        tally,
        edited=FileOutcome.unreadable(EDITED, "Permission denied", may_pass=False),
        new=FileOutcome.unreadable(NEW, "Too many open files.", may_pass=True),
    )
    assert [skipped.path for skipped in tally.unreadable] == [NEW, EDITED]
    assert (tally.unread_files, tally.unread) == (1, ["Too many open files"])


def test_a_new_file_that_vanished_was_not_removed_from_anything(tally):
    work_off(tally, new=FileOutcome(Change.GONE), gone=FileOutcome(Change.GONE))
    assert tally.report(SyncRequest(), 0.0, None).removed == 1


def test_a_transcript_counts_once_however_many_steps_it_takes(tmp_path):
    scan = ScanResult(
        roots=MemoryRoots(tmp_path), files=(), skipped=(), skipped_count=0, failed_dirs=(), missing=()
    )  # fmt: skip
    nothing = SyncPlan(
        to_read=(), to_remove=(), added=frozenset(), doubtful=frozenset(), unchanged=0
    )
    paths = ("sessions/new.jsonl", "sessions/grown.jsonl", "sessions/touched.jsonl")
    parts = tuple(
        TranscriptPart(path, until, 50, is_last=until == 100) for path in paths for until in (50, 100)
    )  # fmt: skip
    tally = Tally()
    sessions = SessionPlan(parts=parts, added=frozenset(paths[:1]))
    tally.begin(Survey(scan, nothing, sessions, nothing))
    assert tally.pending == set(paths)
    for part in parts:
        change = Change.SAME if "touched" in part.path else Change.WRITTEN
        assert part.path in tally.pending
        tally.add(part, FileOutcome(change, 2, 50))
        assert (part.path in tally.pending) is not part.is_last
    report = tally.report(SyncRequest(), 0.5, None)
    assert (report.added, report.changed, report.unchanged) == (1, 1, 1)
    assert (report.chunks_written, report.bytes_read) == (12, 300)
    assert tally.progress().bytes_total == 300


def test_a_transcript_of_which_more_is_left_stays_pending(tally):
    part = TranscriptPart("sessions/a.jsonl", 50, 50, is_last=True)
    tally.pending.add(part.path)
    tally.add(part, FileOutcome(Change.LATER))
    assert part.path in tally.pending
    assert not tally.report(SyncRequest(), 0.5, None).complete
