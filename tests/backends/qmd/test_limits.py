"""Answers within the configured limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backends.interface import Hit
from backends.qmd.answering import limited, shorten
from backends.text.units import utf16_length


def hit(snippet: str) -> Hit:
    lines = snippet.count("\n")
    return Hit(
        path="MEMORY.md",
        start_line=5,
        end_line=5 + lines,
        score=1,
        snippet=snippet,
        source="memory",
    )


def test_whole_lines_stay_and_the_line_numbers_follow():
    (cut,) = limited([hit("one\ntwo\nthree")], snippet_chars=8, injected_chars=100)
    assert (cut.snippet, cut.start_line, cut.end_line) == ("one\ntwo", 5, 6)


def test_the_sum_over_all_snippets_is_kept():
    hits = [hit("aaaa"), hit("bbbb"), hit("cccc")]
    assert [one.snippet for one in limited(hits, snippet_chars=9, injected_chars=6)] == [
        "aaaa",
        "bb",
    ]
    assert [one.snippet for one in limited(hits, snippet_chars=9, injected_chars=4)] == ["aaaa"]


def test_a_character_is_never_cut():
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert shorten(f"ab{family}", 6) == "ab"
    assert shorten(family, 3) == ""
    assert shorten("e\u0301e\u0301", 3) == "e\u0301"


@given(st.text(max_size=60), st.integers(min_value=0, max_value=40))
def test_what_is_left_fits_and_is_a_beginning(text, limit):
    left = shorten(text, limit)
    assert utf16_length(left) <= limit
    assert text.startswith(left)
