"""`report` on a real memory: the file that it writes, and the files that it does not replace."""

from __future__ import annotations

import os
import stat
import webbrowser

import pytest

from gateway.cli.rendering.page import BEGINNING


@pytest.fixture
def page(tmp_path):
    return tmp_path / "report.html"


def test_a_report_is_one_private_page_about_what_is_indexed(indexed, page):
    done = indexed("report", "--output", str(page))
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{page}: open it in any browser.\n"
    text = page.read_text(encoding="utf-8")
    assert text.startswith(BEGINNING)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    for said in (
        "4 of 4",
        "2026-02-01",
        "No gateway runs for this memory",
        "Nothing was left out.",
    ):
        assert said in text


def test_a_question_shows_what_was_found_and_why(indexed, page):
    assert indexed("report", "-o", str(page), "--question", "greenhouse sensor").code == 0
    text = page.read_text(encoding="utf-8")
    assert "memory/2026-02-01.md:" in text
    assert "<mark>greenhouse</mark> <mark>sensor</mark>" in text
    assert "<td>words</td>" in text
    assert "by words alone" in text


def test_what_is_not_indexed_is_counted_by_reason(cli, page):
    notes = cli.workspace / "memory"
    for number in range(3):
        (notes / f"link{number}.md").symlink_to(notes / "2026-02-01.md")
    os.link(notes / "2026-02-01.md", notes / "same.md")
    assert cli("index").code == 0
    skipped = cli.json("report")["status"]["details"]["skipped"]
    assert skipped == {
        "symbolic link; links are never followed": 3,
        "the same file as another one": 1,
    }
    assert cli("report", "-o", str(page)).code == 0
    assert "the same file as another one</td><td" in page.read_text(encoding="utf-8")


def test_hostile_names_and_notes_are_text(cli, page):
    name = "memory/<img src=x onerror=alert(1)>\u202e'\".md"
    cli.write(name, "# </pre><script>alert(1)</script>\n\n- The xylophone is tuned.\n")
    assert cli("index").code == 0
    assert cli("report", "-o", str(page), "-q", "<script>xylophone").code == 0
    text = page.read_text(encoding="utf-8")
    assert "xylophone" in text
    assert "&lt;script&gt;" in text
    assert text.count("<script") == 1
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "\u202e" not in text


def test_the_data_can_be_had_as_json_without_a_page(indexed):
    found = indexed.json("report", "--question", "boiler")
    assert found["status"]["files"] == 4
    assert sum(one["files"] for one in found["overview"]["days"]) == 4
    assert found["counted"] is None
    assert found["answer"]["results"][0]["path"] == "MEMORY.md"


def test_a_report_is_replaced_by_the_next_one(indexed, page):
    for _ in range(2):
        assert indexed("report", "-o", str(page)).code == 0
    assert list(page.parent.glob(".report*")) == []


def test_another_file_is_replaced_only_by_force(indexed, page):
    for text in ("precious", "", BEGINNING[:-1], "<!doctype html>\n<html>"):
        page.write_text(text, encoding="utf-8")
        done = indexed("report", "-o", str(page))
        assert (done.code, done.out) == (os.EX_CANTCREAT, "")
        assert "exists and is no report" in done.err
        assert "--force" in done.err
        assert page.read_text(encoding="utf-8") == text
    assert indexed("report", "-o", str(page), "--force").code == 0
    assert page.read_text(encoding="utf-8").startswith(BEGINNING)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda at: at.symlink_to(os.devnull)])
def test_what_is_no_regular_file_is_never_replaced(indexed, page, make):
    make(page)
    before = page.lstat()
    done = indexed("report", "-o", str(page), "--force")
    assert done.code == os.EX_CANTCREAT
    assert "is not a regular file" in done.err
    assert page.lstat().st_ino == before.st_ino


def test_a_place_that_does_not_exist_is_named(indexed, tmp_path):
    done = indexed("report", "-o", str(tmp_path / "no/where.html"))
    assert done.code == os.EX_CANTCREAT
    assert "cannot be written: No such file or directory." in done.err


def test_without_a_file_it_says_what_to_give(indexed):
    done = indexed("report")
    assert done.code == os.EX_USAGE
    assert "--output" in done.err


def test_a_dash_prints_the_page_and_makes_no_file_of_that_name(indexed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = indexed("report", "--output", "-")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(BEGINNING)
    assert not (tmp_path / "-").exists()
    assert indexed("report", "--output", "-", "--json").code == os.EX_USAGE


def test_a_memory_that_was_never_indexed_is_indexed_first(cli, page):
    assert cli("report", "-o", str(page)).code == 0
    text = page.read_text(encoding="utf-8")
    assert "4 of 4" in text
    assert "Nothing is indexed yet" not in text


def test_the_notes_are_counted_before_the_figures_and_their_text_is_there_if_asked_for(cli, page):
    cli.write(
        "memory/a.md",
        "---\ntags: [house]\n---\n\n# Boiler\n\n- Ask Nora, see [[Pump]] [x](javascript:y)\n",
    )
    cli.write(
        "memory/b.md", "# Pump\n\n- Bought with Nora\n\n| a | b |\n|:--|--|\n| quince | jam |\n"
    )
    cli.write("memory/日記.md", "# 日記\n\n京都へ行きました。\n")
    known = cli.json("report")["known"]
    assert known["tags"] == [{"tag": "house", "notes": 1}]
    assert {"name": "Nora", "notes": ["memory/a.md", "memory/b.md"]} in known["named"]
    assert known["links"]["memory/b.md"]["from"] == ["memory/a.md"]
    assert {"language": "japanese", "files": 1} in known["languages"]
    assert known["texts"] == {}
    assert cli("report", "-o", str(page)).code == 0
    text = page.read_text(encoding="utf-8")
    assert f'href="{(cli.workspace / "memory/a.md").as_uri()}"' in text
    assert "quince" not in text
    assert "left out by" not in text, "of rules that left something out"
    assert ">Mo<" in text
    assert text.index(">Calendar<") < text.index(">Japanese<") < text.index("For whoever runs it")
    assert cli("report", "-o", str(page), "--with-text").code == 0
    text = page.read_text(encoding="utf-8")
    assert "<td>quince</td>" in text
    assert "[x](javascript:y)" in text
    assert "tags: [house]" not in text


def test_open_shows_the_page_in_the_browser(indexed, tmp_path, monkeypatch):
    seen = tmp_path / "seen"
    # the browsers are looked up once per process: those of this test are forgotten after it
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setenv("BROWSER", f"sh -c 'printf %s \"$0\" > {seen}' %s")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert indexed("report", "--open").code == 0
    assert seen.read_text(encoding="utf-8") == (tmp_path / "memory-report.html").as_uri()
    assert indexed("report", "--open", "--output", "-").code == os.EX_USAGE
