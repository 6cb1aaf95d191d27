"""`connect` and `disconnect` as typed: what they show, ask, write and refuse."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
import typer

from backends.interface import FileUnwritableError
from gateway.cli import output
from gateway.cli.commands.connecting import _surroundings
from gateway.cli.guard import INTERRUPTED
from gateway.connect import entries
from gateway.connect.clients import CLIENTS


@pytest.fixture(autouse=True)
def nowhere(cli, monkeypatch):
    """Hides all clients of this machine."""
    (cli.home / "bin").mkdir()
    monkeypatch.setenv("PATH", str(cli.home / "bin"))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


def program(cli, name, script):
    path = cli.home / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def written(cli):
    return json.loads((cli.home / ".cursor/mcp.json").read_text())["mcpServers"]["memory-gateway"]


def test_a_connection_is_shown_written_and_undone(cli):
    done = cli("connect", "cursor", "--yes")
    assert (done.code, done.err) == (0, "")
    assert '+ "memory-gateway": {' in done.out
    entry = written(cli)
    assert os.access(entry["command"], os.X_OK)
    assert Path(entry["command"]).is_absolute()
    assert entry["args"] == ["serve", "--agent", "main"]
    assert "stays as it is" in cli("connect", "cursor", "--yes").out
    assert "is gone, as before" in cli("disconnect", "cursor", "--yes").out
    assert not (cli.home / ".cursor").exists()
    again = cli("disconnect", "cursor", "--yes")
    assert (again.code, "is not connected" in again.out) == (0, True)


@pytest.mark.parametrize("client", CLIENTS)
def test_directories_that_were_made_for_a_client_go_with_its_files(cli, client):
    before = set(cli.home.rglob("*"))
    cli("connect", client, "--yes")
    assert set(cli.home.rglob("*")) > before
    cli("disconnect", client, "--yes")
    left = {one for one in cli.home.rglob("*") if not one.is_relative_to(cli.state)}
    assert left == {one for one in before if not one.is_relative_to(cli.state)}


def test_a_client_that_wrote_its_file_anew_is_named_since_the_old_bytes_cannot_come_back(cli):
    file = cli.home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"other": {"command": "x"}}}')
    cli("connect", "cursor", "--notes", str(cli.home), "--yes")
    file.write_text(json.dumps(json.loads(file.read_text()), indent=8))
    output = cli("disconnect", "cursor", "--yes").out
    assert "Cursor, or somebody else, has changed the file since" in output
    assert f"An earlier copy stays in {file}.before-memory-gateway" in output
    assert json.loads(file.read_text()) == {"mcpServers": {"other": {"command": "x"}}}


def test_nothing_is_written_where_nobody_can_be_asked(cli):
    done = cli("connect", "cursor")
    assert done.code == os.EX_USAGE
    assert "--yes writes it" in done.err
    assert not (cli.home / ".cursor").exists()


@pytest.mark.parametrize(("answer", "is_written"), [(True, True), (False, False)])
def test_a_person_is_asked(cli, monkeypatch, answer, is_written):
    monkeypatch.setattr(output, "may_ask", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_args, **_options: answer)
    assert cli("connect", "cursor").code == 0
    assert (cli.home / ".cursor/mcp.json").exists() is is_written


def test_who_goes_away_instead_of_answering_has_written_nothing(cli, monkeypatch):
    def go_away(*_args, **_options):
        raise typer.Abort

    monkeypatch.setattr(output, "may_ask", lambda: True)
    monkeypatch.setattr("typer.confirm", go_away)
    for name in ("cursor", "claude-code"):
        assert cli("connect", name).code == INTERRUPTED
    assert not (cli.home / ".cursor").exists()


def test_the_way_back_names_what_was_named(cli):
    assert "`memory-gateway disconnect cursor` undoes" in cli("connect", "cursor", "--yes").out
    shown = cli("connect", "cursor", "--yes", "--name", "work").out
    assert "`memory-gateway disconnect cursor --name work` undoes" in shown


def test_claude_codes_own_memory_is_a_source_only_if_somebody_says_so(cli, monkeypatch):
    asked = []

    def confirm(question, **options):
        asked.append((question, options))
        return True

    assert cli.json("connect", "claude-code", "--yes")["entry"]["args"][-1] == "main"
    monkeypatch.setattr(output, "may_ask", lambda: True)
    monkeypatch.setattr("typer.confirm", confirm)
    cli("connect", "claude-code")
    assert asked[0] == (
        "Search what Claude Code itself remembers, too?",
        {"default": False},
    )
    servers = json.loads((cli.home / ".claude.json").read_text())["mcpServers"]
    assert servers["memory-gateway"]["args"][-1] == "--claude-code"
    assert cli.json("connect", "codex", "--claude-code")["entry"]["args"][-1] == "--claude-code"


def test_as_json_it_only_says_what_it_would_do_unless_it_may(cli):
    plan = cli.json("connect", "codex")
    assert (plan["changes"], plan["written"], plan["check"]) == (True, False, None)
    assert not (cli.home / ".codex").exists()
    done = cli.json("connect", "codex", "--yes")
    assert (done["written"], done["check"]["verdict"]) == (True, "unknown")
    servers = tomllib.loads((cli.home / ".codex/config.toml").read_text())["mcp_servers"]
    assert servers["memory-gateway"] == done["entry"]
    gone = cli.json("disconnect", "codex", "--yes")
    assert (gone["entry"], gone["written"]) == (None, True)


def test_which_memory_is_said_by_flags_and_found_from_anywhere(cli, monkeypatch):
    (cli.home / "notes").mkdir()
    monkeypatch.chdir(cli.home)
    folder = str(cli.home / "notes")
    for given, expected in (
        (["--notes", "notes"], ["--notes", folder]),
        (
            ["--notes", "notes", "--state-dir", "s"],
            ["--notes", folder, "--state-dir", f"{cli.home}/s"],
        ),
        (["--workspace", "notes"], ["--agent", "main", "--workspace", folder]),
        (["--agent", "main"], ["--agent", "main"]),
    ):
        cli("connect", "cursor", "--yes", *given)
        assert written(cli)["args"] == ["serve", *expected]


def test_what_variables_say_here_is_written_out_for_a_client_that_does_not_have_them(
    cli, monkeypatch
):
    other = cli.home / "other"
    (other / "workspace").mkdir(parents=True)
    (other / "openclaw.json").write_text(
        json.dumps({"agents": {"defaults": {"workspace": f"{other}/workspace"}}})
    )
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(other))
    monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(other / "openclaw.json"))
    cli("connect", "cursor", "--yes")
    assert written(cli)["args"][3:] == [
        "--state-dir", str(other), "--config", str(other / "openclaw.json"),
    ]  # fmt: skip


def test_without_any_memory_it_says_how_to_name_one(cli):
    cli.workspace.rename(cli.home / "gone")
    done = cli("connect", "cursor", "--yes")
    assert done.code == os.EX_CONFIG
    assert "--notes" in done.err
    assert not (cli.home / ".cursor").exists()


def test_what_other_clients_need_is_printed(cli):
    printed = cli.json("connect", "--print")
    assert printed["mcpServers"]["memory-gateway"]["args"] == ["serve", "--agent", "main"]
    done = cli("connect", "vscode", "--print")
    assert list(json.loads(done.out)["servers"]) == ["memory-gateway"]
    assert ".config/Code/User/mcp.json" in done.err or "Code/User/mcp.json" in done.err
    assert "memory-gateway" in tomllib.loads(cli("connect", "codex", "--print").out)["mcp_servers"]
    assert cli.json("connect", "zed", "--print")["key"] == "context_servers"
    assert not (cli.home / ".config").exists()


def test_the_list_says_what_is_installed_and_what_is_connected(cli):
    program(cli, "codex", "exit 0")
    cli("connect", "cursor", "--yes")
    (cli.home / ".codeium/windsurf").mkdir(parents=True)
    (cli.home / ".codeium/windsurf/mcp_config.json").write_text("{")
    rows = {row["client"]: row for row in cli.json("connect")["clients"]}
    assert rows.keys() == CLIENTS.keys()
    assert (rows["codex"]["installed"], rows["zed"]["installed"]) == (True, False)
    assert list(rows["cursor"]["connected"]) == ["memory-gateway"]
    assert "unclosed object" in rows["windsurf"]["problem"]
    shown = cli("connect").out
    assert "connected as memory-gateway" in shown
    assert "codex           installed" in shown


def test_variables_that_a_person_gave_the_server_are_not_printed(cli):
    cli("connect", "cursor", "--yes")
    path = cli.home / ".cursor/mcp.json"
    config = json.loads(path.read_text())
    config["mcpServers"]["memory-gateway"]["env"] = {"OPENAI_API_KEY": "sk-secret"}
    config["mcpServers"]["other"] = {"command": "x", "env": {"TOKEN": "sk-secret"}}
    path.write_text(json.dumps(config))
    for arguments in (
        ["connect"],
        ["connect", "--json"],
        ["connect", "cursor", "--claude-code", "--yes"],
        ["disconnect", "cursor", "--yes"],
    ):
        done = cli(*arguments)
        assert done.code == 0
        assert "sk-secret" not in done.out + done.err
    assert "sk-secret" in path.read_text()


@pytest.mark.parametrize(
    ("script", "verdict", "code"),
    [
        ('test -f "$CODEX_HOME/config.toml" && echo \'{"name": "memory-gateway"}\'', "seen", 0),
        ("echo 'No MCP server'; exit 1", "not_seen", os.EX_UNAVAILABLE),
    ],
)
def test_the_client_is_asked_whether_it_sees_the_server(cli, monkeypatch, script, verdict, code):
    program(cli, "codex", script)
    monkeypatch.setenv("PATH", f"{cli.home}/bin:/usr/bin:/bin")
    done = cli.json("connect", "codex", "--yes", code=code)
    assert done["check"]["verdict"] == verdict


def test_to_ask_claude_code_does_not_empty_the_index_of_what_it_remembers(cli, monkeypatch):
    """The check uses another directory of Claude Code."""
    program(cli, "claude", f'cp "$CLAUDE_CONFIG_DIR/.claude.json" {cli.home}/asked; echo Connected')
    monkeypatch.setenv("PATH", f"{cli.home}/bin:/usr/bin:/bin")
    done = cli.json("connect", "claude-code", "--claude-code", "--yes")
    assert (done["check"]["verdict"], done["entry"]["args"][-1]) == ("seen", "--claude-code")
    asked = json.loads((cli.home / "asked").read_text())["mcpServers"]["memory-gateway"]
    assert asked["args"] == done["entry"]["args"][:-1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["connect", "emacs"], "Known are claude-code"),
        (["disconnect"], "Which client"),
        (["connect", "cursor", "--name", "a b"], "letters, digits"),
        (["connect", "cursor", "--notes", "/nowhere"], "does not exist"),
    ],
)
def test_slips_are_told_in_a_sentence(cli, arguments, why):
    done = cli(*arguments)
    assert done.code != 0
    assert why in done.err


def hooks_of(cli, client):
    names = {"codex": "hooks.json"}
    folder = client.removesuffix("-code")
    return cli.home / f".{folder}" / names.get(client, "settings.json")


HOOKED = {
    "claude-code": (
        '{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "true"}]}],\n'
        ' "Stop": []}, "x": 1.0}'
    ),
    "codex": '{\n   "hooks": {}\n}\n',
    "gemini": (
        '{\n    // mine\n    "hooks": { "BeforeAgent": [\n'
        '      { "hooks": [{"type": "command", "command": "true"}] } ] },\n    "theme": "x",\n}'
    ),
    "copilot": '{"hooks": {"userPromptSubmitted": [{"type": "command", "bash": "true"}]}}',
}


@pytest.mark.parametrize("client", HOOKED)
def test_recall_is_connected_beside_hooks_of_others_and_undone_byte_for_byte(cli, client):
    file = hooks_of(cli, client)
    file.parent.mkdir(exist_ok=True)
    file.write_text(HOOKED[client])
    for _ in range(2):
        done = cli.json("connect", client, "--yes")
        assert done["hooks"]["written"] is True
        (event, *_), text = done["hooks"]["entry"], file.read_text()
        command = done["hooks"]["entry"][event][0]["hooks"][0]["command"]
        assert f"recall --hook {client} --agent main" in command
        assert text.count("recall --hook") == len(done["hooks"]["entry"])
        assert text.count('"command": "true"') == HOOKED[client].count('"command": "true"')
        assert cli.json("connect", client, "--yes")["hooks"]["changes"] is False
        cli("disconnect", client, "--yes")
        assert file.read_text() == HOOKED[client]
    assert [one.name for one in file.parent.glob("*.before-memory-gateway*")] == []


@pytest.mark.parametrize("client", HOOKED)
def test_hooks_are_cut_out_of_a_file_that_was_changed_meanwhile(cli, client):
    file = hooks_of(cli, client)
    file.parent.mkdir(exist_ok=True)
    file.write_text(HOOKED[client])
    cli("connect", client, "--yes")
    file.write_text(file.read_text() + "\n")
    assert "has changed since, and keeps the rest." in cli("disconnect", client, "--yes").out
    assert "memory-gateway" not in file.read_text()
    left, before = ("".join(text.split()) for text in (file.read_text(), HOOKED[client]))
    assert left == before


@pytest.mark.parametrize("client", HOOKED)
def test_who_has_no_hooks_file_has_none_afterwards(cli, client):
    cli("connect", client, "--yes")
    assert hooks_of(cli, client).exists()
    cli("disconnect", client, "--yes")
    assert not hooks_of(cli, client).exists()


def test_recall_may_be_declined_and_taken_back_alone(cli):
    assert cli.json("connect", "claude-code", "--yes", "--no-recall")["hooks"]["written"] is False
    assert not hooks_of(cli, "claude-code").exists()
    assert cli.json("connect", "claude-code", "--yes")["hooks"]["written"] is True
    assert cli.json("connect", "claude-code", "--yes", "--no-recall")["hooks"]["written"] is True
    assert not hooks_of(cli, "claude-code").exists()


def test_two_memories_of_one_client_have_hooks_of_their_own(cli):
    cli("connect", "claude-code", "--yes")
    cli("connect", "claude-code", "--yes", "--name", "work")
    assert hooks_of(cli, "claude-code").read_text().count("recall --hook") == 4
    cli("disconnect", "claude-code", "--yes", "--name", "work")
    text = hooks_of(cli, "claude-code").read_text()
    assert (text.count("recall --hook"), "--name work" in text) == (2, False)


@pytest.mark.parametrize(("answer", "is_written"), [(True, True), (False, False)])
def test_a_person_is_asked_once_whether_to_recall_and_whether_the_agent_may_write(
    cli, monkeypatch, answer, is_written
):
    asked = []

    def confirm(question, **_options):
        asked.append(question)
        return answer or question == "Write this?"

    monkeypatch.setattr(output, "may_ask", lambda: True)
    monkeypatch.setattr("typer.confirm", confirm)
    done = cli("connect", "codex")
    assert len([one for one in asked if one.startswith(("Show the model", "May the agent"))]) == 2
    assert hooks_of(cli, "codex").exists() is is_written
    assert ("has trusted" in done.out or "have trusted" in done.out) is is_written
    servers = tomllib.loads((cli.home / ".codex/config.toml").read_text())["mcp_servers"]
    assert ("--write" in servers["memory-gateway"]["args"]) is is_written


def test_a_client_without_hooks_says_what_it_misses(cli):
    assert "has to search memory by itself" in cli("connect", "cursor", "--yes").out


def test_a_hook_in_a_group_with_others_is_known_and_goes_alone(cli):
    cli("connect", "claude-code", "--yes")
    file = hooks_of(cli, "claude-code")
    said = json.loads(file.read_text())
    said["hooks"]["SessionStart"][0]["hooks"].append({"type": "command", "command": "mine"})
    file.write_text(json.dumps(said))
    assert cli.json("connect", "claude-code", "--yes")["hooks"]["changes"] is False
    output = cli("disconnect", "claude-code", "--yes").out
    assert f"{file} has changed since, and keeps the rest." in output
    left = json.loads(file.read_text())["hooks"]
    assert left == {"SessionStart": [{"hooks": [{"type": "command", "command": "mine"}]}]}


def test_a_file_that_was_not_there_before_and_holds_more_now_is_not_called_as_before(cli):
    for client in ("claude-code", "gemini"):
        cli("connect", client, "--yes")
        for file in {hooks_of(cli, client), CLIENTS[client].file(_surroundings())}:
            file.write_text(json.dumps({**json.loads(file.read_text()), "theme": "dark"}))
        output = cli("disconnect", client, "--yes").out
        assert "as before" not in output
        assert "only our entry is cut out, the rest stays as it is now." in output
        assert f"{hooks_of(cli, client)} has changed since, and keeps the rest." in output


def test_a_file_that_was_not_there_before_is_told_to_be_gone(cli):
    cli("connect", "gemini", "--yes")
    output = cli("disconnect", "gemini", "--yes").out
    assert f"Disconnected; {hooks_of(cli, 'gemini')} is gone, as before." in output


def test_a_link_that_is_not_followed_names_what_to_take_out(cli):
    cli("connect", "cursor", "--yes")
    file = cli.home / ".cursor/mcp.json"
    file.rename(cli.home / "elsewhere.json")
    file.symlink_to(cli.home / "elsewhere.json")
    refused = cli("disconnect", "cursor", "--yes")
    assert refused.code == os.EX_CANTCREAT
    assert "Take memory-gateway out of its mcpServers by hand." in refused.err
    assert "--print" not in refused.err


def failing(monkeypatch, fails):
    """Makes writing fail for the plans chosen."""
    real = entries.carry_out

    def carry_out(plan):
        if fails(plan):
            raise FileUnwritableError(f"{plan.path} cannot be replaced.", remedy="Look.")
        return real(plan)

    monkeypatch.setattr(entries, "carry_out", carry_out)


@pytest.mark.parametrize("before", [None, '{"theme": 1.0}', "connected"])
def test_a_client_whose_hooks_cannot_be_written_is_not_half_connected(cli, monkeypatch, before):
    file = CLIENTS["claude-code"].file(_surroundings())
    if before == "connected":
        cli("connect", "claude-code", "--yes", "--no-recall")
        before = file.read_text()
    elif before:
        file.write_text(before)
    there = sorted(file.parent.iterdir())
    failing(monkeypatch, lambda plan: plan.client.is_hooks)
    notes = ("--notes", str(cli.workspace))
    assert cli("connect", "claude-code", "--yes", *notes).code == os.EX_CANTCREAT
    assert (file.read_text() if file.exists() else None) == before
    assert sorted(file.parent.iterdir()) == there


def test_a_client_that_cannot_be_disconnected_keeps_its_hooks(cli, monkeypatch):
    cli("connect", "claude-code", "--yes")
    before = hooks_of(cli, "claude-code").read_text()
    failing(monkeypatch, lambda plan: not plan.client.is_hooks)
    assert cli("disconnect", "claude-code", "--yes").code == os.EX_CANTCREAT
    assert hooks_of(cli, "claude-code").read_text() == before


def test_what_cannot_be_taken_back_is_named(cli, monkeypatch):
    failing(monkeypatch, lambda plan: plan.client.is_hooks or plan.new is None)
    refused = cli("connect", "claude-code", "--yes", "-j")
    changed = CLIENTS["claude-code"].file(_surroundings())
    assert refused.code == os.EX_CANTCREAT
    assert f"{changed} was changed before that, and stays so." in refused.out + refused.err
