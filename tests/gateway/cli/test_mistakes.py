"""The answer to a mistake of the user: cause, place and remedy, and a code of sysexits."""

from __future__ import annotations

import os

from fakes.each import each


@each(
    ("arguments", "named"),
    [
        (["serch", "x"], "Did you mean 'search'"),
        (["search"], "search needs a query"),
        (["search", "x", "--max-result", "2"], "--max-results"),
        (["search", "x", "--max", "2"], "No such option: --max. Did you mean --max-results?"),
        (["search", "-x or -y?"], "behind `--`: `memory-gateway search -- ...`"),
        (["-n", "work", "search", "x"], "behind the command: `memory-gateway search -n ...`"),
        (["--notes", "d", "tags"], "behind the command: `memory-gateway search --notes ...`"),
        (["models"], "There are list, suggest, pull and remove"),
        (["models", "sugest"], "There are list, suggest, pull and remove"),
        (["search", "x", "--max-results", "0"], "--max-results"),
        (["search", "x", "--max-results", "many"], "--max-results"),
        (["search", "x", "--min-score", "7"], "--min-score"),
        (["search", "x", "--after", "2026-02-30"], "--after: '2026-02-30' is not a day"),
        (["search", "x", "--since", "tomorow"], "'tomorow' is not a day"),
        (["search", "x", "--days", "0"], "--days"),
        (["search", "x", "--days", "3", "--after", "today"], "--days and --after"),
        (["config", "memorySearch.providr"], "Did you mean provider"),
        (["config", "x", "--migrate"], "--migrate"),
        (["search", "x", "--after", "2026-02-02", "--before", "2026-02-01"], "after"),
        (["search", "x", "--source", "diary"], "--source"),
        (["search", " "], "query is blank"),
        (["get", " "], "path is blank"),
        (["get", "MEMORY.md", "--lines", "0"], "--lines"),
        (["index", "extra"], "extra"),
        (["serve", "--port", "80"], "--port"),
        (["search", "x", "--agent", ""], "--agent is empty"),
        (["search", "x", "--workspace", ""], "--workspace is empty"),
        (["search", "x", "--state-dir", " "], "--state-dir is empty"),
        (["config", "--config", ""], "--config is empty"),
        (["status", "--log-level", "loud"], "--log-level"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error_that_names_the_mistake(cli, arguments, named):
    done = cli(*arguments)
    assert (done.code, done.out) == (64, "")
    assert named in done.err
    assert "Traceback" not in done.err


def test_a_wrong_command_line_with_json_is_a_json_error(cli):
    error = cli.json("search", "--nonsense", code=64)["error"]
    assert error["kind"] == "invalid_params"
    assert "--nonsense" in error["message"]
    assert "memory-gateway search --help" in error["remedy"]


def test_a_configuration_that_is_not_there_is_named_with_78(cli):
    done = cli("status", "--config", "nowhere.json")
    assert (done.code, done.out) == (78, "")
    assert "nowhere.json" in done.err
    assert "--config" in done.err


@each("command", [["status"], ["search", "x"], ["serve"], ["config"]])
def test_a_wrong_configuration_is_told_with_file_line_and_key(cli, command):
    cli.config.write_text('{\n  "memory": {\n    "backend": 7\n  }\n}', encoding="utf-8")
    done = cli(*command)
    assert (done.code, done.out) == (78, "")
    assert str(cli.config) in done.err
    assert "line 3" in done.err
    assert "backend" in done.err
    assert "Traceback" not in done.err


def test_naming_the_agent_makes_no_error_of_what_is_a_warning_without(cli):
    """A service always names its agent, as does a gateway that reads the configuration again."""
    cli.configure({"agents": {"defaults": {"memorySearch": {"query": {"maxResults": "x"}}}}})
    (unnamed, named) = (cli.json("status"), cli.json("status", "--agent", "main"))
    assert named["warnings"] == unnamed["warnings"]
    assert "it is ignored" in named["warnings"][0]


@each("command", [["index"], ["search", "x"], ["status"]])
def test_an_index_that_cannot_be_opened_is_told_with_69(cli, command):
    (cli.state / "memory").write_text("in the way", encoding="utf-8")
    done = cli(*command)
    assert (done.code, done.out) == (69, "")
    assert str(cli.state) in done.err
    assert "Traceback" not in done.err
    assert cli.json(*command, code=69)["error"]["kind"] == "index_unavailable"


REFUSED = {
    ("get", "memory/nowhere.md"): ("file_unreadable", 66),
    ("get", "../x"): ("path_not_allowed", 77),
    ("get", "MEMORY.md", "--from", "900"): ("file_unreadable", 66),
    ("links", "nowhere"): ("file_unreadable", 66),
    ("open", "nowhere"): ("file_unreadable", 66),
    ("open", "7"): ("file_unreadable", 66),
    ("search",): ("invalid_params", 64),
    ("search", "x", "--notes", "nowhere"): ("config_not_found", 78),
    ("recent", "--notes", "nowhere"): ("config_not_found", 78),
    ("tags", "--notes", "nowhere"): ("config_not_found", 78),
    ("index", "--config", "nowhere.json"): ("config_not_found", 78),
    ("status", "--config", "nowhere.json"): ("config_not_found", 78),
    ("remember", " "): ("invalid_params", 64),
    ("recall",): ("invalid_params", 64),
    ("forget",): ("invalid_params", 64),
    ("browse",): ("invalid_params", 64),
    ("batch", "cancel", "7"): ("file_unreadable", 66),
    ("batch", "cancel", "9" * 30): ("invalid_params", 64),
    ("models", "remove", "x"): ("provider_unavailable", 69),
    ("config", "nosuchkey"): ("invalid_params", 64),
    ("config", "set", "nosuchkey", "3"): ("invalid_params", 64),
    ("connect", "nobody"): ("invalid_params", 64),
    ("disconnect", "nobody"): ("invalid_params", 64),
    ("setup", "/nowhere"): ("config_not_found", 78),
    ("reload",): ("index_unavailable", 69),
    ("metrics",): ("index_unavailable", 69),
    ("store", "migrate"): ("index_unavailable", 69),
    ("openclaw", "status", "--openclaw", "/nowhere"): ("config_invalid", 78),
    ("schema", "x"): ("invalid_params", 64),
    ("nosuchcommand",): ("invalid_params", 64),
}


@each(("arguments", "expected"), list(REFUSED.items()))
def test_a_refusal_has_one_shape(cli, arguments, expected):
    cli.write("MEMORY.md", "- one\n")
    kind, code = expected
    found = cli.json(*arguments, code=code)
    assert list(found) == ["error"]
    assert sorted(found["error"]) == ["kind", "message", "remedy"]
    assert found["error"]["kind"] == kind
    assert found["error"]["message"]


def test_a_release_that_is_named_is_checked_and_named_again(cli, tmp_path, monkeypatch):
    missing = cli("upgrade", str(tmp_path / "x.whl"))
    assert missing.code == os.EX_NOINPUT and f"There is no file {tmp_path}/x.whl." in missing.err
    (tmp_path / "a b.whl").touch()
    for named in (f"{tmp_path}/a b.whl", f"{tmp_path}/a b.whl[local]"):
        shown = cli("upgrade", named)
        assert shown.code == 0
        assert f"`memory-gateway upgrade '{named}' --yes` runs this." in shown.err
    monkeypatch.chdir(tmp_path)
    (
        tmp_path / "requests"
    ).touch()  # by its bare name an installer would look it up in the package index
    assert f"{tmp_path}/requests\n" in cli("upgrade", "requests").out
    address = "https://example.com/m.whl"
    assert f"`memory-gateway upgrade {address} --yes`" in cli("upgrade", address).err


def test_a_value_that_is_not_allowed_is_told_in_plain_words(cli):
    done = cli("search", "boiler", "--source", "foo")
    assert (done.code, "Value error" in done.err) == (64, False)
    assert "'--source' / '-s': 'foo' is not one of 'memory', 'sessions'." in done.err
