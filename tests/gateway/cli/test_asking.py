"""`search` and `get`: the output, the messages beside it, and the exit codes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest


def test_search_shows_score_place_and_passage(indexed):
    done = indexed("search", "heating pump membrane")
    assert (done.code, done.err) == (0, "")
    first, passage = done.out.split("\n", 1)
    assert re.fullmatch(r"[01]\.\d{3} memory/2026-02-01\.md:\d+-\d+  likely", first)
    assert "- Ordered a new membrane for the heating pump.\n" in passage
    assert "Source:" not in passage


def test_search_without_an_index_finds_what_is_on_the_disk(cli):
    assert cli.json("search", "boiler")["results"][0]["path"] == "MEMORY.md"


def test_the_words_of_a_query_need_no_quotes(indexed):
    done = indexed("search", "heating", "pump", "membrane")
    assert "memory/2026-02-01.md" in done.out.split("\n")[0]


def test_search_as_json_is_the_whole_result(indexed):
    result = indexed.json("search", "茶叶价格", "--explain", "--max-results", "1")
    (hit,) = result["results"]
    assert hit["path"] == "memory/2026-02-02.md"
    assert "茶叶的价格" in hit["snippet"]
    assert "explain" in hit
    assert (result["outcome"], result["backend"], result["mode"]) == ("ok", "builtin", "keyword")


def test_search_explains_itself_to_people_too(indexed):
    done = indexed("search", "boiler", "--explain")
    assert "\n  words: boiler: 100% of what the question says; score " in done.out
    assert "\n  meaning: not compared\n  age: without a date\n  order: by words alone\n" in done.out
    assert done.err.startswith("Time (ms): ")


def test_no_hit_says_what_was_searched_and_ends_with_one(indexed):
    done = indexed("search", "xylophone")
    assert done.code == 1
    assert done.out == "No matches. Searched 4 files in ~/.openclaw/workspace.\n"
    assert done.err.startswith("Note: Only words were compared, not their meaning")
    assert "`memory-gateway models suggest` adds meaning" in done.err
    assert indexed.json("search", "xylophone")["outcome"] == "empty"


def test_that_meaning_is_missing_is_said_once_and_where_somebody_asks_why(indexed):
    hint = "Only words were compared"
    assert hint in indexed("search", "xylophone").err
    assert indexed("search", "xylophones").err == ""
    assert hint in indexed("search", "xylophones", "--explain").err
    assert hint in indexed.json("search", "xylophone")["warning"]


def test_a_source_that_is_not_indexed_is_not_said_to_have_been_searched(indexed):
    done = indexed("search", "boiler", "--source", "sessions")
    assert (done.code, done.out) == (69, "")
    assert done.err.startswith("Past conversations were not searched: they are not indexed")
    result = indexed.json("search", "boiler", "--source", "sessions", code=69)
    assert (result["results"], result["outcome"]) == ([], "disabled")


@pytest.mark.parametrize("form", [[], ["-l"], ["--format", "{path}"]])
def test_a_search_that_was_not_made_says_why_in_every_form_and_is_no_success(cli, form):
    cli.configure({"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
    done = cli("search", "boiler", *form)
    assert (done.code, done.out) == (69, "")
    assert "enabled" in done.err


def test_a_search_in_an_empty_workspace_doubts_the_workspace(cli):
    (cli.home / "elsewhere").mkdir()
    done = cli(
        "search",
        "tea",
        "--workspace",
        str(cli.home / "elsewhere"),
        "--state-dir",
        str(cli.home / "s"),
    )
    assert done.out == (
        "No matches. Nothing is indexed: is ~/elsewhere the right folder? "
        "Of a folder of notes, files that end in .md are read.\n"
    )


def test_every_form_of_an_answer_says_that_nothing_is_indexed_and_why(cli):
    folder = cli.home / "notes"
    folder.mkdir()
    (folder / "tea.md").write_text("The tea is green.\n", encoding="utf-8")
    wrong = ("search", "tea", "--workspace", str(folder), "--state-dir", str(cli.home / "s"))
    why = f"Nothing is indexed in {folder}: 1 .md file is here (tea.md), none of them MEMORY.md, "
    assert cli.json(*wrong)["warning"].startswith(why)
    for form in (["-l"], ["--format", "{path}"]):
        done = cli(*wrong, *form)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(f"Note: {why}")
    plain = cli(*wrong)
    assert "to search them use --notes with this folder" in plain.out
    assert plain.err == ""


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        (["--include", "memory/projects/*"], {"memory/projects/server.md"}),
        (["--exclude", "memory/2026-02-01.md"], {"memory/projects/server.md"}),
        (["--after", "2026-02-01", "--before", "2026-02-02"], {"memory/2026-02-01.md"}),
        (["--source", "sessions"], set()),
        (["--min-score", "1"], set()),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_limits_of_a_search_are_kept(indexed, limits, found):
    code = 69 if "sessions" in limits else 0
    result = indexed.json("search", "a828e60 greenhouse sensor", *limits, code=code)
    assert {hit["path"] for hit in result["results"]} == found


def test_the_last_days_may_be_named_in_several_ways(indexed):
    today = datetime.now().astimezone().date()
    for name, back in (("today", 0), ("yesterday", 1), ("before", 2)):
        day = today - timedelta(days=back)
        indexed.write(f"memory/{day.isoformat()}.md", f"The kestrel of {name}.\n")

    def found(*limits):
        result = indexed.json("search", "kestrel", "-n", "9", *limits)
        return sorted(hit["snippet"].split()[-1] for hit in result["results"])

    assert found() == ["before.", "today.", "yesterday."]
    assert found("--days", "2") == found("--since", "yesterday") == ["today.", "yesterday."]
    assert found("--after", "today") == found("--days", "1") == ["today."]
    assert found("--before", "yesterday") == ["before."]


def test_the_last_days_end_today(indexed):
    today = datetime.now().astimezone().date()
    for name, ahead in (("today", 0), ("tomorrow", 1), ("later", 40)):
        day = today + timedelta(days=ahead)
        indexed.write(f"memory/{day.isoformat()}.md", f"The kestrel of {name}.\n")

    def found(*limits):
        result = indexed.json("search", "kestrel", "-n", "9", *limits)
        return sorted(hit["snippet"].split()[-1] for hit in result["results"])

    assert found("--days", "3") == ["today."]
    later = (today + timedelta(days=9)).isoformat()
    assert found("--days", "3", "--before", later) == ["today."]
    assert found("--after", "today") == ["later.", "today.", "tomorrow."]


def test_a_note_can_send_no_escape_sequence_and_is_never_markup(cli):
    cli.write("memory/evil.md", "The kestrel \x1b]0;owned\x07 flew [red]away[/red].\n")
    shown = cli("search", "kestrel").out
    assert "The kestrel \\x1b]0;owned\\x07 flew [red]away[/red]." in shown
    assert "\x1b" not in shown


def test_get_prints_the_file_as_it_is(cli):
    text = "# Tea\n\n\t[b]茶[/b] :tea: \x1b[1m\n"
    cli.write("memory/tea.md", text)
    done = cli("get", "memory/tea.md")
    assert (done.code, done.err) == (0, "")
    assert done.out.rstrip("\n") == text.rstrip("\n")


def test_get_prints_some_lines(cli):
    done = cli("get", "memory/2026-02-01.md", "--from", "3", "--lines", "1")
    assert done.out.rstrip("\n") == "- The greenhouse sensor reported minus four degrees."


def test_get_of_a_missing_file_says_so_with_66(cli):
    done = cli("get", "memory/2027-01-01.md")
    assert (done.code, done.out) == (66, "")
    assert done.err.startswith("memory-gateway: There is no file memory/2027-01-01.md.\n")


@pytest.mark.parametrize("path", ["/etc/passwd", "../openclaw.json", "memory/notes.txt"])
def test_get_of_anything_but_memory_is_refused_with_77(cli, path):
    done = cli("get", path)
    assert (done.code, done.out) == (77, "")
    assert "not allowed" in done.err
    assert cli.json("get", path, code=77)["error"]["kind"] == "path_not_allowed"


@pytest.mark.parametrize(
    "place", ["memory/2026-02-01.md:3-4", "memory/2026-02-01.md#L3-L4", "memory/2026-02-01.md:3-04"]
)
def test_get_takes_the_lines_as_search_prints_and_cites_them(cli, place):
    done = cli("get", place)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "- The greenhouse sensor reported minus four degrees.\n"
        "- Ordered a new membrane for the heating pump.\n"
    )


def test_get_takes_one_line_and_what_options_say_comes_first(cli):
    assert cli("get", "memory/2026-02-01.md:3").out.startswith("- The greenhouse sensor")
    assert cli("get", "memory/2026-02-01.md:3", "--from", "4").out.startswith("- Ordered")


def test_every_place_that_search_prints_can_be_got(indexed):
    place = indexed("search", "membrane").out.split("\n")[0].split()[1]
    assert "- Ordered a new membrane" in indexed("get", place).out


def test_some_lines_end_like_lines(cli):
    cli.write("memory/open.md", "one\ntwo")
    assert cli("get", "memory/open.md", "--lines", "1").out == "one\n"
    assert cli("get", "memory/open.md", "--from", "2", "--lines", "1").out == "two\n"
    assert cli("get", "memory/open.md").out == "one\ntwo"  # for programs, the file as it is


def test_lines_beyond_the_end_are_said_to_be_there_with_66(cli):
    done = cli("get", "MEMORY.md", "--from", "50")
    assert done == (66, "", "memory-gateway: MEMORY.md ends before line 50.\n")
