"""The marks in a snippet are the words that the query found in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fakes.each import each
from gateway.cli.rendering.results import matched_spans


def matched(text, query):
    return [text[start:end] for start, end in matched_spans(text, query)]


@each(
    ("text", "query", "expected"),
    [
        ("Green teas, brewed.", "tea", ["teas"]),
        ("The TEA was good", "which tea?", ["TEA"]),
        ("Commit `a828e60` runs", "a828e60", ["a828e60"]),
        ("memorySearch.query.hybrid is set", "hybrid", ["memorySearch.query.hybrid"]),
        ("肉桂涨价，水仙不变", "肉桂", ["肉桂"]),
        ("佐藤さんと待ち合わせ", "佐藤さん", ["佐藤さん"]),
        ("Новая тренировка в четверг", "тренировки", ["тренировка"]),
        ("Der Caf\N{COMBINING ACUTE ACCENT}e", "zzz", []),
        ("Ｆｕｌｌ… width tea", "tea", ["tea"]),
        ("Un cafe\N{COMBINING ACUTE ACCENT} noir", "café", ["cafe\N{COMBINING ACUTE ACCENT}"]),
        ("no match here", "elephant", []),
        ("", "tea", []),
    ],
)
def test_matches_stand_out_in_every_script(text, query, expected):
    assert matched(text, query) == expected


def test_words_that_only_make_a_question_are_not_marked():
    assert matched("When is the tea ready?", "when is the concert") == []


@given(st.text(max_size=60), st.text(max_size=20))
def test_spans_are_ordered_apart_and_inside_of_any_text(text, query):
    spans = matched_spans(text, query)
    flat = [place for span in spans for place in span]
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert flat == sorted(flat)


@given(st.sampled_from(["tea", "肉桂", "четверг", "a828e60"]), st.text(" .\n", max_size=5))
def test_a_text_that_is_the_query_is_marked_as_a_whole(word, padding):
    assert matched(padding + word + padding, word) == [word]
