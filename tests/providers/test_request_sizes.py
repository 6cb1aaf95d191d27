"""The division of texts into requests: work lists, limits, and the limits learned from hosts."""

from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fakes.each import each
from providers.embedding.sizing import (
    LearnedLimits,
    Size,
    TokenScale,
    WorkList,
    estimate_tokens,
    fill,
    size_of,
    total,
)
from providers.provider_interface import InputLimits

DOCUMENTED = InputLimits(
    max_input_tokens=8192, max_items=2048, max_request_tokens=250_000, max_request_bytes=1 << 25
)


LIMIT = {"items": "max_items", "tokens": "max_request_tokens", "bytes": "max_request_bytes"}


def of(items):
    return Size(items, items * 10, items * 40)


def learn(learned, reason, true_cap):
    """Sends full requests until the search has ended; returns the number of refused ones."""
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


@given(st.sampled_from(["tokens", "bytes"]), st.integers(1000, 240_000))
def test_an_unnamed_cap_of_tokens_or_bytes_is_found_nearly(reason, true_cap):
    learned = LearnedLimits()
    refusals = learn(learned, reason, true_cap)
    found = getattr(learned.apply(DOCUMENTED), LIMIT[reason])
    assert true_cap * 15 // 16 <= found <= true_cap
    assert refusals <= 20


@each("true_cap", [1, 8, 10, 16, 20, 32, 64, 96, 100, 128, 256, 1000])
def test_a_usual_cap_of_items_is_found_exactly_and_in_few_steps(true_cap):
    learned = LearnedLimits()
    refusals = learn(learned, "items", true_cap)
    assert learned.apply(DOCUMENTED).max_items == true_cap
    assert refusals <= 5


@given(st.integers(1, 2000))
def test_an_unusual_cap_of_items_is_never_exceeded_once_learned(true_cap):
    learned = LearnedLimits()
    learn(learned, "items", true_cap)
    assert true_cap / 2 <= learned.apply(DOCUMENTED).max_items <= true_cap


@each("reason", ["items", "tokens", "bytes"])
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


@given(st.integers(1, 2000))
def test_what_was_learned_survives_a_restart(true_cap):
    learned = LearnedLimits()
    learn(learned, "items", true_cap)
    restored = LearnedLimits.from_dict(learned.to_dict())
    assert restored.apply(DOCUMENTED) == learned.apply(DOCUMENTED)


@each(
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


SIZES = st.lists(st.builds(Size, st.just(1), st.integers(1, 200), st.integers(1, 800)), max_size=60)
LIMITS = st.builds(
    InputLimits,
    max_input_tokens=st.integers(1, 300),
    max_items=st.integers(1, 20),
    max_request_tokens=st.integers(1, 600),
    max_request_bytes=st.integers(1, 2400),
)


def plan(sizes, limits):
    """Returns all requests, one after the other, as lists of sizes."""
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


@given(SIZES, LIMITS)
def test_every_text_is_sent_once_and_in_order(sizes, limits):
    assert [size for request in plan(sizes, limits) for size in request] == sizes


@given(SIZES, LIMITS)
def test_a_request_keeps_every_limit_unless_it_holds_one_text_alone(sizes, limits):
    assert all(fits(request, limits) or len(request) == 1 for request in plan(sizes, limits))


@given(SIZES, LIMITS)
def test_no_request_could_have_taken_the_first_text_of_the_next(sizes, limits):
    requests = plan(sizes, limits)
    for request, following in pairwise(requests):
        assert not fits([*request, following[0]], limits)


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


def of_tokens(tokens):
    return Size(max(1, tokens // 100), tokens, tokens * 4)


def test_before_any_answer_the_named_limit_is_read_in_our_own_tokens():
    scale = TokenScale()
    scale.refuse(50_000, 8_000)
    assert scale.cap == 7_760


def test_a_host_that_counts_fewer_tokens_gets_larger_requests():
    scale = TokenScale()
    scale.refuse(50_000, 8_000)
    scale.observe(7_000, 5_600)
    assert scale.cap == 9_700


def test_the_largest_ratio_seen_counts():
    scale = TokenScale(limit=1000)
    scale.observe(1000, 1200)
    scale.observe(1000, 800)
    assert scale.ratio == 1.2


def test_short_requests_and_hosts_that_do_not_count_teach_nothing():
    scale = TokenScale(limit=1000)
    scale.observe(10, 40)
    scale.observe(5000, 0)
    assert scale == TokenScale(limit=1000)


@given(st.integers(20_000, 100_000), st.floats(0.2, 8.0), st.booleans())
def test_the_requests_of_a_named_limit_end_up_nearly_full_after_few_refusals(limit, ratio, counts):
    learned = LearnedLimits()
    refusals, tokens = 0, 0
    for _ in range(20):
        tokens = learned.apply(DOCUMENTED).max_request_tokens
        counted = int(tokens * ratio)
        if counted <= limit:
            learned.accepted(of_tokens(tokens), counted=counted if counts else 0)
        else:
            learned.refused(of_tokens(tokens), "tokens", limit)
            refusals += 1
    assert refusals <= 12
    assert int(tokens * ratio) <= limit
    if counts and 250_000 * ratio > limit:
        assert tokens * ratio >= 0.9 * limit


@given(st.integers(1, 100_000), st.floats(0.2, 8.0))
def test_what_was_learned_of_tokens_survives_a_restart(limit, ratio):
    learned = LearnedLimits()
    learned.refused(of_tokens(250_000), "tokens", limit)
    learned.accepted(of_tokens(1_000), counted=int(1_000 * ratio))
    restored = LearnedLimits.from_dict(learned.to_dict())
    assert restored.apply(DOCUMENTED) == learned.apply(DOCUMENTED)


def test_a_malformed_record_of_tokens_is_ignored():
    for stored in ({"limit": "x"}, {"limit": -5, "ratio": 1}, {"limit": 5, "ratio": 0}, 7):
        learned = LearnedLimits.from_dict({"namedTokens": stored})
        assert learned.apply(DOCUMENTED) == DOCUMENTED


def limits(items=4, tokens=10**6):
    return InputLimits(
        max_input_tokens=1000, max_items=items, max_request_tokens=tokens, max_request_bytes=10**9
    )


def job(count=10, **changes):
    return WorkList([Size(1, 10, 40)] * count, range(count), lambda: limits(**changes))


def drain(work):
    return list(iter(work.take, None))


def test_texts_are_taken_in_order():
    assert drain(job()) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_what_is_put_back_comes_next_in_the_sizes_allowed_by_then():
    allowed = {"items": 4}
    work = WorkList([Size(1, 10, 40)] * 6, range(6), lambda: limits(**allowed))
    refused = work.take()
    allowed["items"] = 3
    work.put_back(refused)
    assert drain(work) == [[0, 1, 2], [3, 4, 5]]


def test_a_split_request_comes_next_as_two_halves():
    work = job()
    work.split(work.take())
    assert drain(work) == [[0, 1], [2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_shrunk_request_halves_all_that_follow():
    work = job()
    work.shrink(work.take())
    assert drain(work) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def test_only_the_named_positions_are_worked_on():
    work = WorkList([size_of(text) for text in ("a", " ", "b")], [0, 2], limits)
    assert drain(work) == [[0, 2]]


@given(st.lists(st.sampled_from(["done", "put_back", "split", "shrink"]), max_size=60))
def test_no_text_is_lost_or_doubled_whatever_happens(events):
    work, finished = job(25), []
    for event in events:
        positions = work.take()
        if positions is None:
            break
        if event == "done" or len(positions) == 1:
            finished += positions
        else:
            getattr(work, event)(positions)
    finished += [at for positions in drain(work) for at in positions]
    assert sorted(finished) == list(range(25))
