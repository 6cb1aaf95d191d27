"""Indexing rests while somebody searches, and only then."""

import time

import pytest

from backends.builtin.syncing.indexing import LONGEST_PAUSE_S, Courtesy

PATIENCE_S = 30


def pauses(courtesy: Courtesy, *worked_s: float) -> list[float]:
    """How long an indexing thread is held up after so much work each time."""
    found: list[float] = []
    with courtesy.yielding():
        for seconds in worked_s:
            ends = time.perf_counter() + seconds
            while time.perf_counter() < ends:
                pass
            started = time.perf_counter()
            courtesy.give_way()
            found.append(time.perf_counter() - started)
    return found


def test_nobody_searching_means_no_pause():
    courtesy = Courtesy()
    with courtesy.searching():
        pass
    assert max(pauses(courtesy, 0.01, 0.01)) < LONGEST_PAUSE_S


def test_during_a_search_the_pause_is_as_long_as_the_work_before_it_up_to_a_bound():
    courtesy = Courtesy()
    with courtesy.searching(), courtesy.searching():
        first, second = pauses(courtesy, 0.0, 0.04)
        assert LONGEST_PAUSE_S <= first < PATIENCE_S  # it has never rested before
        assert second >= 0.04


@pytest.mark.parametrize("is_own", [True, False])
def test_only_the_thread_of_a_sync_gives_way(is_own):
    courtesy = Courtesy()
    with courtesy.searching():
        if is_own:
            assert pauses(courtesy, 0.0)[0] >= LONGEST_PAUSE_S
        else:
            started = time.perf_counter()
            courtesy.give_way()
            assert time.perf_counter() - started < LONGEST_PAUSE_S
