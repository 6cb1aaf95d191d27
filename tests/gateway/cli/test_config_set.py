"""`config set` and `config unset`: checked first, written where it counts, everything else as it was."""

import json

import pytest

OPENCLAW = """{
  // mine
  agents: { defaults: { memorySearch: { query: { maxResults: 4 } } } }, // kept
}
"""


@pytest.fixture
def notes(cli, monkeypatch):
    """A user with a folder of notes and no openclaw.json."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    place = cli.home / "notes"
    place.mkdir()
    for number in range(5):
        (place / f"{number}.md").write_text(f"# Boiler {number}\n\nThe boiler {number}.\n")
    monkeypatch.setenv("MEMORY_GATEWAY_NOTES", str(place))
    return cli


def own_file(cli):
    return cli.home / ".config/memory-gateway/config.json5"


def row(cli, key, *options):
    (found,) = cli.json("config", key, *options)["values"].values()
    return found


def test_a_setting_of_a_folder_is_set_found_in_force_and_taken_out(notes):
    done = notes("config", "set", "query.maxResults", "2")
    assert done.code == 0 and "query.maxResults is 2 (file: query.maxResults, line 3)" in done.out
    assert len(notes.json("search", "boiler")["results"]) == 2
    assert row(notes, "query.maxResults")["value"] == 2
    assert "query.maxResults is 6 (default)" in notes("config", "unset", "query.maxResults").out
    assert not own_file(notes).exists()


def test_comments_and_the_layout_of_our_own_file_stay(notes):
    file = own_file(notes)
    file.parent.mkdir(parents=True)
    before = "// mine\n{\n  query: {\n    minScore: 0.2, // low\n  },\n}\n"
    file.write_text(before)
    notes("config", "set", "query.maxResults", "9")
    assert file.read_text() == before.replace("query: {\n", 'query: {\n    "maxResults": 9,\n')
    notes("config", "set", "query.minScore", "0.4")
    assert "minScore: 0.4, // low" in file.read_text()
    notes("config", "unset", "query.maxResults")
    assert file.read_text() == before.replace("0.2", "0.4")


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        (
            "query.maxResults",
            "many",
            "this is no value for query.maxResults; allowed is a whole number, at least 1",
        ),
        ("query.maxResults", "0", "allowed is a whole number, at least 1"),
        ("query.maxResults", "-1", "allowed is a whole number, at least 1"),
        ("query.minScore", "-.5", "at least 0"),
        ("extraPaths", "[1,2]", "allowed is"),
        ("query.minScore", "2", "at most 1"),
        ("append.enabled", "perhaps", "allowed is true or false"),
        ("backend", "qdm", '"builtin", "qmd"'),
        ("query.maxResult", "3", "Did you mean query.maxResults?"),
        ("maxResults", "3", "qmd.limits.maxResults or query.maxResults"),
        ("workspace", "/x", "a setting of OpenClaw"),
        ("models.providers.*.apiKey", "k", "Put its name in place of the *"),
        ("model", "null", "`memory-gateway config unset model` takes the key out"),
    ],
)
def test_what_is_not_allowed_is_refused_with_what_is_and_nothing_is_written(
    notes, key, value, complaint
):
    done = notes("config", "set", key, value)
    assert done.code == 64 and complaint in done.err
    assert not own_file(notes).exists()


@pytest.mark.parametrize(
    "spelling",
    [
        "query.maxResults",
        "memorySearch.query.maxResults",
        "agents.defaults.memorySearch.query.maxResults",
        "plugins.entries.memory-gateway.config.search.query.maxResults",
    ],
)
def test_every_spelling_of_a_key_means_the_one_that_is_written(notes, spelling):
    assert notes.json("config", "set", spelling, "3")["key"] == "query.maxResults"
    assert row(notes, spelling)["value"] == 3


def test_words_lists_and_keys_below_a_name_of_ones_own_are_set(notes):
    notes("config", "set", "provider", "none")
    notes("config", "set", "extraPaths", '["~/a"]')
    notes("config", "set", "models.providers.lab.baseUrl", "http://localhost:1/v1")
    written = own_file(notes).read_text()
    assert json.loads(written) == {
        "provider": "none",
        "extraPaths": ["~/a"],
        "models": {"providers": {"lab": {"baseUrl": "http://localhost:1/v1"}}},
    }


def test_in_openclaw_json_a_value_keeps_its_place_and_a_new_one_stands_in_our_entry(cli):
    cli.config.write_text(OPENCLAW)
    cli("config", "set", "query.maxResults", "7")
    assert cli.config.read_text() == OPENCLAW.replace("4", "7")
    cli("config", "set", "sync.watch", "false")
    assert row(cli, "sync.watch")["value"] is False
    assert '"memory-gateway"' in cli.config.read_text() and "// mine" in cli.config.read_text()
    cli("config", "unset", "sync.watch")
    assert row(cli, "sync.watch")["value"] is True


def test_one_agent_is_given_its_own(cli):
    cli.config.write_text(OPENCLAW)
    (cli.state / "workspace-ops").mkdir()
    cli("config", "set", "query.maxResults", "2", "--agent", "ops")
    assert row(cli, "query.maxResults", "--agent", "ops")["value"] == 2
    assert row(cli, "query.maxResults")["value"] == 4


def test_what_is_taken_out_for_one_agent_stays_for_all_others(cli):
    cli.config.write_text(OPENCLAW)
    (cli.state / "workspace-ops").mkdir()
    cli("config", "set", "query.maxResults", "2", "--agent", "ops")
    cli("config", "unset", "query.maxResults", "--agent", "ops")
    assert row(cli, "query.maxResults", "--agent", "ops")["value"] == 4
    again = cli("config", "unset", "query.maxResults", "--agent", "ops")
    assert "stays set for all agents" in again.err
    assert row(cli, "query.maxResults")["value"] == 4


def test_no_model_is_shown_where_none_was_chosen(cli):
    """The model depends on the engine that is installed: `models` and `status` show it."""
    assert row(cli, "local.modelPath")["value"] is None


def test_keys_are_found_by_any_part(cli):
    found = cli.json("config", "query")["values"]
    assert {"query.maxResults", "query.decay.enabled"} <= set(found)
    assert all(one.startswith("query.") for one in found)
    assert set(cli.json("config", "weight")["values"]) == {
        "query.hybrid.vectorWeight",
        "query.hybrid.textWeight",
    }
    assert cli("config", "nonsense").code == 64


def test_settings_that_are_not_utf_8_are_told_how_to_mend_and_stay_as_they_are(notes):
    own_file(notes).parent.mkdir(parents=True)
    own_file(notes).write_bytes(b'{"provider": "n\xf6ne"}')
    done = notes("setup", str(notes.home / "notes"), "--yes")
    assert done.code == 78
    assert "is not UTF-8" in done.err and "Save the file in the encoding UTF-8." in done.err
    assert own_file(notes).read_bytes() == b'{"provider": "n\xf6ne"}'


def test_a_comment_before_the_comma_of_what_is_taken_out_stays(notes):
    file = own_file(notes)
    file.parent.mkdir(parents=True)
    file.write_text("{\n  citations: 'on' // why\n  , query: {maxResults: 3}\n}\n")
    notes("config", "unset", "citations")
    assert file.read_text() == "{\n   // why\n   query: {maxResults: 3}\n}\n"


def test_the_workspace_of_the_defaults_is_set_by_its_name(notes):
    done = notes("config", "set", "agents.defaults.workspace", "/w")
    assert done.code == 0
    assert '"agents": {\n    "defaults": {\n      "workspace": "/w"' in own_file(notes).read_text()


@pytest.mark.parametrize(("key", "value"), [("backend", "qmd"), ("store.driver", "postgres")])
def test_what_a_folder_of_notes_has_of_its_own_is_said_not_to_count_for_it(notes, key, value):
    done = notes("config", "set", key, value)
    assert done.code == 0
    assert f"A folder of notes has a {key} of its own: {value} does not count for it." in done.err
    assert row(notes, key)["origin"]["detail"] == "MEMORY_GATEWAY_NOTES"


@pytest.mark.parametrize(("value", "found"), [("'x'", "a string"), ("[]", "a list")])
def test_what_is_no_object_on_the_way_to_a_key_is_named(cli, value, found):
    file = cli.home / ".openclaw/openclaw.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{{\n  plugins: {value}\n}}\n")
    refused = cli("config", "set", "store.schema", "mine")
    assert refused.code == 78
    assert f"line 2, column 3: plugins: found {found}, allowed is an object" in refused.err
    assert file.read_text() == f"{{\n  plugins: {value}\n}}\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{memory: {search: {extraPaths: ['/a']}}}", "config.search.extraPaths"),
        (
            "{agents: {list: [{id: 'ops', memory: {search: {extraPaths: ['/a']}}}]}}",
            "config.agents.ops.search.extraPaths",
        ),
    ],
)
def test_a_value_that_openclaw_would_refuse_at_its_own_key_goes_to_our_entry(cli, text, place):
    cli.config.write_text(text)
    done = cli("config", "set", "extraPaths", "[{path: '/a', exclude: ['x']}]")
    assert done.code == 0 and f"{place}, line" in done.out
    assert "Nothing has to be moved" in cli("config", "--migrate", "--write").out
    assert row(cli, "extraPaths")["value"] == [{"path": "/a", "exclude": ["x"]}]
    cli("config", "set", "extraPaths", "['/b']")
    assert row(cli, "extraPaths")["value"] == ["/b"]
