"""A folder of Markdown as the whole memory, and mistakes that must not cost an index."""

import pytest


@pytest.fixture
def folder(cli):
    place = cli.home / "notes"
    write(place / "Boiler.md", "# Boiler\n\nServiced by Hartmann every October.\n")
    write(place / "deep/er/Garden.md", "# Garden\n\nThe greenhouse needs a new membrane.\n")
    return place


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_a_flat_or_deep_folder_is_searched_with_paths_relative_to_it(cli, folder):
    assert cli("index", "--notes", str(folder)).code == 0
    found = cli.json("search", "--notes", str(folder), "greenhouse membrane")
    assert [hit["path"] for hit in found["results"]] == ["deep/er/Garden.md"]
    read = cli.json("get", "--notes", str(folder), "deep/er/Garden.md")
    assert read["text"].startswith("# Garden")


def test_the_index_of_a_folder_lies_in_the_data_directory_and_nothing_in_the_state_of_openclaw(
    cli, folder, monkeypatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(cli.home / "data"))
    before = sorted(cli.state.rglob("*")), sorted(folder.rglob("*"))
    cli("index", "--notes", str(folder))
    (index,) = (cli.home / "data/memory-gateway/notes").glob("notes-*/index.sqlite")
    assert index.stat().st_size
    assert (sorted(cli.state.rglob("*")), sorted(folder.rglob("*"))) == before


def test_a_folder_ignores_the_usual_configuration_and_heeds_a_named_one(cli, folder):
    cli.configure({"agents": {"defaults": {"memorySearch": {"query": {"maxResults": 1}}}}})
    usual = cli.json("search", "--notes", str(folder), "boiler OR membrane")
    named = cli.json(
        "search", "--notes", str(folder), "boiler OR membrane", "--config", str(cli.config)
    )
    assert (len(usual["results"]), len(named["results"])) == (2, 1)


def test_two_folders_of_one_name_have_an_index_each(cli, folder):
    other = cli.home / "other/notes"
    write(other / "a.md", "The membrane is in the cellar.\n")
    for place in (folder, other):
        cli("index", "--notes", str(place))
    assert cli.json("status", "--notes", str(folder))["files"] == 2
    assert cli.json("status", "--notes", str(other))["files"] == 1


def test_a_link_to_a_folder_means_the_folder(cli, folder):
    link = cli.home / "link"
    link.symlink_to(folder)
    cli("index", "--notes", str(folder))
    assert cli.json("status", "--notes", str(link))["files"] == 2


def test_a_folder_that_does_not_exist_is_an_error_and_makes_nothing(cli):
    done = cli("index", "--notes", str(cli.home / "nots"))
    assert done.code == 78 and "nots does not exist" in done.err
    assert not (cli.home / ".local").exists()


def test_an_indexed_folder_whose_disk_is_away_is_answered_as_it_was_and_made_by_nobody(cli, folder):
    cli("index", "--notes", str(folder))
    folder.rename(cli.home / "away")
    found = cli.json("search", "--notes", str(folder), "boiler")
    assert found["results"] and "is missing" in found["stale"]["reason"]
    assert cli("health", "--notes", str(folder)).code == 1
    for options in ((), ("--yes",)):
        written = cli("remember", "--notes", str(folder), *options, "The boiler has 1.4 bar.")
        assert written.code == 73 and f"{folder} does not exist." in written.err
    assert not folder.exists()


@pytest.mark.parametrize("other", ["--workspace", "--agent"])
def test_a_folder_goes_with_neither_workspace_nor_agent(cli, folder, other):
    done = cli("search", "--notes", str(folder), other, str(folder), "boiler")
    assert done.code == 64 and other in done.err


def test_what_is_hidden_or_a_vendors_or_ignored_is_neither_found_nor_read(cli, folder):
    for name in (
        ".obsidian/a.md",
        ".trash/b.md",
        "node_modules/p/c.md",
        "private/d.md",
        "x.tmp.md",
    ):
        write(folder / name, "The membrane again.\n")
    write(folder / ".gitignore", "*.tmp.md\n")
    write(folder / ".memoryignore", "private/\n")
    found = cli.json("search", "--notes", str(folder), "membrane")
    assert [hit["path"] for hit in found["results"]] == ["deep/er/Garden.md"]
    for name in (".obsidian/a.md", "node_modules/p/c.md", "private/d.md", "x.tmp.md"):
        refused = cli.json("get", "--notes", str(folder), name, code=77)["error"]
        assert refused["kind"] == "path_not_allowed"
    left_out = cli.json("status", "--notes", str(folder))["details"]["leftOut"]
    assert left_out == {".gitignore": 1, ".memoryignore": 1, "hidden": 2, "node_modules": 1}
    assert "2 files by hidden" in cli("status", "--notes", str(folder)).out


def test_a_workspace_that_is_a_folder_of_notes_is_explained(cli, folder):
    for command in (["index"], ["search", "boiler"], ["status"]):
        done = cli(*command, "--workspace", str(folder), "--state-dir", str(cli.home / "s"))
        assert "1 .md file is here (Boiler.md)" in " ".join((done.out + done.err).split())
        assert "--notes" in done.out + done.err


def test_notes_beside_the_memory_and_of_other_suffixes_are_mentioned(cli):
    cli.write("Ideas.md", "An idea.\n")
    cli.write("SOUL.md", "An instruction.\n")
    cli.write("memory/OLD.MD", "Old.\n")
    issues = " ".join(cli.json("status")["issues"])
    assert "(Ideas.md)" in issues and "memory/OLD.MD" in issues


@pytest.mark.parametrize(
    "command", [["index"], ["search", "boiler"], ["status"], ["get", "MEMORY.md"]]
)
def test_a_mistyped_workspace_is_an_error_that_names_the_right_one_and_changes_nothing(
    cli, command
):
    cli("index")
    before = cli.json("status")["files"]
    done = cli(*command, "--workspace", str(cli.workspace) + "x")
    assert done.code == 78 and str(cli.workspace) + "x" in done.err
    assert str(cli.workspace) + "." in done.err
    assert cli.json("status")["files"] == before == 4


def test_an_agent_that_nobody_knows_is_an_error_that_names_the_known_ones(cli):
    cli.configure({"agents": {"list": [{"id": "home"}, {"id": "work"}]}})
    before = sorted(cli.state.rglob("*"))
    done = cli("search", "--agent", "wrok", "boiler")
    assert done.code == 78 and "'wrok'" in done.err and "home, work" in done.err
    assert sorted(cli.state.rglob("*")) == before


def test_an_agent_with_a_directory_or_a_given_workspace_is_known(cli):
    (cli.state / "workspace-lab").mkdir()
    assert cli("status", "--agent", "lab").code == 0
    assert cli("status", "--agent", "new", "--workspace", str(cli.workspace)).code == 0


@pytest.fixture
def vault(cli, folder):
    write(
        folder / "Heating.md",
        "---\ntitle: The heating plan\naliases: [Warmth]\ntags: [house/heating]\ncreated: 2026-02-08\n---\n"
        "See [[Boiler|the boiler]], [[er/garden#Roof]] and [[Nowhere]] about the membrane.\n",
    )
    cli("index", "--notes", str(folder))
    return str(folder)


def test_title_alias_and_tags_of_the_front_matter_are_found_and_shown(cli, vault):
    for query in ("warmth", "heating plan"):
        (hit, *_) = cli.json("search", "--notes", vault, query)["results"]
        assert (hit["path"], hit["title"]) == ("Heating.md", "The heating plan")
        assert hit["tags"] == ["house/heating"]
    assert "The heating plan #house/heating" in cli("search", "--notes", vault, "warmth").out


def test_a_search_is_limited_to_a_tag(cli, vault):
    both = cli.json("search", "--notes", vault, "membrane")["results"]
    tagged = cli.json("search", "--notes", vault, "membrane", "--tag", "House")["results"]
    assert len(both) == 2 and [hit["path"] for hit in tagged] == ["Heating.md"]
    assert cli.json("search", "--notes", vault, "membrane", "--tag", "garden")["results"] == []


def test_the_front_matter_dates_a_note_and_undated_ones_are_counted(cli, vault):
    limited = cli.json("search", "--notes", vault, "membrane", "--after", "2026-02-01")
    assert [hit["path"] for hit in limited["results"]] == ["Heating.md"]
    assert limited["undated"] == 2
    done = cli("search", "--notes", vault, "membrane", "--before", "2026-02-01")
    said = " ".join((done.out + done.err).split())
    assert (
        "2 undated files were left out: a date is read from the file's name, its title, or date"
        in said
    )
    assert "undated" not in cli.json("search", "--notes", vault, "membrane")


def test_wiki_links_are_words_and_lead_to_their_notes(cli, vault):
    links = {"Boiler": "Boiler.md", "er/garden": "deep/er/Garden.md"}
    assert cli.json("get", "--notes", vault, "Heating.md")["links"] == links
    assert cli.json("get", "--notes", vault, "[[warmth|shown]]")["path"] == "Heating.md"
    missing = cli.json("get", "--notes", vault, "[[nowhere]]", code=66)["error"]
    assert missing["message"] == "There is no note [[nowhere]]."
    (hit, *_) = cli.json("search", "--notes", vault, "nowhere", "--explain")["results"]
    assert hit["path"] == "Heating.md" and hit["explain"]["links"] == links


def test_a_name_in_the_other_form_of_unicode_is_the_same_name(cli, folder):
    (folder / "Ku\u0308che.md").write_text("The stove.\n", encoding="utf-8")
    (folder / "plan.md").write_text("See [[K\u00fcche]].\n", encoding="utf-8")
    cli("index", "--notes", str(folder))
    for name in ("K\u00fcche.md", "[[K\u00fcche]]"):
        assert cli.json("get", "--notes", str(folder), name)["text"] == "The stove.\n"
    links = cli.json("get", "--notes", str(folder), "plan.md")["links"]
    assert links == {"K\u00fcche": "Ku\u0308che.md"}


def test_notes_in_other_encodings_are_found_read_and_told_of(cli, folder):
    (folder / "latin.md").write_bytes("Die Wärmepumpe läuft.\n".encode("latin-1"))
    (folder / "wide.md").write_bytes("Der Wäschetrockner läuft.\n".encode("utf-16"))
    (folder / "unmarked.md").write_bytes("The gutter is clean.\n".encode("utf-16-le"))
    (folder / "what.md").write_bytes("茶叶的价格".encode("gbk"))
    (folder / "torn.md").write_bytes("Der Kessel läuft".encode()[:-3] + b"\xff\xc3\n")
    for word, name in (("Wärmepumpe", "latin.md"), ("Wäschetrockner", "wide.md")):
        (hit, *_) = cli.json("search", "--notes", str(folder), word)["results"]
        text = cli.json("get", "--notes", str(folder), name)["text"]
        assert hit["path"] == name and word in text and hit["snippet"].strip() == text.strip()
    assert cli.json("search", "--notes", str(folder), "茶叶 价格")["results"] == []
    issues = {one.split()[0]: one for one in cli.json("status", "--notes", str(folder))["issues"]}
    assert "windows-1252" in issues["latin.md"] and "utf-16-le" in issues["unmarked.md"]
    assert "wide.md" not in issues  # its byte-order mark says what it is
    assert "U+FFFD" in issues["torn.md"] and "not searched" in issues["what.md"]


def test_doctor_examines_a_folder_of_notes(cli, folder):
    cli("index", "--notes", str(folder))
    findings = cli.json("doctor", "--notes", str(folder))["findings"]
    assert {one["severity"] for one in findings if one["check"] in ("canary", "places")} == {"ok"}


def test_status_and_doctor_name_the_folder_and_no_agent(cli, folder):
    shown = cli("status", "--notes", str(folder)).out
    assert shown.startswith("Memory of a folder of notes\n") and "Notes           ~/notes" in shown
    first = cli("doctor", "--notes", str(folder)).out.splitlines()[0]
    assert first.endswith(", notes in ~/notes")
    assert cli.json("doctor", "--notes", str(folder), code=0)["notes"] == str(folder)


@pytest.mark.parametrize("command", ["metrics", "reload"])
def test_that_no_gateway_runs_is_said_of_the_notes(cli, folder, command):
    done = cli(command, "--notes", str(folder))
    assert done.code == 69 and "No gateway runs for these notes on this index, so" in done.err


def test_a_folder_is_never_indexed_into_the_database_of_a_named_configuration(cli, folder):
    url = "postgresql://somebody@127.0.0.1:9/team"  # nobody answers there
    store = {"driver": "postgres", "url": url, "path": str(cli.home / "team.sqlite")}
    cli.configure({"agents": {"defaults": {"memorySearch": {"store": store}}}})
    named = ("--notes", str(folder), "--config", str(cli.config))
    done = cli("index", *named)
    assert done.code == 0, done.err
    status = cli.json("status", *named)
    assert status["files"] == 2
    (warning,) = status["warnings"]
    assert "store.driver" in warning and "this store does not count" in warning
    assert not (cli.home / "team.sqlite").exists()
    assert cli.json("search", *named, "membrane")["results"][0]["path"] == "deep/er/Garden.md"
