"""`recent`, `tags`, `links`, `open`, `search --tag` and `get` by name, on a folder of notes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from shutil import rmtree

import pytest
from msgspec.structs import replace

from backends.files.scan import FailedDirectory, scan
from gateway.cli.places import keep_hits
from gateway.escaping import visible_line

NOTES = {
    "house/Heizung.md": (
        "---\naliases: [Boiler]\ntags: [house]\n---\n"
        "# Heizung\n\nSee [[Garden]], [[Nowhere]]. #house/heating\n"
    ),
    "Garden.md": "# Garden\n\n`#code` #outside\n",
    "Daily/2026-02-08.md": "# Day\n\n[[Boiler]] was serviced. #outside\n",
    "Daily/2026_02_09.md": "Nothing links here.\n",
}


@pytest.fixture
def vault(cli, tmp_path, monkeypatch):
    for path, text in NOTES.items():
        file = tmp_path / "vault" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lambda *arguments: cli(arguments[0], "--notes", str(tmp_path / "vault"), *arguments[1:])


def test_tags_are_counted_with_those_below_them_most_frequent_first(vault):
    shown = vault("tags").out.split()
    assert shown == ["2", "#outside", "1", "#house", "1", "#house/heating"]
    assert json.loads(vault("tags", "--json").out)[0] == {"tag": "outside", "notes": 2}


def test_notes_are_listed_newest_first_and_by_tag(vault):
    assert [line.split()[1] for line in vault("recent").out.splitlines()][2:] == [
        "Daily/2026_02_09.md",
        "Daily/2026-02-08.md",
    ]
    by_tag = vault("search", "--tag", "house")
    assert (by_tag.code, by_tag.out.split()[1:3]) == (0, ["house/Heizung.md", "Heizung"])
    assert vault("search", "--tag", "nothing").code == 1
    assert vault("search").code == 64


def test_a_note_of_a_day_to_come_is_listed_with_that_day_where_its_last_change_puts_it(
    vault, tmp_path
):
    plan = tmp_path / "vault/2099-01-01.md"
    plan.write_text("A plan.\n", encoding="utf-8")
    os.utime(plan, (0, 0))
    assert vault("recent").out.splitlines()[-1] == "2099-01-01  2099-01-01.md"
    (listed,) = [one for one in json.loads(vault("recent", "--json").out) if "2099" in one["path"]]
    assert listed["day"] == "2099-01-01"


def test_what_a_template_has_in_place_of_a_title_is_none(vault, tmp_path):
    for name, title in (("Day", "{{date:YYYY-MM-DD}}"), ("Person", "<% tp.file.title %>")):
        (tmp_path / f"vault/{name}.md").write_text(f"# {title}\n", encoding="utf-8")
    listed = vault("recent").out
    assert "Day.md\n" in listed and "Person.md\n" in listed


def test_a_question_among_notes_with_a_tag_finds_one_that_has_it_in_its_text_alone(vault):
    assert vault("search", "--tag", "outside", "Garden", "-l").out == "Garden.md\n"


@pytest.mark.parametrize("count", [("-n", "2"), ("-n2",), ("--max-results", "2")])
def test_a_number_of_notes_is_no_folder(vault, count):
    assert len(vault("recent", *count).out.splitlines()) == 2


def test_all_links_of_a_note_count_but_those_in_code(vault, tmp_path):
    links = " ".join(f"[[n{number}]]" for number in range(150))
    (tmp_path / "vault/All.md").write_text(
        f"{links} [[Garden]] `[[Boiler]]` ``[[Boiler]]``\n", encoding="utf-8"
    )
    found = json.loads(vault("links", "All", "--json").out)
    assert (found["to"], len(found["missing"])) == (["Garden.md"], 150)


def test_markdown_links_to_notes_are_links_too_and_lead_from_where_they_stand(vault, tmp_path):
    (tmp_path / "vault/house/My tools.md").write_text("The saw.\n", encoding="utf-8")
    (tmp_path / "vault/house/Plan.md").write_text(
        '[boiler](Heizung.md#valve), [tools](<My tools.md>), [again](My%20tools.md "My tools"),'
        " [up](../Daily/2026_02_09.md), [whole](Daily/2026_02_09.md), [gone](./gone.md), ![picture](Heizung.md),"
        " [web](https://example.org/a.md), [web](<https://example.org/b.md>), `[code](Boiler.md)`, [file](plan.pdf)\n",
        encoding="utf-8",
    )
    found = json.loads(vault("links", "Plan", "--json").out)
    assert found["to"] == ["house/Heizung.md", "house/My tools.md", "Daily/2026_02_09.md"]
    assert found["missing"] == ["./gone.md"]
    assert "→ ./gone.md, which is no note yet" in vault("links", "Plan").out
    assert "house/Plan.md" in json.loads(vault("links", "My tools", "--json").out)["from"]


def test_links_lead_to_and_from_a_note_whatever_it_is_called_by(vault):
    shown = vault("links", "heizung").out
    assert shown.startswith("house/Heizung.md links to 1, and 1 link to it.\n")
    assert "→ Garden.md\n" in shown
    assert "← Daily/2026-02-08.md\n" in shown
    assert "[[Nowhere]], which is no note yet" in shown
    assert vault("links", "xylophone").code == 66


def test_a_path_leads_to_its_very_note_and_may_be_absolute(vault, tmp_path):
    (tmp_path / "vault/GARDEN.md").write_text("# Other\n", encoding="utf-8")
    for path in ("Garden.md", "./house/../Garden.md", f"{tmp_path}/vault/Garden.md"):
        assert vault("links", path).out.startswith("Garden.md links to")
        assert vault("open", path, "--editor", "cat").code == 0
    assert vault("links", "GARDEN.md").out.startswith("GARDEN.md links to")


@pytest.mark.parametrize("name", ["Heizung", "heizung", "Boiler", "Heizunk"])
def test_a_note_is_read_by_its_name_an_alias_or_a_near_miss(vault, name):
    done = vault("get", name)
    assert (done.code, done.out) == (0, NOTES["house/Heizung.md"])
    assert "house/Heizung.md" in done.err


def test_a_note_is_opened_in_the_editor_at_the_line(vault, tmp_path, monkeypatch):
    editor = tmp_path / "nano"
    editor.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/told\n', encoding="utf-8")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    assert vault("open", "Boiler", "--line", "3").code == 0
    arguments = (tmp_path / "told").read_text(encoding="utf-8")
    assert arguments == f"+3 {tmp_path}/vault/house/Heizung.md\n"
    assert vault("open", "1").code == 66


def test_the_number_of_a_hit_opens_it_at_its_line_in_obsidian_too(vault, tmp_path, monkeypatch):
    place = str(tmp_path / "vault/house/Heizung.md")
    keep_hits([("/elsewhere.md", 1), (place, 6)])
    for name in ("vi", "xdg-open"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/{name}.told\n', encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert vault("open", "2", "--editor", "vi").code == 0
    assert (tmp_path / "vi.told").read_text(encoding="utf-8") == f"+6 {place}\n"
    assert vault("open", "2", "--editor", "obsidian").code == 0
    arguments = (tmp_path / "xdg-open.told").read_text(encoding="utf-8")
    assert arguments == f"obsidian://open?path={place}\n"
    assert vault("open", "3").code == 66


@pytest.mark.parametrize("name", ["odd\nname.md", "sub/odd\u202ename.md"])
def test_a_note_is_found_by_its_path_as_it_is_shown(vault, tmp_path, monkeypatch, name):
    (tmp_path / "vault/sub").mkdir()
    (tmp_path / "vault" / name).write_text("The kestrel.\n", encoding="utf-8")
    shown = vault("search", "kestrel", "--format", "{path}").out.strip()
    assert shown == visible_line(name) != name
    done = vault("get", shown)
    assert (done.code, done.out, done.err) == (0, "The kestrel.\n", "")
    assert vault("get", f"{shown}:1").out == "The kestrel.\n"
    assert vault("open", shown, "--editor", "true").code == 0


def test_a_name_that_no_note_has_is_told_with_those_that_are_somewhat_near(cli):
    cli.write("memory/Evelyn.md", "# Evelyn\n\n- plays the cello\n")
    done = cli("get", "Evl")
    assert (done.code, done.out) == (66, "")
    assert done.err == "memory-gateway: There is no note Evl.\n  Do you mean memory/Evelyn.md?\n"
    assert cli("get", "Zzyzx").err.startswith("memory-gateway: There is no note Zzyzx.\n  `")


def test_no_other_note_is_given_for_a_name_that_only_sounds_like_it(cli):
    cli.write("memory/boiler.md", "---\naliases: [Gastherme]\n---\n- serviced\n")
    cli.write("memory/2026-11-23.md", "- today\n")
    assert cli("get", "Gasterme").out.endswith("- serviced\n")
    for wrong in ("nothere", "master", "2026-11-22"):
        found = cli.json("get", wrong, code=66)
        assert found["error"]["kind"] == "file_unreadable"
        assert found["error"]["remedy"]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("vim -c 'set nu", "no closing quotation"),
        ("vim \\", "no escaped character"),
        ("'", "no closing quotation"),
        ("''", "it names no program"),
    ],
)
def test_an_editor_that_is_no_command_is_refused_with_the_place_that_names_it(
    vault, monkeypatch, command, problem
):
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.setenv(name, command)
        done = vault("open", "Garden")
        assert done.code == 64
        assert f"{name}: {command!r} is no command: {problem}." in done.err
    assert (
        f"--editor: {command!r} is no command" in vault("open", "Garden", "--editor", command).err
    )


def test_a_blank_editor_is_none(vault, tmp_path, monkeypatch):
    monkeypatch.setenv("VISUAL", " ")
    monkeypatch.setenv("EDITOR", "true")
    assert vault("open", "Garden", "--editor", "  ").code == 0
    monkeypatch.setenv("EDITOR", "\t")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "No editor is named" in vault("open", "Garden").err


def test_an_editor_that_fails_fails_the_command_with_its_exit_code_told(vault, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    done = vault("open", "Boiler", "--editor", "false")
    assert (done.code, done.out) == (64, "")
    assert "'false' ended with exit code 1" in done.err


@pytest.mark.parametrize("command", ["links", "open"])
@pytest.mark.parametrize("name", ["", " "])
def test_no_name_is_the_name_of_no_note_though_one_has_no_title(vault, tmp_path, command, name):
    (tmp_path / "vault/untitled.md").write_text("Just a line.\n", encoding="utf-8")
    assert vault(command, name).code == 66


@pytest.mark.parametrize(("closed", "code"), [(".", 1), ("house", 0)])
def test_a_folder_that_may_not_be_read_is_told_instead_of_nothing(
    vault, tmp_path, monkeypatch, closed, code
):
    def scanned(roots):  # root can list every directory
        whole = scan(roots)
        left = [one for one in whole.files if closed == "house" and "house/" not in one.path]
        failed = FailedDirectory(closed, "Permission denied")
        return replace(whole, files=tuple(left), failed_dirs=(failed,))

    monkeypatch.setattr("gateway.cli.vault.scan", scanned)
    place = Path(tmp_path, "vault", closed)
    for command in (("recent",), ("tags",), ("search", "--tag", "x"), ("links", "Heizung")):
        messages = vault(*command).err
        assert f"Notes may be missing: {place} cannot be read (Permission denied)." in messages
        assert "There are no notes" not in messages and "No note has" not in messages
    assert vault("recent").code == code


def test_where_there_are_no_notes_at_all_the_place_and_the_way_to_others_are_told(cli, tmp_path):
    (tmp_path / "empty").mkdir()
    for command in ("recent", "tags"):
        done = cli(command, "--notes", str(tmp_path / "empty"))
        assert done.code == 1 and "no notes in ~/empty. `memory-gateway setup`" in done.err
    rmtree(cli.workspace)
    for command in (("get", "house.md"), ("get", "house"), ("links", "house"), ("open", "house")):
        told = cli(*command)
        assert told.code == 66 and f"There is no note {command[1]}." in told.err
        assert "does not exist (yet). `memory-gateway setup` asks where" in told.err
    for command in ("recent", "tags"):
        done = cli(command)
        assert done.code == 1 and f"{cli.workspace} does not exist (yet). `memory-" in done.err


def test_a_list_of_hits_says_how_long_it_took_only_when_it_explains(vault):
    form = ("search", "Boiler", "--format", "{path}")
    assert "Time" not in vault(*form).err
    assert "Time" in vault(*form, "--explain").err
