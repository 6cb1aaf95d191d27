"""The steps that a sync has to take, and their order beside the memory files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.builtin.store.port import IndexedTranscript
from backends.builtin.syncing.freshness import fair_order
from backends.builtin.syncing.sessions import PART_BYTES, TranscriptPart, plan_sessions
from backends.files.scan import FoundFile
from backends.transcripts.source import FoundTranscript, TranscriptListing
from fakes.each import each

PIPELINE = "chunking 1"
PATH = "sessions/one.jsonl"


def found(path=PATH, *, size=100, mtime_ns=5, inode=7) -> FoundTranscript:
    return FoundTranscript(path, size, mtime_ns, mtime_ns, inode)


def indexed(*, size=100, mtime_ns=5, inode=7, pipeline=PIPELINE, end=100) -> IndexedTranscript:
    return IndexedTranscript(1, size, mtime_ns, mtime_ns, inode, pipeline, 9, end)


def plan(*files, known=None, due=False, force=False, failure=None):
    return plan_sessions(
        TranscriptListing(tuple(files), failure=failure),
        known or {},
        pipeline=lambda _path: PIPELINE,
        is_due=lambda _found, _since: due,
        force=force,
    )


def steps(plan):
    return [(part.path, part.begin, part.until, part.is_last, part.restart) for part in plan.parts]


@pytest.mark.parametrize("due", [False, True])
def test_a_new_transcript_and_growth_wait_for_their_thresholds(due):
    new = plan(found(), due=due)
    assert steps(new) == ([(PATH, 0, 100, True, False)] if due else [])
    assert new.added == (frozenset({PATH}) if due else frozenset())
    grown = plan(found(size=150, mtime_ns=6), known={PATH: indexed(end=90)}, due=due)
    assert steps(grown) == ([(PATH, 90, 150, True, False)] if due else [])
    assert grown.added == frozenset()
    assert new.waiting == grown.waiting == (not due)


@each(
    "file",
    [found(size=99), found(mtime_ns=6), found(inode=8), found(size=150, inode=8)],
)
def test_what_did_anything_but_grow_is_looked_at_at_once_from_its_start(file):
    assert steps(plan(file, known={PATH: indexed()})) == [(PATH, 0, file.size, True, False)]


def test_what_is_as_it_was_needs_nothing():
    level = plan(found(), known={PATH: indexed(end=80)}, due=True)
    assert (level.parts, level.unchanged, level.waiting, level.due) == ((), 1, 0, frozenset())


@pytest.mark.parametrize("pipeline", ["", "chunking 0"])
def test_enrolled_transcripts_and_other_pipelines_do_not_wait(pipeline):
    known = indexed(pipeline=pipeline)
    new = plan(found(), known={PATH: known})
    assert steps(new) == [(PATH, 0, 100, True, False)]
    assert new.added == (frozenset() if pipeline else frozenset({PATH}))


def test_long_transcripts_are_divided_the_newest_comes_first_and_force_restarts_once():
    long = found("sessions/long.jsonl", size=2 * PART_BYTES + 5, mtime_ns=4)
    forced = plan(long, found(), known={PATH: indexed()}, force=True)
    assert steps(forced) == [
        (PATH, 0, 100, True, True),
        (long.path, 0, PART_BYTES, False, True),
        (long.path, PART_BYTES, 2 * PART_BYTES, False, False),
        (long.path, 2 * PART_BYTES, long.size, True, False),
    ]
    empty = plan(found(size=0), known={PATH: indexed()})
    assert steps(empty) == [(PATH, 0, 0, True, False)]


def test_what_is_gone_is_removed_unless_nothing_is_known_about_the_directory():
    gone = plan(known={PATH: indexed()})
    assert [(one.path, one.read_at_ns, one.source) for one in gone.to_remove] == [
        (PATH, 9, "sessions")
    ]
    assert plan(known={PATH: indexed()}, failure="Input/output error").to_remove == ()


sizes = st.lists(st.integers(0, 3_000), max_size=12)


@given(sizes, sizes)
def test_neither_source_waits_for_more_than_one_step_of_the_other(memory, talk):
    files = [FoundFile(f"memory/{n}.md", 0, size, 1, 1, n) for n, size in enumerate(memory)]
    parts = [TranscriptPart(f"sessions/{n}.jsonl", size, size, True) for n, size in enumerate(talk)]
    order = fair_order(files, parts)
    assert [one for one in order if one in files] == files
    assert [one for one in order if one in parts] == parts
    done = {"memory": 0, "sessions": 0}
    left = {"memory": len(files), "sessions": len(parts)}
    for task in order:
        if all(left.values()):
            assert abs(done["memory"] - done["sessions"]) <= max((*memory, *talk))
        source = task.path.split("/")[0]
        done[source] += task.size
        left[source] -= 1
