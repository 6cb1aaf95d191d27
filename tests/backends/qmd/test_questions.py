"""The questions to QMD: a pure function of what the user typed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backends.qmd.server import MAX_TERMS, lexical, one_line, question_words, semantic
from fakes.each import each


def test_a_question_is_asked_together_and_word_by_word():
    asked = [query.text for query in lexical("When did Caroline adopt the greyhound?")]
    assert asked[0] == "Caroline adopt greyhound"
    assert set(asked[1:]) == {"Caroline", "adopt", "greyhound"}


def test_stop_words_are_asked_when_there_is_nothing_else():
    assert question_words("what is it") != []


def test_one_word_is_asked_once():
    assert [query.text for query in lexical("boiler")] == ["boiler"]


def test_nothing_but_punctuation_asks_nothing():
    assert lexical("?! ...") == ()
    assert semantic(" \n ") is None


def test_the_number_of_searches_is_bounded():
    assert len(lexical(" ".join(f"word{number}" for number in range(5000)))) <= MAX_TERMS + 1


def test_unspaced_scripts_are_asked_in_pairs():
    assert question_words("茶叶价格") == ["茶叶", "叶价", "价格"]


@each("prefix", ["lex:", "VEC: ", "hyde:", " intent :", "expand: ", "lex: vec:"])
def test_prefixes_that_qmd_would_obey_are_dropped(prefix):
    assert one_line(f"{prefix} tea") == "tea"
    assert semantic(f"{prefix} tea").text == "tea"


def test_a_minus_before_a_word_is_no_negation():
    assert semantic("-tea --without milk - now").text == "tea without milk - now"


@given(st.text(max_size=200))
def test_no_syntax_of_qmd_survives_in_words(text):
    for query in lexical(text):
        assert query.text.isprintable() or not query.text.isascii()
        assert not set(query.text) & set('\n\r"*^(){}')
        assert not any(word.startswith("-") for word in query.text.split())
        assert query.text.strip() == query.text != ""


@given(st.text(max_size=200))
def test_a_meaning_is_one_line_that_qmd_does_not_obey(text):
    line = one_line(text)
    assert "\n" not in line
    assert "\r" not in line
    assert not line.lower().startswith(("lex:", "vec:", "hyde:", "intent:"))
