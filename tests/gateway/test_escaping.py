"""Deceptive characters as they are shown to people and given to programs."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.escaping import escape_in_json, escape_line, visible, visible_line

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u206f\u2028\u2029\ufeff\U000e0020-\U000e007f]"
)
MIXED = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\n\t\x1b\u202e\u2066\u200d\u200c\u200f\ufeff\U000e0041क👩"),
    )
)


@given(MIXED)
def test_nothing_that_is_shown_moves_a_cursor_or_turns_text_around(text):
    assert not UNSAFE.search(visible(text))
    assert not re.search("[\n\t]", visible_line(text))
    assert not UNSAFE.search(visible_line(text))


@given(MIXED.filter(lambda text: "\\" not in text))
def test_what_is_shown_once_is_shown_the_same_again(text):
    assert visible(visible(text)) == visible(text)
    assert visible_line(visible_line(text)) == visible_line(text)


@given(st.dictionaries(MIXED, st.lists(MIXED)))
def test_json_for_a_terminal_is_the_same_document(value):
    document = json.dumps(value, ensure_ascii=False)
    shown = escape_in_json(document)
    assert json.loads(shown) == json.loads(document)
    assert not UNSAFE.search(shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("invoice\u202egpj.md", "invoice\\u202egpj.md"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("hidden\U000e0061", "hidden\\U000e0061"),
        ("one\u2028two", "one\\u2028two"),
    ],
)
def test_what_turns_hides_or_ends_text_is_shown_as_its_number(text, shown):
    assert visible(text) == visible_line(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "👩\u200d💻",
        "क\u094d\u200dष",
        "日本語",
        "Ä é ß",
    ],
)
def test_words_that_are_spelled_with_joiners_stay_as_they_are(text):
    assert visible(text) == visible_line(text) == text


@pytest.mark.parametrize("mark", ["\u200b", "\u200e", "\u200f", "\u00ad", "\u2060", "\u3164"])
def test_marks_without_width_stay_in_texts_and_are_shown_in_names(mark):
    assert visible(f"a{mark}b") == f"a{mark}b"
    assert visible_line(f"a{mark}b") == f"a\\u{ord(mark):04x}b"


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"])
def test_a_joiner_that_joins_nothing_is_shown_in_names(joiner):
    number = f"\\u{ord(joiner):04x}"
    assert visible_line(f"not{joiner}es") == f"not{number}es"
    assert visible_line(f"ä{joiner}.md") == f"ä{number}.md"
    assert visible_line(f"{joiner}ä{joiner}") == f"{number}ä{number}"


def test_programs_and_models_get_every_character_but_controls():
    assert escape_line("a\u202eb\x1bc\nd") == "a\u202eb\\x1bc\\x0ad"
