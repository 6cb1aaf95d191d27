"""Filling a limit that a host names in tokens of its own."""

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.embedding.sizing import LearnedLimits, Size, TokenScale
from providers.interface import InputLimits

DOCUMENTED = InputLimits(
    max_input_tokens=8192, max_items=2048, max_request_tokens=250_000, max_request_bytes=1 << 25
)
QUICK = settings(derandomize=True, max_examples=200, deadline=None)


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


@QUICK
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


@QUICK
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
