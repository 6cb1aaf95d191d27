"""Filling requests by items, tokens and bytes."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.embedding.sizing import Size, estimate_tokens, fill, size_of, total
from providers.interface import InputLimits

SIZES = st.lists(st.builds(Size, st.just(1), st.integers(1, 200), st.integers(1, 800)), max_size=60)
LIMITS = st.builds(
    InputLimits,
    max_input_tokens=st.integers(1, 300),
    max_items=st.integers(1, 20),
    max_request_tokens=st.integers(1, 600),
    max_request_bytes=st.integers(1, 2400),
)
QUICK = settings(derandomize=True, max_examples=200, deadline=None)


def plan(sizes, limits):
    """All requests, one after the other, as lists of sizes."""
    requests, rest = [], list(sizes)
    while rest:
        count = fill(rest, limits)
        assert count >= 1
        requests.append(rest[:count])
        rest = rest[count:]
    return requests


def fits(request, limits):
    size = total(request)
    return (
        size.items <= limits.max_items
        and size.tokens <= limits.max_request_tokens
        and size.bytes <= limits.max_request_bytes
        and all(text.tokens <= limits.max_input_tokens for text in request)
    )


@QUICK
@given(SIZES, LIMITS)
def test_every_text_is_sent_once_and_in_order(sizes, limits):
    assert [size for request in plan(sizes, limits) for size in request] == sizes


@QUICK
@given(SIZES, LIMITS)
def test_a_request_keeps_every_limit_unless_it_holds_one_text_alone(sizes, limits):
    assert all(fits(request, limits) or len(request) == 1 for request in plan(sizes, limits))


@QUICK
@given(SIZES, LIMITS)
def test_no_request_could_have_taken_the_first_text_of_the_next(sizes, limits):
    requests = plan(sizes, limits)
    for request, following in pairwise(requests):
        assert not fits([*request, following[0]], limits)


@QUICK
@given(st.integers(1, 500), st.integers(1, 64))
def test_equal_texts_take_the_fewest_requests_that_the_item_limit_allows(count, cap):
    limits = InputLimits(
        max_input_tokens=100, max_items=cap, max_request_tokens=10**9, max_request_bytes=10**9
    )
    assert len(plan([Size(1, 10, 40)] * count, limits)) == -(-count // cap)


def test_an_estimate_follows_the_script():
    assert estimate_tokens("abcd" * 100) == 100
    assert 350 <= estimate_tokens("漢字" * 200) <= 450
    assert 100 <= estimate_tokens("привет мир" * 20) <= 200
    assert estimate_tokens("") == 1


def test_a_lone_surrogate_has_a_size_too():
    assert size_of("\ud800").bytes == 1
