"""Learning request sizes from refusals."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.embedding.sizing import LearnedLimits, Size
from providers.interface import InputLimits

DOCUMENTED = InputLimits(
    max_input_tokens=8192, max_items=2048, max_request_tokens=250_000, max_request_bytes=1 << 25
)
QUICK = settings(derandomize=True, max_examples=200, deadline=None)


LIMIT = {"items": "max_items", "tokens": "max_request_tokens", "bytes": "max_request_bytes"}


def of(items):
    return Size(items, items * 10, items * 40)


def learn(learned, reason, true_cap):
    """Sends full requests until the search has ended; how many were refused."""
    refusals = 0
    for _ in range(100):
        amount = getattr(learned.apply(DOCUMENTED), LIMIT[reason])
        size = msgspec.structs.replace(of(1), **{reason: amount})
        if amount <= true_cap:
            learned.accepted(size)
            if learned.settled:
                return refusals
        else:
            learned.refused(size, reason, None)
            refusals += 1
    raise AssertionError("the search does not end")


def test_nothing_learned_changes_nothing():
    assert LearnedLimits().apply(DOCUMENTED) == DOCUMENTED
    assert LearnedLimits().to_dict() == {}


def test_a_limit_that_the_host_names_is_taken_at_its_word():
    learned = LearnedLimits()
    learned.refused(of(64), "items", 10)
    assert learned.apply(DOCUMENTED).max_items == 10


@QUICK
@given(st.sampled_from(["tokens", "bytes"]), st.integers(1000, 240_000))
def test_an_unnamed_cap_of_tokens_or_bytes_is_found_nearly(reason, true_cap):
    learned = LearnedLimits()
    refusals = learn(learned, reason, true_cap)
    found = getattr(learned.apply(DOCUMENTED), LIMIT[reason])
    assert true_cap * 15 // 16 <= found <= true_cap
    assert refusals <= 20


@pytest.mark.parametrize("true_cap", [1, 8, 10, 16, 20, 32, 64, 96, 100, 128, 256, 1000])
def test_a_usual_cap_of_items_is_found_exactly_and_in_few_steps(true_cap):
    learned = LearnedLimits()
    refusals = learn(learned, "items", true_cap)
    assert learned.apply(DOCUMENTED).max_items == true_cap
    assert refusals <= 5


@QUICK
@given(st.integers(1, 2000))
def test_an_unusual_cap_of_items_is_never_exceeded_once_learned(true_cap):
    learned = LearnedLimits()
    learn(learned, "items", true_cap)
    assert true_cap / 2 <= learned.apply(DOCUMENTED).max_items <= true_cap


@pytest.mark.parametrize("reason", ["items", "tokens", "bytes"])
def test_each_kind_of_size_is_learned_for_itself(reason):
    learned = LearnedLimits()
    learned.refused(of(100), reason, None)
    assert list(learned.to_dict()) == [reason]


def test_a_refusal_below_what_was_accepted_before_is_believed():
    learned = LearnedLimits()
    learned.accepted(of(500))
    learned.refused(of(100), "items", None)
    assert learned.apply(DOCUMENTED).max_items < 100


def test_a_cap_is_forgotten_when_the_host_takes_more_again():
    learned = LearnedLimits()
    learned.refused(of(10), "items", None)
    learned.accepted(of(12))
    assert learned.apply(DOCUMENTED).max_items == 2048


def test_a_named_limit_that_was_kept_already_is_not_believed():
    learned = LearnedLimits()
    learned.refused(of(8), "items", 100)
    assert learned.apply(DOCUMENTED).max_items < 8


@QUICK
@given(st.integers(1, 2000))
def test_what_was_learned_survives_a_restart(true_cap):
    learned = LearnedLimits()
    learn(learned, "items", true_cap)
    restored = LearnedLimits.from_dict(learned.to_dict())
    assert restored.apply(DOCUMENTED) == learned.apply(DOCUMENTED)


@pytest.mark.parametrize(
    "stored",
    [
        {"items": 5},
        {"items": {"accepted": "x"}},
        {"items": {"accepted": 9, "refused": 3}},
        {"items": {"accepted": -1, "refused": 3}},
        {"colour": {}},
    ],
)
def test_a_damaged_record_is_ignored(stored):
    assert LearnedLimits.from_dict(stored).apply(DOCUMENTED) == DOCUMENTED
