"""The batch jobs that are due now, and the pause until the next one is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backends.builtin.embedding.batch_jobs import plan
from backends.builtin.store.port import JobRecord
from fakes.each import each

NOW_MS = 1_000_000
STATES = ("prepared", "uploaded", "submitted", "ended", "read")


def job(number, state="submitted", next_at_ms=0, items=10, cancelling=False):
    return JobRecord(
        id=number, label=str(number), digest=b"x", state=state, items=items, created_at_ms=0,
        next_at_ms=next_at_ms, cancelling=cancelling,
    )  # fmt: skip


def agenda(*jobs, is_off=False, capacity=None, concurrency=2):
    return plan(jobs, now_ms=NOW_MS, is_off=is_off, capacity=capacity, concurrency=concurrency)


JOBS = st.lists(
    st.builds(
        job,
        st.integers(1),
        st.sampled_from(STATES),
        st.integers(0, 2 * NOW_MS),
        st.integers(1, 50),
        st.booleans(),
    ),
    max_size=6,
)


@given(JOBS, st.booleans(), st.none() | st.integers(1, 60), st.integers(1, 3))
def test_as_long_as_a_job_is_open_there_is_something_to_do_or_a_time_for_it(
    jobs, is_off, capacity, concurrency
):
    found = agenda(*jobs, is_off=is_off, capacity=capacity, concurrency=concurrency)
    assert (found.pause_s is None) == (not jobs)
    assert (found.pause_s == 0) == bool(found.due or found.unsent)
    assert all(one.next_at_ms <= NOW_MS for one in found.due)


@each("state", ["uploaded", "submitted", "ended", "read"])
def test_what_is_to_be_looked_after_at_once_is_due(state):
    """A job that a person wants to cancel from another process is due in the same way."""
    assert agenda(job(1, state)).due == (job(1, state),)


def test_the_pause_is_until_the_first_job_that_may_go_on():
    later, soon = job(1, next_at_ms=NOW_MS + 9_000), job(2, next_at_ms=NOW_MS + 2_500)
    assert agenda(later, soon, job(3, "prepared")).pause_s == 2.5


def test_a_job_that_has_to_wait_for_others_is_neither_due_nor_waited_for():
    under_way = job(1, next_at_ms=NOW_MS + 9_000)
    assert agenda(under_way, job(2, "prepared"), concurrency=1) == ((), (), 9.0)
    assert agenda(under_way, job(2, "prepared"), capacity=15) == ((), (), 9.0)
    assert agenda(under_way, job(2, "prepared"), capacity=20).due == (job(2, "prepared"),)


def test_a_job_of_which_only_files_are_left_is_in_the_way_of_none():
    cleaning = job(1, "read", next_at_ms=NOW_MS + 9_000)
    assert agenda(cleaning, job(2, "prepared"), concurrency=1).due == (job(2, "prepared"),)


def test_a_job_that_nobody_wants_any_more_waits_for_no_other_and_is_in_the_way_of_none():
    unwanted, wanted = job(1, "prepared", cancelling=True), job(2, "prepared")
    assert agenda(unwanted, wanted, concurrency=1).due == (unwanted, wanted)
    under_way = job(3, next_at_ms=NOW_MS + 9_000)
    assert agenda(under_way, unwanted, wanted, concurrency=1).due == (unwanted,)


def test_while_batch_is_off_nothing_is_begun_and_what_was_begun_goes_on():
    found = agenda(job(1), job(2, "prepared"), is_off=True)
    assert (found.due, found.unsent) == ((job(1),), (job(2, "prepared"),))
