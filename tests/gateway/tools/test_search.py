"""`memory_search` on the wire: parameters, result, citations, and texts that nobody trusts."""

from datetime import date

import pytest

from backends.interface import MAX_QUERY_CHARS, Fallback, SearchRequest, Stale
from fakes.each import each
from gateway.escaping import escape_controls
from gateway.rpc.wire import InvalidParamsError
from gateway.tools.search import (
    MAX_RESULTS,
    SearchParams,
    disabled_result,
    limits_met,
    read_request,
    with_citations,
)


def test_a_query_alone_leaves_everything_to_the_configuration(params_of):
    assert read_request(params_of(SearchParams, query="boiler")) == SearchRequest(query="boiler")


def test_every_parameter_reaches_the_backend(params_of):
    params = params_of(
        SearchParams, query="boiler", maxResults=3, minScore=0.5, sessionKey="agent:main:main",
        sources=["memory", "sessions"], include=["memory/**"], exclude=["*.tmp.md"],
        after="2026-01-01", before="2026-02-01", explain=True,
    )  # fmt: skip
    assert read_request(params) == SearchRequest(
        query="boiler", max_results=3, min_score=0.5, sources=("memory", "sessions"),
        include=("memory/**",), exclude=("*.tmp.md",),
        after=date(2026, 1, 1), before=date(2026, 2, 1), explain=True,
    )  # fmt: skip


def test_an_empty_list_of_sources_counts_as_not_given(params_of):
    params = params_of(SearchParams, query="boiler", sources=[])
    assert read_request(params) == SearchRequest(query="boiler")


@each("query", ["", " ", "\t\n", "\u3000"])
def test_a_blank_query_is_an_invalid_parameter(query, params_of):
    with pytest.raises(InvalidParamsError) as caught:
        read_request(params_of(SearchParams, query=query))
    assert "query" in caught.value.message
    assert caught.value.remedy


@each(
    "members",
    [
        {"maxResults": 0}, {"maxResults": -1}, {"maxResults": 1.5}, {"maxResults": "3"}, {"minScore": -0.1},
        {"minScore": 1.1}, {"minScore": "high"}, {"sources": ["email"]}, {"sources": "memory"},
        {"after": "yesterday"}, {"after": "2026-02-30"}, {"explain": 1}, {"limit": 3}, {"max_results": 3},
        {"query": 7}, {"query": None},
    ],
)  # fmt: skip
def test_wrong_and_unknown_parameters_are_refused(members, params_of):
    with pytest.raises(InvalidParamsError):
        params_of(SearchParams, **({"query": "boiler"} | members))


def test_days_that_exclude_each_other_are_refused(params_of):
    for after, before in (("2026-02-01", "2026-02-01"), ("2026-02-02", "2026-02-01")):
        with pytest.raises(InvalidParamsError) as caught:
            read_request(params_of(SearchParams, query="x", after=after, before=before))
        assert after in caught.value.message


def test_more_results_than_anybody_reads_are_cut_to_a_limit_and_that_is_said(
    params_of, answer, hit
):
    at, beyond = (params_of(SearchParams, query="x", maxResults=MAX_RESULTS + n) for n in (0, 1))
    assert [read_request(params).max_results for params in (at, beyond)] == [MAX_RESULTS] * 2
    assert limits_met(at) == ()
    result = with_citations(answer(hit(), warning="Slow."), "off", None, limits_met(beyond))
    assert result.warning == "Slow. At most 200 results are given, not 201."


def test_a_long_query_is_cut_to_a_limit_and_that_is_said(params_of):
    at = params_of(SearchParams, query=" " * 100 + "x" * MAX_QUERY_CHARS)
    beyond = params_of(SearchParams, query="x" * (MAX_QUERY_CHARS + 1))
    assert read_request(at).query == read_request(beyond).query == "x" * MAX_QUERY_CHARS
    assert limits_met(at) == ()
    assert limits_met(beyond) == ("Only the first 20,000 of 20,001 characters were looked for.",)


def test_the_result_has_the_documented_members_and_no_absent_ones(on_the_wire, hit, answer):
    result = with_citations(answer(hit()), "off", None)
    assert on_the_wire(result) == {
        "results": [
            {
                "path": "memory/2026-02-08.md", "startLine": 12, "endLine": 30, "score": 0.75,
                "snippet": "- The boiler.", "source": "memory",
            }
        ],
        "outcome": "ok", "citations": "off", "backend": "builtin", "mode": "keyword",
    }  # fmt: skip


def test_what_a_richer_answer_knows_is_on_the_wire_too(on_the_wire, hit, answer):
    rich = answer(
        hit(vector_score=0.5, text_score=0.75, explain={"matchedTerms": ["boiler"]}),
        outcome="partial", mode="hybrid", provider="openai", model="text-embedding-3-small",
        fallback=Fallback(origin="openai", reason="no key"), stale=Stale(files=2, reason="being written"),
        warning="the provider is slow", timings_ms={"search": 1.5},
    )  # fmt: skip
    wire = on_the_wire(with_citations(rich, "on", None))
    assert wire["fallback"] == {"from": "openai", "reason": "no key"}
    assert wire["stale"] == {"files": 2, "reason": "being written"}
    assert wire["timings"] == {"search": 1.5}
    assert (wire["provider"], wire["model"]) == ("openai", "text-embedding-3-small")
    assert (wire["outcome"], wire["warning"]) == ("partial", "the provider is slow")
    (result,) = wire["results"]
    assert (result["vectorScore"], result["textScore"]) == (0.5, 0.75)
    assert result["explain"] == {"matchedTerms": ["boiler"]}


def test_scores_of_zero_are_members_like_any_other(on_the_wire, hit, answer):
    (result,) = on_the_wire(with_citations(answer(hit(score=0.0, text_score=0.0)), "off", None))[
        "results"
    ]
    assert (result["score"], result["textScore"]) == (0.0, 0.0)


def test_an_empty_result_still_has_its_list(on_the_wire, answer):
    wire = on_the_wire(with_citations(answer(), "auto", None))
    assert (wire["results"], wire["outcome"], wire["citations"]) == ([], "empty", "auto")
    assert "disabled" not in wire


def test_a_disabled_memory_says_so_in_the_documented_form(on_the_wire):
    assert on_the_wire(disabled_result("Switched off by a key.")) == {
        "results": [], "outcome": "disabled", "disabled": True, "error": "Switched off by a key.",
        "kind": "disabled",
    }  # fmt: skip


DIRECT, GROUP, CHANNEL = "agent:main:main", "agent:main:x:group:1", "agent:main:x:channel:1"


@pytest.mark.parametrize(
    ("mode", "session_key", "shown"),
    [
        ("on", None, True), ("on", DIRECT, True), ("on", GROUP, True), ("on", CHANNEL, True),
        ("off", None, False), ("off", DIRECT, False), ("off", GROUP, False),
        ("auto", None, True), ("auto", DIRECT, True), ("auto", "main", True), ("auto", GROUP, False),
        ("auto", CHANNEL, False),
    ],
)  # fmt: skip
def test_citations_are_shown_as_configured_and_for_whom_they_are_meant(
    on_the_wire, hit, answer, mode, session_key, shown
):
    wire = on_the_wire(with_citations(answer(hit(snippet="\n- The boiler.\n")), mode, session_key))
    (result,) = wire["results"]
    assert wire["citations"] == mode
    if shown:
        assert result["citation"] == "memory/2026-02-08.md#L12-L30"
        assert result["snippet"] == "- The boiler.\n\nSource: memory/2026-02-08.md#L12-L30"
    else:
        assert "citation" not in result
        assert result["snippet"] == "\n- The boiler.\n"


def test_a_citation_of_one_line_names_it_once(on_the_wire, hit, answer):
    wire = on_the_wire(with_citations(answer(hit(end_line=12)), "on", None))
    assert wire["results"][0]["citation"] == "memory/2026-02-08.md#L12"


@pytest.mark.parametrize(
    ("end", "events", "citation"),
    [
        (13, (7, 9), "sessions/0a1b#L12-L13 (events 7-9)"),
        (12, (7, 7), "sessions/0a1b#L12 (event 7)"),
    ],
)
def test_a_citation_of_a_session_in_the_database_names_its_events(
    on_the_wire, hit, answer, end, events, citation
):
    one = hit(path="sessions/0a1b", source="sessions", end_line=end, events=events)
    wire = on_the_wire(with_citations(answer(one), "on", None))
    assert wire["results"][0]["events"] == list(events)
    assert wire["results"][0]["citation"] == citation
    assert wire["results"][0]["snippet"].endswith(f"Source: {citation}")


@pytest.mark.parametrize(
    ("character", "shown"),
    [
        ("\x1b", "\\x1b"), ("\x00", "\\x00"), ("\x07", "\\x07"), ("\x08", "\\x08"), ("\r", "\\x0d"),
        ("\x7f", "\\x7f"), ("\x9b", "\\x9b"), ("\n", "\n"), ("\t", "\t"), ("é", "é"), ("🎉", "🎉"),
    ],
)  # fmt: skip
def test_control_characters_of_a_note_reach_no_terminal(on_the_wire, hit, answer, character, shown):
    assert escape_controls(f"a{character}b") == f"a{shown}b"
    wire = on_the_wire(with_citations(answer(hit(snippet=f"a{character}b")), "off", None))
    assert wire["results"][0]["snippet"] == f"a{shown}b"


def test_control_characters_in_a_file_name_do_not_reach_a_snippet_by_its_source(
    on_the_wire, hit, answer
):
    (result,) = on_the_wire(with_citations(answer(hit(path="memory/a\x1b[2J\nb.md")), "on", None))[
        "results"
    ]
    assert result["path"] == "memory/a\x1b[2J\nb.md"
    assert result["citation"] == "memory/a\\x1b[2J\\x0ab.md#L12-L30"
    assert result["snippet"] == f"- The boiler.\n\nSource: {result['citation']}"
