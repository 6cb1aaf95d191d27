"""QMD's answers, with and without noise around them."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.qmd.results import Row, fuse, rows_of_answer, rows_of_output

bounded = settings(derandomize=True, max_examples=300, deadline=None)
ROW = {"docid": "#c989e6", "score": 0.5, "file": "qmd://mem/a%20b.md", "line": 2, "snippet": "["}
PLAIN = Row("mem", "a%20b.md", 0.5, 2, "c989e6")


def test_an_address_is_literal_in_a_command_and_encoded_over_http():
    assert rows_of_output(json.dumps([ROW])) == [PLAIN]
    assert rows_of_answer({"results": [ROW]}) == [PLAIN._replace(path="a b.md")]


def test_no_hits_is_an_answer_in_every_spelling():
    for text in (
        "[]\n",
        "No results found.\n",
        "log\nNo results found above minimum score threshold.",
    ):
        assert rows_of_output(text) == []


def test_no_answer_is_not_an_empty_one():
    for text in ("", "Gathering information", '[{"file": "qmd://a/b"', "[1, 2]", "{}"):
        assert rows_of_output(text) is None
    for answer in ({}, [], None, {"results": None}, {"error": "x"}):
        assert rows_of_answer(answer) is None


def test_the_last_complete_value_counts():
    first, last = [ROW], [{**ROW, "file": "qmd://mem/last.md"}]
    text = f"{json.dumps(first)}\nloading [\n{json.dumps(last, indent=2)}\n[ok] done [\n"
    assert rows_of_output(text) == [PLAIN._replace(path="last.md")]


def test_a_score_of_zero_is_a_hit_and_a_senseless_score_is_zero():
    scores = [0, -1, 7, None, "x", float("nan"), True]
    rows = rows_of_answer({"results": [{**ROW, "score": score} for score in scores]})
    assert [row.score for row in rows] == [0, 0, 1, 0, 0, 0, 0]


def test_rows_that_name_no_file_are_left_out():
    rows = rows_of_answer(
        {"results": [{}, {"file": 3}, {"file": "qmd://"}, {"file": "qmd://c/"}, 5, ROW]}
    )
    assert len(rows) == 1


def test_an_address_without_scheme_is_understood():
    assert rows_of_output('[{"file": "//mem/x/y.md"}]') == [Row("mem", "x/y.md", 0.0, None, None)]


def test_lists_are_joined_by_rank_without_repetition():
    a, b, c = (Row("mem", name, 0.0, None, None) for name in "abc")
    assert fuse([[a, b], [b, c], []]) == [b, a, c]
    assert fuse([]) == []


@bounded
@given(st.lists(st.text(max_size=30), max_size=5), st.lists(st.text(max_size=30), max_size=5))
def test_any_noise_leaves_the_answer(before, after):
    noise = [line.replace("\n", " ") for line in before]
    trailing = [f"# {line}".replace("\n", " ").replace("\r", " ") for line in after]
    text = "\n".join([*noise, json.dumps([ROW], indent=2), *trailing])
    assert rows_of_output(text) == [PLAIN]
