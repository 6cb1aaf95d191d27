"""`setup`: the place of the notes is given once; every command knows it then, until that is undone."""

import json
import tomllib

import pytest


@pytest.fixture
def newcomer(cli, monkeypatch):
    """A home without OpenClaw, with a vault and a client."""
    for file in sorted(cli.state.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    cli.state.rmdir()
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "MEMORY_GATEWAY_NOTES", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(cli.home / "bin"))  # no commands of clients
    folder(cli, "vault", "The boiler is serviced by Hartmann.")
    (cli.home / "vault/.obsidian").mkdir()
    codex = cli.home / ".codex/config.toml"
    codex.parent.mkdir()
    codex.write_text('model = "x"  # mine\n', encoding="utf-8")
    return cli


def folder(cli, name, text):
    place = cli.home / name
    place.mkdir()
    (place / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
    return place


def first(cli, *arguments):
    return [hit["path"] for hit in cli.json("search", *arguments)["results"]]


def files(cli):
    return {path: path.read_bytes() for path in cli.home.rglob("*") if path.is_file()}


def test_a_vault_is_found_and_then_no_command_needs_notes(newcomer):
    done = newcomer("setup", "--yes", "--no-clients")
    assert done.code == 0 and "Obsidian vault, 1 note)" in done.out
    assert first(newcomer, "boiler") == ["vault.md"]
    assert newcomer.json("get", "vault.md")["text"].startswith("# vault")
    assert newcomer.json("status")["workspace"] == str(newcomer.home / "vault")


def test_undone_it_leaves_every_file_byte_for_byte_as_it_was(newcomer):
    before = files(newcomer)
    assert newcomer("setup", "--yes").code == 0
    servers = tomllib.loads((newcomer.home / ".codex/config.toml").read_text())["mcp_servers"]
    assert servers["memory-gateway"]["args"][-1] == str(newcomer.home / "vault")
    assert newcomer("setup", "--undo", "--yes").code == 0
    assert files(newcomer) == before
    assert not (newcomer.home / ".config").exists()


def test_the_index_of_a_folder_with_two_names_is_told_once(newcomer):
    for name in ("one", "two"):
        newcomer("setup", "--yes", "--no-clients", "--name", name, str(newcomer.home / "vault"))
    newcomer("index", "-n", "one")
    assert newcomer("setup", "--undo", "--yes").out.count("The index stays") == 1


def test_undoing_without_anybody_to_ask_undoes_nothing_and_says_so(newcomer):
    newcomer("setup", "--yes", "--no-clients")
    before = files(newcomer)
    asked = newcomer("setup", "--undo")
    assert asked.code == 64 and files(newcomer) == before
    assert "Nothing was undone" in asked.err and "--yes does it." in asked.err


def test_what_may_be_read_of_a_folder_of_notes_is_said_in_its_own_terms(newcomer):
    done = newcomer("get", "../x", "--notes", str(newcomer.home / "vault"))
    assert (done.code, "MEMORY.md" in done.err) == (77, False)
    assert "Allowed is what is indexed of the folder of notes" in done.err


def test_what_is_only_shown_writes_nothing(newcomer):
    before = files(newcomer)
    shown = newcomer("setup", "--dry-run").out
    assert str(newcomer.home / "vault") in shown and "mcp_servers.memory-gateway" in shown
    assert not newcomer.json("setup")["written"]
    asked = newcomer("setup")
    assert asked.code == 64 and "--yes writes it" in asked.err
    assert files(newcomer) == before


def test_what_our_own_file_says_already_is_not_shown_as_added(newcomer):
    assert "names it already" not in newcomer("setup", "--yes", "--no-clients").out
    before = files(newcomer)
    again = newcomer("setup", "--yes", "--no-clients").out
    assert "config.json5 names it already.\n" in again and "  + " not in again
    assert files(newcomer) == before
    other = str(folder(newcomer, "other", "Bees."))
    assert "  + " in newcomer("setup", "--dry-run", "--no-clients", other).out


def test_a_client_that_was_connected_before_stays_connected(newcomer):
    other = folder(newcomer, "other", "Bees.")
    newcomer("connect", "codex", "--notes", str(other), "--yes")
    connected = (newcomer.home / ".codex/config.toml").read_bytes()
    assert "connected already" in newcomer("setup", "--yes").out
    newcomer("setup", "--undo", "--yes")
    assert (newcomer.home / ".codex/config.toml").read_bytes() == connected


def test_a_client_that_cannot_be_connected_is_told_by_the_exit_code_as_connect_tells_it(newcomer):
    broken = newcomer.home / ".gemini/settings.json"
    broken.parent.mkdir()
    broken.write_text("{", encoding="utf-8")
    alone = newcomer("connect", "gemini", "--yes", "--notes", str(newcomer.home / "vault"))
    done = newcomer("setup", "--yes")
    assert "Gemini CLI: " in done.err
    assert done.code == alone.code == 78
    assert "memory-gateway" in (newcomer.home / ".codex/config.toml").read_text()


def test_several_folders_have_names(newcomer, monkeypatch):
    work = folder(newcomer, "work", "The boiler of the office is new.")
    newcomer("setup", "--yes", "--no-clients")
    newcomer("setup", "--yes", "--no-clients", "--name", "office", str(work))
    assert first(newcomer, "boiler") == ["vault.md"]
    assert first(newcomer, "-n", "office", "boiler", "-n", "1") == ["work.md"]
    assert first(newcomer, "--notes=office", "boiler") == ["work.md"]
    assert first(newcomer, "--notes", str(work), "boiler") == ["work.md"]
    monkeypatch.setenv("MEMORY_GATEWAY_NOTES", "office")
    assert first(newcomer, "boiler") == ["work.md"]
    assert first(newcomer, "boiler", "-n", "vault") == ["vault.md"]
    slip = newcomer("search", "-n", "offise", "boiler")
    assert slip.code == 78 and "It knows office, vault." in slip.err


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("Ноты und Übung", "ноты-und-übung"),
        ("日本語ノート", "日本語ノート"),
        ("U\u0308bung", "übung"),
        ("नोट्स", "नोट्स"),
        ("--My notes (2)", "my-notes-2"),
        ("2026-11", "notes"),
        ("---", "notes"),
    ],
)
def test_a_folder_has_a_name_in_letters_of_its_own_script(newcomer, called, name):
    place = folder(newcomer, called, "The boiler.")
    newcomer("setup", "--yes", "--no-clients", str(place))
    assert first(newcomer, "-n", name, "boiler") == [f"{called}.md"]


def test_a_name_may_be_in_any_script_and_no_option_or_number(newcomer):
    given = ("setup", "--yes", "--no-clients", str(newcomer.home / "vault"), "--name")
    assert newcomer(*given, "ноты").code == 0
    assert first(newcomer, "-n", "ноты", "boiler") == ["vault.md"]
    for wrong in ("5", "٣", "a b", "-x", "a/b", "a\u202eb", ""):
        assert newcomer(*given, wrong).code == 64, wrong


def test_another_default_and_a_folder_without_notes_are_said_before_anything_is_written(newcomer):
    assert newcomer("setup", "--yes", "--no-clients").code == 0
    (newcomer.home / "empty").mkdir()
    output = newcomer("setup", str(newcomer.home / "empty"), "--dry-run", "--no-clients").out
    assert "empty (folder of notes, 0 notes)\nNo note is in it yet: " in output
    assert "It is searched instead of vault, which stays as `-n vault`; " in output
    output = newcomer("setup", str(newcomer.home / "vault"), "--dry-run", "--no-clients").out
    assert "instead of" not in output


def test_options_and_variables_that_mean_openclaw_go_before_setup(newcomer, monkeypatch):
    newcomer("setup", "--yes", "--no-clients")
    newcomer.write("MEMORY.md", "The boiler of the agent.\n")
    assert first(newcomer, "boiler") == ["vault.md"]
    assert first(newcomer, "boiler", "--agent", "main") == ["MEMORY.md"]
    assert first(newcomer, "boiler", "--workspace", str(newcomer.workspace)) == ["MEMORY.md"]
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(newcomer.state))
    assert first(newcomer, "boiler") == ["MEMORY.md"]


def test_the_workspace_of_openclaw_is_proposed_first_and_needs_nothing(newcomer):
    newcomer.write("MEMORY.md", "The boiler of the agent.\n")
    output = newcomer("setup", "--yes", "--no-clients").out
    assert "OpenClaw workspace" in output and "Commands use it already" in output
    assert not (newcomer.home / ".config").exists()


def test_settings_of_the_folder_stand_in_the_same_file_and_outlive_setup(newcomer):
    newcomer("setup", "--yes", "--no-clients")
    file = newcomer.home / ".config/memory-gateway/config.json5"
    file.write_text(file.read_text().replace("{\n", "{\n  query: { maxResults: 3 }, // few\n", 1))
    settings = newcomer.json("config")["values"]
    row = next(one for path, one in settings.items() if path.endswith("query.maxResults"))
    assert row["value"] == 3 and "line 4" in row["origin"]["detail"]
    newcomer("setup", "--undo", "--yes")
    assert "maxResults: 3 } // few" in file.read_text() and "vault" not in file.read_text()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{ query: { maxResult: 3 } }", 'did you mean "maxResults"?\n'),
        ("{ query: { maxResults: 0 } }", "allowed is a whole number, at least 1"),
        ("{ notes: { default: 'gone' } }", "notes.default names none of notes.folders"),
        ("{ notes: { folders: { a: 1 } } }", "needs a path as a string"),
        ("{ notes: '/n' }", "notes: found a string, allowed is an object"),
        ("{ notes: { folders: { a: '/' }, defualt: 'a' } }", '"defualt" is not a known key'),
    ],
)
def test_a_slip_in_our_own_file_names_its_line(newcomer, text, complaint):
    file = newcomer.home / ".config/memory-gateway/config.json5"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    done = newcomer("search", "boiler")
    assert done.code == 78 and complaint in done.err and "config.json5, line 1" in done.err


def test_a_folder_that_went_away_is_named_with_its_place(newcomer):
    newcomer("setup", "--yes", "--no-clients")
    (newcomer.home / "vault").rename(newcomer.home / "attic")
    done = newcomer("search", "boiler")
    assert done.code == 78
    assert f"{newcomer.home}/vault does not exist" in done.err and "config.json5, line" in done.err


def test_obsidian_tells_its_vaults_and_nothing_is_proposed_where_nothing_is(newcomer, tmp_path):
    (newcomer.home / "vault/.obsidian").rmdir()
    nothing = newcomer("setup", "--yes")
    assert nothing.code == 78 and "memory-gateway setup DIR" in nothing.err
    registry = newcomer.home / ".config/obsidian/obsidian.json"
    registry.parent.mkdir(parents=True)
    registry.write_text(json.dumps({"vaults": {"1": {"path": str(newcomer.home / "vault")}}}))
    assert newcomer.json("setup")["kind"] == "Obsidian vault"


def own_file(cli, text):
    file = cli.home / ".config/memory-gateway/config.json5"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize("linked", ["config.json5", "memory-gateway", ".config"])
def test_undone_it_leaves_links_and_what_is_behind_them(newcomer, linked):
    kept = newcomer.home / "dot" / linked
    if linked == "config.json5":
        name = newcomer.home / ".config/memory-gateway" / linked
        kept.parent.mkdir()
        kept.write_text("{}\n")
        name.parent.mkdir(parents=True)
    else:
        name = newcomer.home / (".config/memory-gateway" if linked != ".config" else linked)
        kept.mkdir(parents=True)
        name.parent.mkdir(exist_ok=True)
    name.symlink_to(kept)
    assert newcomer("setup", "--yes", "--no-clients").code == 0
    assert newcomer("setup", "--undo", "--yes").code == 0
    assert name.is_symlink() and kept.exists()
    if linked == "config.json5":
        assert "".join(kept.read_text().split()) == "{}"
        newcomer("config", "set", "query.maxResults", "8")
        newcomer("config", "unset", "query.maxResults")
        assert "".join(kept.read_text().split()) == "{}"


def test_a_file_of_ours_that_somebody_else_made_stays(newcomer):
    file = own_file(newcomer, "{}\n")
    newcomer("setup", "--yes", "--no-clients")
    newcomer("setup", "--undo", "--yes")
    assert "".join(file.read_text().split()) == "{}"


def test_folders_and_a_default_that_were_written_by_hand_outlive_setup(newcomer):
    folder(newcomer, "work", "The boiler of the office.")
    text = '{notes:{default:"work",folders:{work:"~/work"}}}\n'
    file = own_file(newcomer, text)
    newcomer("setup", "--yes", "--no-clients")
    newcomer("setup", "--yes", "--no-clients", str(newcomer.home / "work"))
    newcomer("setup", "--yes", "--no-clients")
    assert first(newcomer, "boiler") == ["vault.md"]
    output = newcomer("setup", "--undo", "--yes").out
    assert "loses the name vault, and what setup noted; the rest stays." in output
    assert "".join(file.read_text().split()) == "".join(text.split())
    assert first(newcomer, "boiler") == ["work.md"]
    assert "There is nothing to undo" in newcomer("setup", "--undo", "--yes").out


def test_a_name_that_setup_gave_to_another_folder_means_the_former_one_again(newcomer):
    folder(newcomer, "work", "The boiler of the office.")
    file = own_file(newcomer, '{notes: {folders: {mine: "~/work"}}} // by hand\n')
    newcomer("setup", "--yes", "--no-clients", "--name", "mine", str(newcomer.home / "vault"))
    assert first(newcomer, "-n", "mine", "boiler") == ["vault.md"]
    newcomer("setup", "--undo", "--yes")
    assert json.loads(file.read_text().split("//")[0].replace("notes", '"notes"')
                      .replace("folders", '"folders"').replace("mine", '"mine"')
                      ) == {"notes": {"folders": {"mine": "~/work"}}}  # fmt: skip
    assert file.read_text().endswith("// by hand\n")


def test_a_default_that_somebody_chose_after_setup_stays(newcomer):
    folder(newcomer, "work", "The boiler of the office.")
    file = own_file(newcomer, '{"notes": {"folders": {"work": "~/work"}}}\n')
    newcomer("setup", "--yes", "--no-clients")
    file.write_text(file.read_text().replace('"default": "vault"', '"default": "work"'))
    newcomer("setup", "--undo", "--yes")
    left = {"notes": {"default": "work", "folders": {"work": "~/work"}}}
    assert json.loads(file.read_text()) == left


def test_the_default_that_comes_back_is_the_last_one_that_setup_did_not_write(newcomer):
    for name in ("a", "b", "c"):
        folder(newcomer, name, "The boiler.")
    file = own_file(newcomer, '{"notes": {"default": "a", "folders": {"a": "~/a", "b": "~/b"}}}\n')
    newcomer("setup", "--yes", "--no-clients")
    file.write_text(file.read_text().replace('"default": "vault"', '"default": "b"'))
    newcomer("setup", "--yes", "--no-clients", str(newcomer.home / "c"))
    newcomer("setup", "--yes", "--no-clients")
    newcomer("setup", "--undo", "--yes")
    left = {"notes": {"default": "b", "folders": {"a": "~/a", "b": "~/b"}}}
    assert json.loads(file.read_text()) == left


def test_a_client_that_cannot_be_disconnected_is_named_and_the_rest_is_undone(newcomer):
    gemini = newcomer.home / ".gemini/settings.json"
    gemini.parent.mkdir()
    gemini.write_text("{}")
    codex = newcomer.home / ".codex/config.toml"
    before = codex.read_bytes()
    newcomer("setup", "--yes")
    connected = gemini.read_text()
    gemini.write_text('{"a":')
    done = newcomer("setup", "--undo", "--yes")
    assert done.code == 78 and "Not disconnected: gemini." in done.err
    assert done.err.count("Gemini CLI: ") == 1
    assert codex.read_bytes() == before
    file = newcomer.home / ".config/memory-gateway/config.json5"
    assert "vault" not in file.read_text() and '"gemini"' in file.read_text()
    gemini.write_text(connected)
    assert newcomer("setup", "--undo", "--yes").code == 0
    assert gemini.read_text() == "{}" and not file.exists()


def test_a_folder_whose_name_is_not_utf_8_is_refused_in_a_sentence(newcomer, monkeypatch):
    (newcomer.home / "vault/.obsidian").rmdir()
    (newcomer.home / "vault/vault.md").unlink()
    place = newcomer.home / "b\udcffad"
    (place / ".obsidian").mkdir(parents=True)
    (place / "a.md").write_text("# A boiler\n")
    (newcomer.home / "plain").symlink_to(place)
    commands = ("search boiler", "connect codex --yes", "report -o x.html", "recent")
    for words in (
        *(("setup", "--yes", str(one)) for one in (place, newcomer.home / "plain")),
        *((*command.split(), "--notes", str(place)) for command in commands),
        ("search", "boiler", "--notes", str(newcomer.home / "gone\udcff")),
    ):
        done = newcomer(*words)
        assert done.code == 64, words
        assert "\\xff" in done.err and "is not UTF-8." in done.err
    nothing = newcomer("setup", "--yes")
    assert nothing.code == 78 and "No folder of notes was found" in nothing.err
    monkeypatch.chdir(place)
    assert newcomer("setup", "--yes", ".").code == 64


def test_a_link_that_leads_to_itself_is_no_folder(newcomer):
    loop = newcomer.home / "loop"
    loop.symlink_to(loop)
    refused = newcomer("search", "boiler", "--notes", str(loop))
    assert refused.code == 78 and str(loop) in refused.err
    own_file(newcomer, '{notes: {folders: {loop: "~/loop"}}}')
    assert newcomer("setup", "--yes", "--no-clients").code == 0
