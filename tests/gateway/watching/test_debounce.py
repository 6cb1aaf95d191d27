"""A burst of changes is over when it is quiet, and at the latest after a bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.watching.watcher import LONGEST_WAIT, Debounce

QUIET_S = 1.5


@pytest.fixture
def debounce() -> Debounce:
    return Debounce(QUIET_S)


def test_nothing_is_due_before_anything_happened(debounce):
    assert debounce.due is None
    assert not debounce.take(10.0)


def test_one_change_is_due_when_it_has_been_quiet(debounce):
    debounce.note(10.0)
    assert debounce.due == 11.5
    assert not debounce.take(11.4)
    assert debounce.take(11.5)
    assert debounce.due is None


def test_further_changes_put_it_off(debounce):
    debounce.note(10.0)
    debounce.note(10.5)
    assert debounce.due == 12.0


def test_a_change_after_the_end_of_a_burst_begins_another(debounce):
    debounce.note(10.0)
    assert debounce.take(12.0)
    debounce.note(12.1)
    assert debounce.due == 13.6


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=200), st.floats(0.0, 3.0))
def test_no_change_waits_longer_than_the_bound_however_many_follow(pauses, quiet_s):
    debounce = Debounce(quiet_s)
    now, oldest = 0.0, None
    for pause in pauses:
        if debounce.due is not None and debounce.due <= now + pause:
            assert debounce.due - oldest <= LONGEST_WAIT * quiet_s + 1e-9
            assert debounce.take(debounce.due)
            oldest = None
        now += pause
        debounce.note(now)
        oldest = now if oldest is None else oldest


def test_without_a_debounce_a_change_is_due_at_once():
    debounce = Debounce(0.0)
    debounce.note(10.0)
    assert debounce.take(10.0)
