"""Lone surrogates are replaced, and nothing else is."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from fakes.each import each
from gateway.rpc.wire import replace_lone_escapes, replace_lone_surrogates

ANY_TEXT = st.text(
    alphabet=st.one_of(
        st.sampled_from(["\\", "u", "d", "8", "\ud83d", "\ude00", "\udfff", '"', "😀"]),
        st.characters(),
    )
)


@each(
    ("line", "repaired"),
    [
        (rb'"\ud83d"', rb'"\ufffd"'),
        (rb'"\ude00"', rb'"\ufffd"'),
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"'),
        (rb'"\ude00\ud83d"', rb'"\ufffd\ufffd"'),
        (rb'"\\ud83d"', rb'"\\ud83d"'),
        (rb'"\\\ud83d"', rb'"\\\ufffd"'),
        (rb'"\n\uD83D"', rb'"\n\ufffd"'),
        (rb'"\ud83d" "\ude00"', rb'"\ufffd" "\ufffd"'),
    ],
)
def test_only_escapes_without_their_partner_are_replaced(line, repaired):
    assert replace_lone_escapes(line) == repaired


@given(ANY_TEXT)
def test_repairing_the_json_equals_repairing_the_text(text):
    line = json.dumps(text).encode()
    assert json.loads(replace_lone_escapes(line)) == replace_lone_surrogates(json.loads(line))


@given(ANY_TEXT)
def test_a_repaired_text_is_fit_for_utf8_and_a_fit_one_is_left_alone(text):
    repaired = replace_lone_surrogates(text)
    repaired.encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        assert "\ufffd" in repaired or "😀" in repaired or len(repaired) < len(text)
    else:
        assert repaired == text


def test_containers_are_repaired_throughout():
    value = {"a\ud800": ["\udc80", {"x": ("\ud800", 1, None)}]}
    assert replace_lone_surrogates(value) == {"a\ufffd": ["\ufffd", {"x": ["\ufffd", 1, None]}]}


@each("hostile", [rb"\\", rb"\ud83d", rb"\\ud83d\ud83d", rb"\u", rb"\ud8"])
def test_the_longest_hostile_line_is_repaired_in_linear_time(hostile):
    line = hostile * (1_000_000 // len(hostile))
    assert len(replace_lone_escapes(line)) == len(line)
