"""QMD behind the real gateway: it answers if it can, and else the builtin engine does."""

from __future__ import annotations

import json
import os
import subprocess

import anyio
import pytest

from fakes.qmd import install_qmd

pytestmark = [pytest.mark.anyio, pytest.mark.shares_a_host]

DIRECT = "agent:main:main"
PATIENCE_S = 120


@pytest.fixture(scope="module")
def qmd_command() -> str:
    return install_qmd()


@pytest.fixture(scope="module")
async def warm(make_home, tmp_path_factory, qmd_command):
    """A home, and its gateway for which QMD answers."""
    home = make_home(tmp_path_factory.mktemp("warm"))
    home.configure(qmd(qmd_command))
    async with home.gateway() as client:
        with anyio.fail_after(PATIENCE_S):
            while (await search(client, "heating pump membrane"))["backend"] != "qmd":
                await anyio.sleep(0.05)
        yield home, client


@pytest.fixture(scope="module")
def by_hand(make_home, tmp_path_factory, qmd_command):
    """A home without a gateway: each command starts its own QMD, and leaves its index."""
    home = make_home(tmp_path_factory.mktemp("by-hand"))
    home.configure(qmd(qmd_command))
    return home


def qmd(command: str) -> dict[str, object]:
    """Settings with patient searches, so that a busy machine does not decide what the first ones find."""
    patient = {"memorySearch": {"sync": {"searchBudgetMs": 20_000}}}
    memory = {"backend": "qmd", "qmd": {"command": command, "searchMode": "search"}}
    return {"agents": {"defaults": patient}, "memory": memory}


async def search(client, query, session_key=DIRECT):
    return await client.call("memory_search", {"query": query, "sessionKey": session_key})


async def test_every_search_is_answered_and_qmd_takes_over_when_it_is_ready(home, qmd_command):
    home.configure(qmd(qmd_command))
    async with home.gateway() as client:
        first = await search(client, "heating pump membrane")
        assert first["results"][0]["path"] == "memory/2026-02-01.md"
        with anyio.fail_after(PATIENCE_S):
            while (result := await search(client, "heating pump membrane"))["backend"] != "qmd":
                assert result["results"], "an answer was lost while QMD was not ready"
        assert result["results"][0]["path"] == "memory/2026-02-01.md"
        assert "membrane" in result["results"][0]["snippet"]
        assert (await client.call("status"))["backend"] == "qmd"


async def test_a_deep_look_asks_qmd_and_the_doctor_tries_the_program(warm):
    home, client = warm
    trials = []
    with anyio.fail_after(PATIENCE_S):
        while not any(one["part"] == "qmd" and one["outcome"] == "ok" for one in trials):
            health = await client.call("health", {"deep": True}, timeout_s=PATIENCE_S)
            trials = health["trials"]
    done = await anyio.to_thread.run_sync(home.run, "doctor", "--json")
    (one,) = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "qmd"]
    assert (one["severity"], one["cause"].endswith("works.")) == ("ok", True)


async def test_without_the_program_the_builtin_engine_answers_and_says_why(home):
    home.configure(qmd("/nowhere/qmd"))
    async with home.gateway() as client:
        with anyio.fail_after(PATIENCE_S):
            reason = ""
            while "/nowhere/qmd" not in reason:
                result = await search(client, "greenhouse sensor")
                assert result["results"][0]["path"] == "memory/2026-02-01.md"
                assert result["backend"] == "builtin"
                assert result["fallback"]["from"] == "qmd"
                reason = result["fallback"]["reason"]
        health = await client.call("health")
        assert health["status"] == "degraded"
        assert "/nowhere/qmd" in health["reasons"][0]


async def test_groups_and_callers_without_a_session_are_denied_before_any_work(home):
    home.configure(qmd("/nowhere/qmd"))
    async with home.gateway() as client:
        for key in ("agent:main:telegram:group:-1", None):
            result = await search(client, "boiler", key)
            assert (result["outcome"], result["results"]) == ("denied", [])
            assert "may not search" in result["error"]


async def test_an_operator_runs_qmd_on_the_index_of_the_gateway(warm):
    home, _ = warm
    found = home.run("qmd", "--", "search", "membrane", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)[0]["file"] == "qmd://memory-dir/2026-02-01.md"
    changed = home.run("qmd", "--", "update")
    assert "All collections updated" in changed.stdout


def test_the_variables_for_a_shell_lead_to_the_same_index(home, qmd_command):
    home.configure(qmd(qmd_command))
    written = home.run("qmd", "env").stdout
    script = f'{written}\nprintf %s "$QMD_CONFIG_DIR"'
    shown = subprocess.run(
        ["sh", "-c", script], capture_output=True, encoding="utf-8", check=True, timeout=60
    ).stdout
    assert shown == str(home.state / "memory-gateway/main/qmd/xdg-config/qmd")
    assert "PWD" not in written


def test_without_the_program_the_operator_is_told_where_to_get_it(home):
    home.configure(qmd("/nowhere/qmd"))
    done = home.run("qmd", "--", "status")
    assert done.returncode == os.EX_UNAVAILABLE
    assert "npm install" in done.stderr


def test_a_search_by_hand_waits_for_qmd_to_start(by_hand):
    # On a slow machine that takes longer than a person waits.
    answer = by_hand.command(
        "search", "heating pump membrane", "--json", until=lambda one: one["backend"] == "qmd"
    )
    assert answer.get("fallback") is None
    assert answer["results"][0]["path"] == "memory/2026-02-01.md"


def test_a_deep_look_without_a_gateway_waits_for_the_server_of_qmd(by_hand):

    def trial(health):
        (one,) = [one for one in health["trials"] if one["part"] == "qmd"]
        return one

    health = by_hand.command(
        "health", "--deep", "--json", until=lambda one: trial(one)["outcome"] == "ok"
    )
    assert trial(health)["detail"] == "QMD 2.8.3 answered."


def test_status_by_hand_says_what_keeps_qmd_from_answering(home):
    home.configure(qmd("/nowhere/qmd"))
    done = home.run("status", "--json")
    assert "/nowhere/qmd" in json.loads(done.stdout)["details"]["fallback"]["reason"]


def test_what_a_command_logs_is_text_for_people_and_json_for_programs(home):
    home.configure(qmd("/nowhere/qmd"))
    said = home.run("search", "boiler").stderr
    assert "qmd is not available" in said
    assert "{" not in said
    log = home.run("search", "boiler", "--json").stderr
    assert "qmd is not available" in [json.loads(line)["event"] for line in log.splitlines()]
