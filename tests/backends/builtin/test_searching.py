"""Searching: any words of any script, filters inside the search, stable order, honest scores.

Statements reach the database unchanged through a pooler; there the questions of other shapes are asked, not all
words.
"""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import anyio
import pytest

from backends.builtin import backend as backend_module
from backends.interface import SearchRequest, SyncRequest
from backends.ranking.layout import breadcrumb_of
from backends.text import times
from fakes.each import each

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]

NOTES = {
    "MEMORY.md": "# Memory\n\n- The boiler is serviced by Hartmann, every October.\n",
    "memory/2026-02-01.md": "# Sunday\n\n- Ordered a new membrane for the heating pump.\n- Called Anna.\n",
    "memory/2026-02-02.md": "# 2026-02-02\n\n- 今天和供应商谈了茶叶的价格。\n- Тренировка перенесена на четверг.\n",
    "memory/2026-03-10-budget.md": "# Plan\n\n- The invoice for the membrane came: 1,500 euros at 10:30.\n",
    "memory/projects/server.md": (
        "# Server move\n\n- Commit `a828e60` fixes `memorySearch.query.hybrid`.\n"
        "- Set OPENAI_API_KEY before sqlite-vec v0.1.9 is loaded.\n- See https://example.org/a/login.\n"
    ),
    "memory/places.md": (
        "- 내일 회의가 있다\n- ประชุมวันจันทร์\n- छुट्टी की योजना\n- موعد الطبيب غدا\n"
        "- 🎉 party at the café\n- うちの犬はポチ\n"
    ),
    "memory/regular.md": "- Choir at 19:00.\n- The lake on 14 December.\n- Basel on 12.05.\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def noted(lasting_home):
    """The agent of `backend`; no test changes either."""
    home = lasting_home("noted")
    for path, text in NOTES.items():
        home.write(path, text)
    return home


@pytest.fixture(scope="module")
async def backend(noted):
    async with noted.open() as backend:
        await backend.sync(SyncRequest())
        yield backend


@each(
    ("query", "path"),
    [
        ("who services the boiler?", "MEMORY.md"),
        ("boilers", "MEMORY.md"),
        ("MEMBRANE heating", "memory/2026-02-01.md"),
        ("茶叶价格", "memory/2026-02-02.md"),
        ("когда тренировки", "memory/2026-02-02.md"),
        ("회의", "memory/places.md"),
        ("ประชุม", "memory/places.md"),
        ("犬の名前", "memory/places.md"),
        ("योजना", "memory/places.md"),
        ("الطبيب", "memory/places.md"),
        ("cafe", "memory/places.md"),
        ("Hartman", "MEMORY.md"),
        ("a new membarne", "memory/2026-02-01.md"),
        ("Тринировка", "memory/2026-02-02.md"),
        ("🎉", "memory/places.md"),
        ("a828e60", "memory/projects/server.md"),
        ("memorySearch.query.hybrid", "memory/projects/server.md"),
        ("hybrid", "memory/projects/server.md"),
        ("openai api key", "memory/projects/server.md"),
        ("sqlite-vec unavailable", "memory/projects/server.md"),
        ("sqlite_vec", "memory/projects/server.md"),
        ("0.1.9", "memory/projects/server.md"),
        ("example.org", "memory/projects/server.md"),
        ("1,500", "memory/2026-03-10-budget.md"),
        ("10:30", "memory/2026-03-10-budget.md"),
        ("7 pm", "memory/regular.md"),
        ("Dec 14", "memory/regular.md"),
        ("12 May", "memory/regular.md"),
    ],
)
async def test_what_was_written_is_found_first(backend, query, path, paths_of):
    assert (await paths_of(backend, query))[:1] == [path]


@pytest.mark.parametrize("query", ["茶", "价", "회", "格"])
async def test_one_character_of_an_unspaced_script_finds_the_runs_that_hold_it(
    backend, query, paths_of
):
    assert await paths_of(backend, query)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("budget", "memory/2026-03-10-budget.md"),
        ("projects", "memory/projects/server.md"),
        ("2026-03-10", "memory/2026-03-10-budget.md"),
        ("10 March", "memory/2026-03-10-budget.md"),
        ("März", "memory/2026-03-10-budget.md"),
        ("2026-02-01", "memory/2026-02-01.md"),
    ],
)
async def test_name_path_and_date_of_a_note_are_found_though_its_text_says_nothing_of_them(
    backend, query, path, paths_of
):
    assert (await paths_of(backend, query, min_score=None))[:1] == [path]


@each("query", ["", "   ", "?!", '""', "*", "^", "()", "-", ":", "\x00", "\u0301"])
async def test_a_query_without_words_finds_nothing(backend, query, hits_of):
    assert await hits_of(backend, query) == ()


@each(
    "query",
    [
        '"boiler"', '"boiler', 'boiler"', "boiler*", "^boiler", "body:boiler", "{body context}: boiler",
        "-boiler", "NOT boiler", "boiler NOT", "boiler AND", "AND boiler", "OR", "NEAR(boiler)",
        "NEAR(boiler october, 2)", "(boiler", "boiler)", "boiler + october", "boiler\x00october", "boiler;",
        "boiler' OR 1=1 --", "boiler\\", "%boiler_", "rank MATCH boiler", "boiler\ud800", "boil\u200ber",
    ],
)  # fmt: skip
async def test_syntax_of_the_search_engine_is_plain_text(backend, query, paths_of):
    found = await paths_of(backend, query)
    assert found[:1] == ["MEMORY.md"] or query == "OR"


@pytest.mark.and_pooled
@pytest.mark.parametrize("length", [100_000, 1_000_000])
async def test_an_endless_query_is_answered(backend, length, paths_of):
    words = " ".join(f"word{number}" for number in range(length // 10))
    assert (await paths_of(backend, f"boiler Hartmann {words}"))[:1] == ["MEMORY.md"]
    assert await paths_of(backend, "x" * length) == []


async def test_any_word_may_match_and_more_words_rank_higher(backend, paths_of):
    found = await paths_of(backend, "membrane invoice dinosaurs")
    assert found == ["memory/2026-03-10-budget.md", "memory/2026-02-01.md"]


async def test_a_strong_hit_passes_the_default_threshold(backend, hits_of):
    (hit, *_) = await hits_of(backend, "boiler Hartmann", min_score=None, max_results=None)
    assert 0.6 < hit.score <= 1
    assert hit.confidence == "likely"
    assert 0.9 < hit.text_score <= 1
    assert hit.vector_score is None


async def test_the_threshold_is_a_threshold(backend, hits_of):
    scores = [hit.score for hit in await hits_of(backend, "membrane invoice boiler")]
    assert len(scores) >= 2
    for least in (0.0, *scores, 1.0):
        kept = await hits_of(backend, "membrane invoice boiler", min_score=least)
        assert all(hit.score >= least for hit in kept)
        assert len(kept) >= len([score for score in scores if score > least])


async def test_a_hit_is_a_passage_of_the_file_on_disk(backend, noted, hits_of):
    for query in ("boiler", "membrane", "茶叶", "a828e60 sqlite", "party"):
        for hit in await hits_of(backend, query):
            lines = (noted.workspace / hit.path).read_text(encoding="utf-8").split("\n")
            shown = "\n".join(lines[hit.start_line - 1 : hit.end_line])
            assert hit.snippet.removesuffix(shown) in ("", breadcrumb_of(hit.headings))
            assert hit.source == "memory"


async def test_an_explanation_is_given_only_when_asked_for(backend, hits_of):
    assert (await hits_of(backend, "boiler"))[0].explain is None
    explain = (await hits_of(backend, "boiler dinosaurs", explain=True))[0].explain
    assert explain is not None
    assert explain["matchedTerms"] == ["boiler"]
    assert (explain["askedTerms"], explain["unknownTerms"]) == (
        ["boiler", "dinosaur"],
        ["dinosaur"],
    )


async def test_stop_words_of_the_languages_of_notes_are_asked_for_only_where_a_note_has_them(
    home, hits_of
):
    home.write(
        "memory/one.md", "# Wizyty\n\n- Byłem u dentysty, a potem nie było czasu na lunch.\n"
    )
    home.write("memory/two.md", "# English\n\n- The hat is in the hall, and so is the umbrella.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())

        async def terms(question):
            explain = (await hits_of(backend, question, explain=True))[0].explain
            return explain["askedTerms"], explain["unknownTerms"]

        assert await terms("Kiedy dentysta?") == (["dentysta"], [])
        assert (await terms("nie hat"))[0] == ["nie", "hat"]


async def test_an_explanation_tells_how_the_words_were_scored_and_weighed(backend, hits_of):
    hit = (await hits_of(backend, "boiler dinosaurs", explain=True))[0]
    text = hit.explain["text"]
    assert 0 < text["raw"] < text["calibrated"] == hit.text_score
    assert (text["weight"], text["rank"]) == (1, 1)
    assert hit.explain["vector"] is None


async def test_an_explanation_tells_what_each_line_of_the_snippet_gave(backend, hits_of):
    for hit in await hits_of(backend, "boiler membrane greenhouse", explain=True):
        lines = hit.explain["lines"]
        text = hit.snippet.removeprefix(breadcrumb_of(hit.headings))
        shown = text.replace("\n…\n", "\n").split("\n")
        assert len(lines) == len(shown)
        assert sum(one["share"] for one in lines) == pytest.approx(1, abs=0.001)
        assert max(one["text"] for one in lines) == pytest.approx(hit.text_score, abs=1e-4)
        best = max(zip(lines, shown, strict=True), key=lambda pair: pair[0]["share"])[1]
        assert any(word in best for word in ("boiler", "membrane", "greenhouse"))
        assert all(one["share"] == 0 for one, line in zip(lines, shown, strict=True) if not line)


async def test_the_same_question_has_the_same_answer_each_time(backend, hits_of):
    answers = [await hits_of(backend, "membrane boiler server") for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.and_pooled
async def test_an_empty_index_answers_with_nothing(home, new_home, hits_of):
    async with new_home("empty").open() as backend:
        answer = await backend.search(SearchRequest(query="boiler"))
        assert (answer.hits, answer.outcome, answer.mode) == ((), "empty", "keyword")
        assert (await backend.sync(SyncRequest())).complete


async def test_a_missing_workspace_is_an_empty_memory(home, hits_of):
    home.workspace.rmdir()
    async with home.open() as backend:
        assert await hits_of(backend, "boiler") == ()
        status = await backend.status()
    assert any(str(home.workspace) in issue for issue in status.issues)
    assert status.sources[0].on_disk == 0


@pytest.mark.and_pooled
async def test_asking_for_fewer_gives_the_beginning_of_the_longer_answer(home, hits_of):
    for number in range(260):
        more = "pump " * (number % 7) + "valve " * (number % 3)
        home.write(f"memory/{number:03}.md", f"The boiler of house {number}. {more}\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        for query in ("boiler", "boiler pump valve", "house 17"):
            longest = await hits_of(backend, query, max_results=260)
            assert len(longest) > 200
            for count in (1, 6, 20, 25, 100, 250):
                assert await hits_of(backend, query, max_results=count) == longest[:count]
            assert all(one.score >= two.score for one, two in pairwise(longest))


async def test_repeated_text_is_one_hit(home, hits_of):
    for number in range(30):
        home.write(f"memory/{number}.md", "The boiler is old.\n")
    home.write("memory/other.md", "The boiler is new.\n")
    async with home.open() as backend:
        snippets = [hit.snippet for hit in await hits_of(backend, "boiler")]
    assert sorted(snippets) == ["The boiler is new.", "The boiler is old."]


@pytest.mark.and_pooled
class TestFilters:
    @pytest.fixture(scope="class")
    async def backend(self, lasting_home):
        """A hundred notes that match better than the one that is wanted."""
        home = lasting_home("filtered")
        for number in range(100):
            home.write(
                f"memory/2026-01-{number % 28 + 1:02}-{number}.md",
                f"boiler boiler pump {number:02}\n",
            )
        home.write("memory/projects/2025-06-15-old.md", f"{'other words ' * 40}\n\n- the boiler\n")
        home.write("memory/undated.md", f"{'more words ' * 30}\n\n- an undated boiler\n")
        async with home.open() as backend:
            await backend.sync(SyncRequest())
            yield backend

    @pytest.mark.parametrize(
        "filters",
        [
            {"include": ("memory/projects/**",)},
            {"include": ("nothing/**", "memory/projects/*.md")},
            {"exclude": ("memory/2026-*", "memory/undated.md")},
            {"include": ("memory/**",), "exclude": ("memory/*",)},
            {"before": date(2026, 1, 1)},
            {"after": date(2025, 6, 15), "before": date(2025, 6, 16)},
        ],
    )
    async def test_a_filter_limits_the_search_and_not_its_best_hits(
        self, backend, filters, paths_of
    ):
        for wanted in (1, 6):
            found = await paths_of(backend, "boiler", max_results=wanted, **filters)
            assert found == ["memory/projects/2025-06-15-old.md"]

    async def test_days_are_included_at_the_beginning_and_excluded_at_the_end(
        self, backend, paths_of
    ):
        days = {"after": date(2026, 1, 5), "before": date(2026, 1, 7)}
        found = await paths_of(backend, "boiler", **days)
        assert {path[7:17] for path in found} == {"2026-01-05", "2026-01-06"}

    @pytest.mark.parametrize("days", [{"after": date(1, 1, 1)}, {"before": date(9999, 12, 31)}])
    async def test_a_note_without_a_date_is_left_out_when_dates_are_asked_for(
        self, backend, days, paths_of
    ):
        found = await paths_of(backend, "boiler", max_results=200, **days)
        assert len(found) == 101
        assert "memory/undated.md" not in found

    @pytest.mark.parametrize(
        ("filters", "is_said"),
        [({"include": ("projects/**",)}, True), ({"tags": ("green",)}, True), ({}, False)],
    )
    async def test_an_answer_is_empty_with_a_reason_if_no_note_passes_the_filters(
        self, backend, filters, is_said
    ):
        answer = await backend.search(SearchRequest(query="membrane", **filters))
        assert (answer.outcome, answer.hits) == ("empty", ())
        assert ("No note passes the filters" in (answer.warning or "")) is is_said

    async def test_sources_that_hold_nothing_give_nothing(self, backend, paths_of):
        assert await paths_of(backend, "boiler", sources=("sessions",)) == []
        both = await paths_of(backend, "boiler", sources=("memory", "sessions"), max_results=200)
        assert len(both) == 102

    @pytest.mark.parametrize(
        "filters",
        [
            {"include": ("*.txt",)},
            {"exclude": ("**",)},
            {"after": date(2030, 1, 1)},
            {"include": ("",)},
        ],
    )
    async def test_filters_that_nothing_passes_give_nothing(self, backend, filters, hits_of):
        assert await hits_of(backend, "boiler", **filters) == ()

    async def test_a_filtered_answer_is_in_the_order_of_the_whole_one(self, backend, paths_of):
        everything = await paths_of(backend, "boiler pump 7", max_results=200)
        some = await paths_of(
            backend, "boiler pump 7", max_results=200, include=("memory/*-1*.md",)
        )
        assert len(some) > 10
        assert some == [path for path in everything if path in some]


async def test_headings_that_nothing_follows_stand_behind_lines_that_say_something(home, hits_of):
    home.write("memory/template.md", "# Dentist {{date}}\n\n## Tasks\n\n## Notes\n")
    home.write(
        "memory/teeth.md", "# Teeth\n\n- The dentist pulled one in May, which took an hour.\n"
    )
    home.write("memory/other.md", "# Garden\n\n- The hedge was cut.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        said, bare = await hits_of(backend, "dentist")
        assert (said.path, bare.path) == ("memory/teeth.md", "memory/template.md")
        assert said.score > 0.5 > bare.score


async def test_questions_whose_answer_is_not_there_score_low(backend, hits_of):
    questions = [
        "What is the submarine captain called?", "Which airline lost the violin?",
        "When does the volcano tour start?", "Who won the chess championship?",
        "Where is the skiing certificate?", "What does the astronaut eat?",
        "Which lawyer handles the divorce?", "How tall is the lighthouse?",
        "How many penguins live in the aquarium?", "What colour is the motorcycle?",
    ]  # fmt: skip
    for question in questions:
        assert all(hit.score < 0.75 for hit in await hits_of(backend, question)), question


async def test_a_snippet_that_leaves_lines_out_names_those_of_each_part(home, hits_of):
    lines = [f"- Filling words without any meaning, number {number}." for number in range(60)]
    lines[5], lines[40] = "- The boiler needs a membrane.", "- The boiler got its membrane."
    home.write("memory/2026-02-08.md", "\n".join(lines))
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        best, *_ = await hits_of(backend, "boiler membrane")
    parts = best.snippet.split("\n…\n")
    shown = ["\n".join(lines[one.start_line - 1 : one.end_line]) for one in best.stretches]
    assert len(parts) > 1
    assert shown == parts
    ends = best.stretches[0].start_line, best.stretches[-1].end_line
    assert (best.start_line, best.end_line) == ends


async def test_a_snippet_that_leaves_nothing_out_has_no_parts(home, hits_of):
    home.write("memory/2026-02-08.md", "- The boiler.\n- A boiler, too.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        (hit,) = await hits_of(backend, "boiler")
    assert (hit.snippet, hit.stretches) == ("- The boiler.\n- A boiler, too.", ())


@pytest.mark.parametrize(
    ("query", "today", "path"),
    [
        ("What happened yesterday?", date(2026, 2, 3), "memory/2026-02-02.md"),
        ("Was war gestern?", date(2026, 2, 3), "memory/2026-02-02.md"),
        ("昨天做了什么？", date(2026, 2, 2), "memory/2026-02-01.md"),
        ("что было в прошлом месяце?", date(2026, 4, 2), "memory/2026-03-10-budget.md"),
        ("10.3.2026", date(2026, 3, 12), "memory/2026-03-10-budget.md"),
    ],
)
async def test_a_time_in_a_question_speaks_for_the_notes_of_then(backend, query, today, path):
    answer = await backend.search(SearchRequest(query=query, today=today))
    assert [hit.path for hit in answer.hits][:1] == [path]


async def test_a_week_in_a_question_speaks_for_the_note_of_that_week(home):
    for week in ("2026-W05", "2026-W06", "2026-W07"):
        home.write(f"memory/{week}.md", "- Wrote the report.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        for query in ("last week", "week 6", "What did I do in KW 6?"):
            answer = await backend.search(SearchRequest(query=query, today=date(2026, 2, 10)))
            assert answer.hits[0].path == "memory/2026-W06.md"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("the tyres, last month", "2026-02-14"),
        ("tyres this month", "2026-03-14"),
        ("tyres between 10 and 20 January 2026", "2026-01-14"),
        ("Reifen? tyres, im Januar", "2026-01-14"),
    ],
)
async def test_a_time_puts_the_notes_of_then_first_and_hides_none(home, query, first):
    seasons = {"2026-01-14": "winter", "2026-02-14": "summer", "2026-03-14": "bicycle"}
    for day, season in seasons.items():
        home.write(f"memory/{day}.md", f"- Paid for the {season} tyres.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        asked = SearchRequest(query=query, today=date(2026, 3, 20), min_score=0)
        answer = await backend.search(asked)
    paths = [hit.path for hit in answer.hits]
    assert paths[0] == f"memory/{first}.md"
    assert len(paths) == len(seasons)


async def test_a_question_without_a_time_has_the_same_answer_on_every_day(backend):
    answers = [
        await backend.search(SearchRequest(query="membrane heating", today=day, explain=True))
        for day in (None, date(2026, 2, 2), date(2031, 1, 1))
    ]
    assert answers[0].hits == answers[1].hits == answers[2].hits
    assert all("time" not in hit.explain for hit in answers[0].hits)


async def test_an_explanation_tells_the_days_that_were_understood(backend):
    request = SearchRequest(query="membrane last month", today=date(2026, 3, 2), explain=True)
    hits = (await backend.search(request)).hits
    explained = {hit.path: hit.explain["time"] for hit in hits}
    days = {"text": "last month", "from": "2026-02-01", "to": "2026-02-28"}
    assert explained["memory/2026-02-01.md"] == [days | {"matches": True}]
    assert explained["memory/2026-03-10-budget.md"] == [days | {"matches": False}]


async def test_the_patterns_of_days_are_compiled_before_anybody_asks_for_one(home, monkeypatch):
    monkeypatch.setattr(backend_module, "LOADING_AFTER_S", 0.0)
    times._spaced_forms.cache_clear()
    times._unspaced_forms.cache_clear()
    home.write("MEMORY.md", NOTES["MEMORY.md"])
    async with home.open():
        with anyio.fail_after(60):
            while not times._unspaced_forms.cache_info().currsize:
                await anyio.sleep(0.02)
            while not times._spaced_forms.cache_info().currsize:
                await anyio.sleep(0.02)
