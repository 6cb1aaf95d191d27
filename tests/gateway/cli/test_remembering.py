"""`remember` writes to the log, under the limits of the method, for the user at the machine."""

from __future__ import annotations

import json
from datetime import datetime
from shutil import rmtree

import pytest

from gateway.cli import output


def test_what_is_remembered_stands_in_todays_log_and_is_found(indexed):
    place = indexed("remember", "The kingfisher", "came back.").out.strip()
    path, lines = place.split(":")
    assert path.startswith("memory/")
    assert lines == "3-3"
    assert indexed("get", place).out == "- The kingfisher came back.\n"
    (hit,) = indexed.json("search", "kingfisher")["results"]
    assert hit["path"] == path


@pytest.mark.parametrize("text", ["- an item", "1. a step", "# a heading", "two\nlines", "> said"])
def test_what_is_markdown_already_stays_as_it_is(cli, text):
    place = cli("remember", text).out.strip()
    assert cli("get", place).out == f"{text}\n"


def test_it_is_appended_and_nothing_that_was_there_changes(cli):
    before = (cli.workspace / "MEMORY.md").read_text(encoding="utf-8")
    added = cli.json("remember", "- Tea is in the tin.", "--longterm")
    assert added["path"] == "MEMORY.md"
    after = (cli.workspace / "MEMORY.md").read_text(encoding="utf-8")
    assert after == before + "- Tea is in the tin.\n"


def test_scope_and_the_switch_are_for_agents(cli):
    cli.configure({"memory": {"scope": {"default": "deny"}, "append": {"enabled": False}}})
    assert cli("remember", "- The kettle is descaled.").code == 0


@pytest.mark.parametrize("text", [" ", "a\x1b[31m", "x" * 65_537])
def test_the_limits_are_those_of_the_method(cli, text):
    done = cli("remember", text)
    assert (done.code, done.out) == (64, "")
    assert "text" in done.err


def test_a_link_in_place_of_the_log_is_refused(cli):
    (cli.workspace / "MEMORY.md").unlink()
    (cli.workspace / "MEMORY.md").symlink_to(cli.home / "elsewhere.md")
    assert cli("remember", "x", "--longterm").code == 77
    assert not (cli.home / "elsewhere.md").exists()


def test_memory_that_is_off_is_not_written_and_says_so(cli):
    cli.configure({"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
    done = cli("remember", "x")
    assert done.code == 69
    assert "enabled" in done.err


@pytest.fixture
def folder(cli):
    place = cli.home / "notes"
    place.mkdir()
    (place / "Boiler.md").write_text("# Boiler\n", encoding="utf-8")
    return place


def remember_in(cli, folder, *options):
    return cli("remember", "--notes", str(folder), "The kettle is new.", *options)


def test_in_a_persons_notes_it_stands_in_the_daily_note_as_that_person_keeps_it(cli, folder):
    today = datetime.now().astimezone().date()
    (folder / "journals").mkdir()
    (folder / "journals/2020_01_02.md").write_text("- Snow.\n", encoding="utf-8")
    done = remember_in(cli, folder)
    assert done.out == f"journals/{today:%Y_%m_%d}.md:1-1\n", done.err
    outside = cli.home / "outside.json"
    outside.write_text(json.dumps({"folder": "Elsewhere"}), encoding="utf-8")
    settings = folder / ".obsidian/daily-notes.json"
    settings.parent.mkdir()
    settings.symlink_to(outside)
    assert remember_in(cli, folder).out == f"journals/{today:%Y_%m_%d}.md:2-2\n"
    settings.unlink()
    settings.write_text(json.dumps({"folder": "My days", "format": "YYYY/YYYY-MM-DD"}))
    assert remember_in(cli, folder).out == f"My days/{today:%Y/%Y-%m-%d}.md:1-1\n"
    assert not (folder / "memory").exists()


def test_nothing_is_written_where_no_search_would_find_it(cli, folder):
    (folder / ".gitignore").write_text("memory/\n", encoding="utf-8")
    (folder / "memory").mkdir()
    done = remember_in(cli, folder)
    assert (done.code, done.out) == (73, "")
    assert "left out by a .memoryignore" in done.err
    assert list((folder / "memory").iterdir()) == []
    (folder / ".memoryignore").write_text("!memory/\n", encoding="utf-8")
    assert remember_in(cli, folder).out.startswith("memory/")


def test_a_new_folder_is_made_only_for_who_agrees(cli, folder, monkeypatch):
    alone = remember_in(cli, folder)
    assert (alone.code, alone.out) == (64, "")
    assert "--yes" in alone.err
    monkeypatch.setattr(output, "may_ask", lambda: True)
    monkeypatch.setattr(output, "ask", lambda question, *, default: False)
    assert "Nothing was written" in remember_in(cli, folder).err
    assert [one.name for one in folder.iterdir()] == ["Boiler.md"]
    assert cli("remember", "--notes", str(folder), "--yes", " ").code == 64
    assert not (folder / "memory").exists()
    assert remember_in(cli, folder, "--yes").out.startswith("memory/")
    assert remember_in(cli, folder).out.startswith("memory/")  # which is there now


def test_an_entry_for_a_workspace_that_is_missing_is_refused_with_its_place(cli):
    rmtree(cli.workspace)
    done = cli("remember", "The boiler has 1.4 bar.")
    assert (done.code, done.out) == (73, "")
    assert f"cannot be written: {cli.workspace} does not exist." in done.err
    assert "permissions" not in done.err and not cli.workspace.exists()
