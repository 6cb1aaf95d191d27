"""Passages whose whole content was already shown."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.ranking.selection import Repeats, in_words

WATER = "- **Water** the tomatoes every morning, before eight."


@pytest.fixture
def repeats():
    repeats = Repeats()
    repeats.show([WATER])
    return repeats


@pytest.mark.parametrize(
    "text",
    [WATER, "* water the  tomatoes every morning before EIGHT", "the tomatoes every morning"],
)
def test_the_same_words_in_other_clothes_add_nothing(repeats, text):
    assert repeats.has_shown([text])


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
    assert not repeats.has_shown([text])


@pytest.mark.parametrize("text", ["", "🙂", "---", "茶"])
def test_texts_without_words_are_told_apart(repeats, text):
    assert not repeats.has_shown([text])
    repeats.show([text])
    assert repeats.has_shown([text])
    assert not repeats.has_shown(["🎉"])


def says_nothing_else(text: str, shown: str) -> bool:
    """Applies the rule as it is written: every run of three words, or the whole of fewer, is in both."""
    words, known = ([*re.findall(r"\w+", one.casefold())] or [one.strip()] for one in (text, shown))
    size = min(3, len(words))
    runs, others = (
        {tuple(one[at : at + n]) for at in range(len(one) - n + 1)}
        for one, n in ((words, size), (known, min(3, len(known))))
    )
    return runs <= others


@given(*[st.text(alphabet="aAb9_ß ,.-", max_size=20)] * 2)
def test_a_text_is_a_repeat_exactly_when_its_runs_of_words_stand_in_the_other(text, shown):
    repeats = Repeats()
    repeats.show([shown])
    is_line = in_words(text) == in_words(shown)
    is_long = len(re.findall(r"\w+", text)) >= 3
    assert repeats.has_shown([text]) == (is_line or (is_long and says_nothing_else(text, shown)))


def test_lines_of_several_passages_tell_what_they_tell_together(repeats):
    repeats.show(["- yes", "Feed the tomatoes, too."])
    assert repeats.has_shown(["water the tomatoes every morning, before eight", "Yes."])
    assert not repeats.has_shown([WATER, "no"])
