"""The demo as people see it."""

from __future__ import annotations

from gateway.cli.rendering.results import distinctive_lines, event_lines
from gateway.sample import Answered, DemoQuestion, Exchange


def test_the_lines_that_match_most_are_shown_in_their_order():
    snippet = "# Tea\n\nwater\ngreen tea\ngreen tea from the green hills\nblack tea\n"
    assert distinctive_lines(snippet, "green tea hills") == [
        "# Tea",
        "green tea",
        "green tea from the green hills",
    ]


def test_a_repeated_word_counts_once():
    assert distinctive_lines("a tea tea tea tea\nblack tea\nold tea\nnew tea", "black tea")[1] == (
        "black tea"
    )


def test_the_first_line_is_shown_where_only_another_form_of_a_word_matches():
    assert distinctive_lines("- She sang.\n- It rained.", "singing") == ["- She sang."]


def answered(path):
    hit = {"path": path, "startLine": 3, "endLine": 4, "score": 0.5, "snippet": "green tea"}
    exchange = Exchange("memory_search", {}, {"results": [hit]}, 1.25)
    return Answered(exchange, DemoQuestion("English", "tea?", "memory/tea.md"))


def test_an_answer_shows_question_place_score_and_lines():
    assert [line.plain for line in event_lines(answered("memory/tea.md"))] == [
        "",
        "? tea?  (English; 1.2 ms; found)",
        "  0.500 memory/tea.md#L3-L4",
        "    green tea",
    ]


def test_an_answer_without_the_expected_file_is_called_out():
    assert not answered("memory/other.md").found
    assert any("NOT FOUND" in one.plain for one in event_lines(answered("memory/other.md")))
