"""Passages that say only what was shown already."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.ranking.passages import Repeats


@pytest.fixture
def repeats():
    repeats = Repeats()
    assert repeats.is_new("- **Water** the tomatoes every morning, before eight.")
    return repeats


@pytest.mark.parametrize(
    "text",
    [
        "- **Water** the tomatoes every morning, before eight.",
        "* water the  tomatoes every morning before EIGHT",
        "the tomatoes every morning",
    ],
)
def test_the_same_words_in_other_clothes_add_nothing(repeats, text):
    assert not repeats.is_new(text)


@pytest.mark.parametrize(
    "text",
    [
        "- Water the tomatoes every morning, before nine.",
        "- Water the tomatoes every evening, before eight.",
        "- Every morning, before eight, water the tomatoes.",
        "- Water the tomatoes every morning, before eight. 2 litres.",
    ],
)
def test_one_new_word_or_another_order_makes_another_text(repeats, text):
    assert repeats.is_new(text)


@pytest.mark.parametrize("text", ["", "🙂", "---", "茶"])
def test_texts_without_words_are_told_apart(repeats, text):
    assert repeats.is_new(text)
    assert not repeats.is_new(text)
    assert repeats.is_new("🎉")


@given(st.lists(st.text(alphabet="ab ,.\n", max_size=30), max_size=8))
def test_no_text_is_dropped_for_the_sake_of_several(texts):
    repeats = Repeats()
    kept = [text for text in texts if repeats.is_new(text)]
    for text in texts:
        alone = [Repeats() for _ in kept]
        for one, shown in zip(alone, kept, strict=True):
            one.is_new(shown)
        assert any(not one.is_new(text) for one in alone)


def says_nothing_else(text: str, shown: str) -> bool:
    """The rule as it is written: every run of three words, or the whole of fewer, stands in both."""
    words, known = ([*re.findall(r"\w+", one.casefold())] or [one.strip()] for one in (text, shown))
    size = min(3, len(words))
    runs, others = (
        {tuple(one[at : at + n]) for at in range(len(one) - n + 1)}
        for one, n in ((words, size), (known, min(3, len(known))))
    )
    return runs <= others


@given(*[st.text(alphabet="aAb9_ß ,.\n-", max_size=20)] * 2)
def test_a_text_is_a_repeat_exactly_when_its_runs_of_words_stand_in_the_other(text, shown):
    repeats = Repeats()
    repeats.is_new(shown)
    assert repeats.is_new(text) != says_nothing_else(text, shown)


def test_a_line_that_was_told_in_another_passage_is_not_told_again(repeats):
    lines = ["Water the tomatoes every evening.", "- yes", "## Garden"]
    assert repeats.new_lines(lines) == [0, 1, 2]
    again = ["- yes", "water the tomatoes, every evening", "Feed the tomatoes, too.", "## Garden"]
    assert repeats.new_lines(again) == [0, 2, 3]
    assert repeats.new_lines(["Feed the tomatoes, too.", "- yes"]) == []
