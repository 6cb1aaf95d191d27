"""The files that a sync reads and removes, decided by stamps; a doubtful file is read."""

from __future__ import annotations

import pytest

from backends.builtin.store.port import IndexedFile
from backends.builtin.syncing.planning import (
    COARSE_RACY_NS,
    RACY_NS,
    VERIFIED_BYTES,
    VERIFIED_FILES,
    ObsoleteFile,
    plan_sync,
)
from backends.files.roots import MemoryRoots
from backends.files.scan import FailedDirectory, FoundFile, ScanResult

STAMP = 1_770_000_000_123_456_789
LONG_AFTER = STAMP + 3600 * 10**9
PIPELINE = "chunking 1"


@pytest.fixture
def scanned(tmp_path):
    def scan(*files: FoundFile, failed: tuple[str, ...] = ()) -> ScanResult:
        return ScanResult(
            roots=MemoryRoots(tmp_path),
            files=files,
            skipped=(),
            skipped_count=0,
            failed_dirs=tuple(FailedDirectory(path, "no permission") for path in failed),
            missing=(),
        )

    return scan


def on_disk(path="memory/a.md", *, size=10, mtime_ns=STAMP, ctime_ns=STAMP, inode=7) -> FoundFile:
    return FoundFile(path, 2, size, mtime_ns, ctime_ns, inode)


def indexed(
    *, size=10, mtime_ns=STAMP, ctime_ns=STAMP, inode=7, pipeline=PIPELINE, read_at_ns=LONG_AFTER
) -> IndexedFile:
    return IndexedFile(size, mtime_ns, ctime_ns, inode, pipeline, read_at_ns)


def test_an_unchanged_file_is_not_read(scanned):
    plan = plan_sync(scanned(on_disk()), {"memory/a.md": indexed()}, pipeline=PIPELINE)
    assert plan.to_read == plan.to_remove == ()
    assert plan.unchanged == 1


def test_a_new_file_is_read_and_known_as_new(scanned):
    plan = plan_sync(scanned(on_disk()), {}, pipeline=PIPELINE)
    assert [found.path for found in plan.to_read] == ["memory/a.md"]
    assert plan.added == {"memory/a.md"}


@pytest.mark.parametrize(
    "difference",
    [
        {"size": 11},
        {"mtime_ns": STAMP - 1},
        {"ctime_ns": STAMP + 1},
        {"inode": 8},
        {"pipeline": "old"},
    ],
)
def test_any_difference_is_read(scanned, difference):
    plan = plan_sync(scanned(on_disk()), {"memory/a.md": indexed(**difference)}, pipeline=PIPELINE)
    assert len(plan.to_read) == 1
    assert plan.added == plan.doubtful == frozenset()


def test_forced_everything_is_read(scanned):
    plan = plan_sync(scanned(on_disk()), {"memory/a.md": indexed()}, pipeline=PIPELINE, force=True)
    assert len(plan.to_read) == 1
    assert plan.unchanged == 0


@pytest.mark.parametrize("stamp", ["mtime_ns", "ctime_ns"])
@pytest.mark.parametrize(
    ("time_ns", "window_ns"), [(STAMP, RACY_NS), (STAMP - STAMP % 10**9, COARSE_RACY_NS)]
)
@pytest.mark.parametrize("after", [True, False])
def test_a_file_read_too_shortly_after_its_stamp_is_read_again(
    scanned, stamp, time_ns, window_ns, after
):
    stamps = {"mtime_ns": STAMP - 10**15, "ctime_ns": STAMP - 10**15} | {stamp: time_ns}
    sign = 1 if after else -1  # a clock may also have been set back
    for distance, doubtful in ((window_ns, True), (window_ns + 1, False)):
        known = indexed(read_at_ns=time_ns + sign * distance, **stamps)
        plan = plan_sync(scanned(on_disk(**stamps)), {"memory/a.md": known}, pipeline=PIPELINE)
        assert bool(plan.doubtful) is bool(plan.to_read) is doubtful


def test_a_file_with_a_stamp_in_the_future_is_not_read_for_ever(scanned):
    tomorrow = LONG_AFTER + 86_400 * 10**9
    plan = plan_sync(
        scanned(on_disk(mtime_ns=tomorrow)),
        {"memory/a.md": indexed(mtime_ns=tomorrow)},
        pipeline=PIPELINE,
    )
    assert plan.to_read == ()


def test_the_newest_changes_come_first_and_ties_by_name(scanned):
    files = [
        on_disk("memory/old.md", mtime_ns=STAMP - 5),
        on_disk("memory/z.md", inode=8),
        on_disk("memory/b.md", inode=9),
        on_disk("memory/new.md", mtime_ns=STAMP + 5),
    ]
    plan = plan_sync(scanned(*files), {}, pipeline=PIPELINE)
    names = [found.path.removeprefix("memory/") for found in plan.to_read]
    assert names == ["new.md", "b.md", "z.md", "old.md"]


def test_what_is_gone_from_the_disk_goes_in_the_version_that_was_seen(scanned):
    plan = plan_sync(scanned(), {"memory/a.md": indexed()}, pipeline=PIPELINE)
    assert plan.to_remove == (ObsoleteFile("memory/a.md", LONG_AFTER),)


def test_what_lies_below_an_unreadable_directory_stays(scanned):
    known = {path: indexed() for path in ("memory/a.md", "memory/sub/b.md", "memory/sub/c/d.md")}
    plan = plan_sync(scanned(failed=("memory/sub",)), known, pipeline=PIPELINE)
    assert [obsolete.path for obsolete in plan.to_remove] == ["memory/a.md"]


def test_verifying_reads_those_again_that_were_read_longest_ago(scanned):
    names = [f"memory/{number:03}.md" for number in range(VERIFIED_FILES + 50)]
    files = [on_disk(name, inode=number) for number, name in enumerate(names)]
    known = {
        name: indexed(inode=number, read_at_ns=LONG_AFTER - number)
        for number, name in enumerate(names)
    }
    assert plan_sync(scanned(*files), known, pipeline=PIPELINE).to_read == ()
    plan = plan_sync(scanned(*files), known, pipeline=PIPELINE, verify=True)
    assert {found.path for found in plan.to_read} == plan.doubtful == set(names[50:])
    assert plan.unchanged == 50


def test_verifying_reads_a_bounded_amount_and_at_least_one_file(scanned):
    files = [on_disk(f"memory/{number}.md", size=VERIFIED_BYTES, inode=number) for number in (1, 2)]
    known = {found.path: indexed(size=found.size, inode=found.inode) for found in files}
    plan = plan_sync(scanned(*files), known, pipeline=PIPELINE, verify=True)
    assert [found.path for found in plan.to_read] == ["memory/1.md"]
