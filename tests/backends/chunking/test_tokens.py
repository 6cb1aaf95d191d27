"""The estimate of tokens, and the prefixes and suffixes that fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backends.chunking import estimate_tokens, prefix_end, suffix_start, weigh
from fakes.each import each

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@each(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fours", 2),
        ("x" * 1600, 400),
        ("\n" * 8, 2),
        ("é" * 8, 4),
        ("Привет, мир!", 6),
        ("漢字仮名", 4),
        ("カタカナ", 4),
        ("한국어", 3),
        ("ＡＢＣ", 3),
        ("สวัสดี", 6),
        ("नमस्ते", 6),
        ("👍👍👍👍", 5),
        ("\ud800", 1),
    ],
)
def test_the_estimate_of_tokens(text, tokens):
    assert estimate_tokens(text) == tokens


@given(ANY_TEXT, ANY_TEXT)
def test_weights_add_up_over_concatenation(one, two):
    assert weigh(one + two) == weigh(one) + weigh(two)


@given(ANY_TEXT, st.integers(0, 200))
def test_a_prefix_takes_all_that_fits(text, weight):
    end = prefix_end(text, 0, len(text), weight)
    assert weigh(text[:end]) <= weight
    assert end == len(text) or weigh(text[: end + 1]) > weight


@given(ANY_TEXT, st.integers(0, 200))
def test_a_suffix_takes_all_that_fits(text, weight):
    start = suffix_start(text, 0, len(text), weight)
    assert weigh(text[start:]) <= weight
    assert start == 0 or weigh(text[start - 1 :]) > weight
