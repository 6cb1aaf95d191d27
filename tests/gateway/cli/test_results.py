"""The results of a search, as people read them."""

from __future__ import annotations

import subprocess
import sys
from datetime import date

import pytest

from backends.interface import Fallback, Hit, SearchAnswer, Stale
from gateway.cli.rendering.results import no_match, remarks, result_lines
from gateway.tools.search import SearchParams

HIT = Hit(
    path="memory/tea.md", start_line=3, end_line=4, score=0.71234, snippet="Tea\n", source="memory"
)


def result(*hits, **more):
    return SearchAnswer(hits=hits, outcome="ok" if hits else "empty", **more)


def shown(found, query="tea"):
    return [line.plain for line in result_lines(found, query)]


def test_a_result_is_its_score_and_place_then_the_passage_then_a_blank_line():
    assert shown(result(HIT)) == ["0.712 memory/tea.md:3-4", "Tea", ""]


def test_what_matches_is_marked_in_the_passage():
    _, passage, _ = result_lines(result(HIT), "tea")
    assert [(span.start, span.end) for span in passage.spans] == [(0, 3)]


def test_text_that_looks_like_markup_is_shown_as_it_is():
    hit = Hit(
        path="memory/[b].md", start_line=1, end_line=1, score=1, snippet="[red]x[/red] :tea:",
        source="memory",
    )  # fmt: skip
    assert shown(result(hit))[:2] == ["1.000 memory/[b].md:1-1", "[red]x[/red] :tea:"]


TEXT = {"raw": 0.4, "calibrated": 0.74, "rank": 2, "weight": 0.3}
VECTOR = {"raw": 0.62, "calibrated": 2.1, "rank": 1, "weight": 0.7}


def why(snippet="Green tea", query="tea", **changes):
    explain = {
        "matchedTerms": ["tea"], "otherForms": {}, "coverage": 0.5, "fused": 3.0, "chunkId": 1, "text": TEXT,
        "vector": VECTOR, "freshness": 1.0, "assured": False, "date": "2026-02-01",
    } | changes  # fmt: skip
    hit = Hit(
        path="a.md", start_line=1, end_line=1, score=1, snippet=snippet, source="memory",
        explain=explain,
    )  # fmt: skip
    return shown(result(hit), query)[2:-1]


def test_an_explanation_says_in_words_what_matched_what_the_vector_said_the_age_and_the_rule():
    assert why() == [
        "  words: tea: 50% of what the question says; score 0.74, rank 2 of all lines",
        "  meaning: similarity 0.62, 2.1 deviations above other notes, rank 1 of all lines",
        "  age: of 2026-02-01",
        "  order: by words and meaning together (weights 0.3 and 0.7)",
    ]


def test_an_explanation_says_what_was_found_instead_of_a_word():
    words, *_ = why(query="tee", otherForms={"tee": ["tea"]})
    assert words.startswith("  words: tea instead of tee: 50% of what")


def test_an_explanation_says_what_is_missing():
    silent = {**TEXT, "raw": 0, "calibrated": 0, "rank": None}
    words, meaning, age, order = why(text=silent, vector=None, date=None, freshness=0.25)
    assert words == "  words: none of the question's words"
    assert meaning == "  meaning: not compared"
    assert age == "  age: without a date, which leaves 25% of its weight"
    assert order == "  order: by words alone"
    assert "only in its path, title or headings" in why("Coffee")[0]
    assert why(assured=True)[3].startswith("  order: kept, because")


def test_an_explanation_says_which_days_were_understood_and_whether_the_note_is_of_them():
    day = {"text": "yesterday", "from": "2026-02-01", "to": "2026-02-01", "matches": True}
    week = {"text": "last week", "from": "2026-01-19", "to": "2026-01-25", "matches": False}
    assert why(time=[day, week])[2:4] == [
        '  time: "yesterday" is 2026-02-01, the day of this note',
        '  time: "last week" is 2026-01-19 to 2026-01-25, not the day of this note',
    ]


def test_what_another_backend_explains_is_told_name_by_name():
    hit = Hit(
        path="a.md", start_line=1, end_line=1, score=1, snippet="x", source="memory",
        explain={"coverage": 0.5, "matchedTerms": ["tea"]},
    )  # fmt: skip
    assert shown(result(hit))[2] == '  why: coverage 0.5, matchedTerms ["tea"]'
    assert list(remarks(result(hit, timings_ms={"search": 1.5}))) == ["Time (ms): search 1.5"]


def test_nothing_found_says_what_was_searched():
    assert no_match(SearchParams("x"), 48, "~/ws") == "No matches. Searched 48 files in ~/ws."


@pytest.mark.parametrize("limit", [{"after": date(2026, 2, 1)}, {"min_score": 0.9}])
def test_nothing_found_mentions_limits_that_were_set(limit):
    limited = SearchParams("x", **limit)
    assert no_match(limited, 1, "~/ws").endswith("1 file in ~/ws, within the given limits.")


def test_nothing_found_in_an_empty_index_doubts_the_workspace():
    assert "is ~/ws the right folder?" in no_match(SearchParams("x"), 0, "~/ws")


def test_nothing_found_in_an_empty_index_names_what_is_there_and_is_not_indexed():
    unread = tuple(f"{name}.md: Permission denied" for name in "abcde")
    assert no_match(SearchParams("x"), 0, "~/ws", unread=unread) == (
        "No matches. Nothing is indexed in ~/ws, where this is not: a.md: Permission denied; "
        "b.md: Permission denied; c.md: Permission denied; and 2 more."
    )


def test_what_a_remark_explains_is_not_said_twice():
    text = no_match(SearchParams("x"), 0, "~/ws", ("Away.",), ("a.md: away",), is_explained=True)
    assert text == "No matches. Nothing is indexed in ~/ws."


def test_who_has_no_workspace_yet_is_told_how_to_search_a_folder():
    issues = ("/home/me/.openclaw/workspace does not exist (yet).",)
    text = no_match(SearchParams("x"), 0, "~/.openclaw/workspace", issues)
    assert "does not exist (yet). `memory-gateway setup` asks where your notes are; " in text


def test_a_weaker_answer_says_so():
    weak = result(
        HIT,
        warning="Embeddings are slow.",
        fallback=Fallback(origin="openai", reason="no key"),
        stale=Stale(files=2, reason="a sync is indexing them"),
    )
    assert list(remarks(weak)) == [
        "Note: Embeddings are slow.",
        "Note: answered without openai: no key",
        (
            "Note: 2 files not up to date in this answer: a sync is indexing them. "
            "`memory-gateway index` brings the index up to date, or says why it cannot."
        ),
    ]


def test_what_could_not_be_listed_counts_as_no_file():
    stale = Stale(files=0, reason="'memory/a' cannot be listed: Too many open files")
    (remark,) = remarks(result(HIT, stale=stale))
    assert remark == (
        f"Note: something may be missing in this answer: {stale.reason}. "
        "`memory-gateway status` says more."
    )


def test_a_sound_answer_needs_no_remark():
    assert list(remarks(result(HIT, timings_ms={"search": 1.5}))) == []


def test_to_show_results_loads_neither_the_ranking_of_passages_nor_statistics():
    code = "import sys, gateway.cli.rendering.results, gateway.cli.rendering.on_terminal; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(shown.stdout.split())
    assert "gateway.cli.rendering.results" in loaded
    assert loaded.isdisjoint({"backends.ranking.selection", "statistics"})
