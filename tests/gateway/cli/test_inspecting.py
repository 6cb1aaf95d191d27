"""`status`, `health` and `config` on a real memory."""

from __future__ import annotations

import json
import re
from shutil import rmtree

import pytest


def test_status_is_aligned_and_shortens_the_home_directory(indexed):
    done = indexed("status")
    assert (done.code, done.err) == (0, "")
    rows = done.out.splitlines()
    assert rows[0] == "Memory of agent main"
    assert not any(row.startswith("  Remedy") for row in rows)
    assert any(re.fullmatch(r"  Indexed +4/4 files · \d+ chunks", row) for row in rows)
    assert any(re.fullmatch(r"  Workspace +~/\.openclaw/workspace", row) for row in rows)
    assert any(re.fullmatch(r"  Configuration +all defaults", row) for row in rows)


def test_status_can_bring_the_index_up_to_date_first(cli):
    assert cli.json("status").get("files", 0) == 0
    assert cli.json("status", "--index")["files"] == 4


def test_status_says_where_the_notes_can_be_named_while_there_are_none(cli):
    cli.configure({"agents": {"defaults": {"memorySearch": {"extraPaths": ["~/gone"]}}}})
    told = cli("status").out
    assert "gone does not exist (yet)." in told and "Remedy" not in told  # notes wait for the index
    rmtree(cli.workspace)
    cli.configure({})
    rows = cli("status").out.splitlines()
    (issue,) = (at for at, row in enumerate(rows) if row.startswith("  Issue"))
    assert rows[issue].endswith("does not exist (yet).")
    assert re.fullmatch(r"  Remedy +`memory-gateway setup` asks where .*", rows[issue + 1])


def test_health_of_a_sound_memory_is_ok(indexed):
    assert indexed("health") == (0, "ok\n", "")
    assert indexed.json("health") == {"status": "ok", "reasons": []}


def block_index(cli):
    (cli.state / "memory").write_text("in the way", encoding="utf-8")


def break_configuration(cli):
    cli.configure({"memory": {"backend": 7}})


@pytest.mark.parametrize("damage", [block_index, break_configuration])
def test_health_is_failing_when_memory_cannot_be_opened(cli, damage):
    damage(cli)
    done = cli("health")
    assert (done.code, done.err) == (2, "")
    assert done.out.startswith("failing\n  ")
    assert cli.json("health", code=2)["status"] == "failing"


def test_config_shows_values_with_their_origin_and_no_secret(cli, monkeypatch):
    monkeypatch.setenv("VOYAGE_API_KEY", "pa-very-secret")
    remote = {"apiKey": "sk-very-secret"}
    search = {"remote": remote, "query": {"maxResults": 9}, "chunkng": {}}
    cli.configure({"agents": {"defaults": {"memorySearch": search}}})
    done = cli("config")
    assert done.code == 0
    assert re.search(r"^query\.maxResults +9 +file: .*line 1", done.out, re.MULTILINE)
    assert re.search(r"^query\.minScore +0\.35 +default$", done.out, re.MULTILINE)
    assert "Warning: agents.defaults.memorySearch.chunkng (line 1)" in done.err
    shown = json.dumps(cli.json("config"))
    assert "very-secret" not in done.out + done.err + shown


def test_a_command_by_itself_knows_what_no_sync_will_read(indexed):
    large = indexed.workspace / "memory/large.md"
    with large.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    status = indexed.json("status")
    assert not status["dirty"]
    assert [one["path"] for one in status["skipped"]] == ["memory/large.md"]
    assert indexed.json("health", code=1)["status"] == "degraded"


def test_a_command_by_itself_does_not_call_a_memory_sound_whose_notes_are_away(indexed):
    indexed.workspace.rename(indexed.home / "elsewhere")
    health = indexed.json("health", code=1)
    assert health["status"] == "degraded"
    assert "is missing" in health["reasons"][0]
    shown = indexed("search", "tea", "-l")
    assert "not up to date" in shown.err


def test_config_as_json_holds_value_and_origin(cli):
    cli.configure({"memory": {"citations": "on"}})
    value = cli.json("config")["values"]["citations"]
    assert value["value"] == "on"
    assert value["origin"]["kind"] == "file"


def test_commands_on_a_memory_that_is_switched_off_say_so(cli):
    cli.configure({"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
    for command, code in ((["index"], 0), (["search", "tea"], 69)):
        done = cli(*command)
        assert (done.code, done.out) == (code, "")
        assert "enabled" in done.err
    assert cli("get", "MEMORY.md").code == 69
    assert cli.json("search", "tea", code=69)["disabled"] is True
    assert cli.json("index")["disabled"] is True
    assert "switched off" in cli("status").out
    assert cli("health").code == 0
