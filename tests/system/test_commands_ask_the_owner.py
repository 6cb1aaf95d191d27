"""Commands beside a running gateway, which answers them; without one they do the work themselves."""

from __future__ import annotations

import json
import os
import signal

import pytest
from anyio.to_thread import run_sync

pytestmark = pytest.mark.anyio


async def run(home, *arguments):
    return await run_sync(home.run, *arguments)


async def test_status_search_get_and_index_are_answered_by_the_owner(home):
    async with home.gateway() as owner:
        await owner.call("sync")
        status = json.loads((await run(home, "status", "--json")).stdout)
        assert status["pid"] == owner.process.pid
        found = json.loads((await run(home, "search", "boiler", "--json")).stdout)
        assert found["results"][0]["path"] == "MEMORY.md"
        assert "citation" not in found["results"][0]
        text = json.loads((await run(home, "get", "MEMORY.md", "--from", "3", "--json")).stdout)
        assert text["text"].startswith("- The boiler")
        report = json.loads((await run(home, "index", "--force", "--json")).stdout)
        assert (report["scanned"], report["reason"], report["complete"]) == (4, "cli", True)
        reasons = [one["reason"] for one in (await owner.call("status"))["recentSyncs"]]
        assert "cli" in reasons


async def test_what_a_model_would_be_told_is_answered_by_the_owner_each_time_anew(home):
    async with home.gateway() as owner:
        await owner.call("sync")
        for _ in range(2):
            recalled = json.loads((await run(home, "recall", "What was a828e60?", "--json")).stdout)
            assert recalled["notes"][0]["path"] == "memory/projects/server.md"


async def test_without_an_owner_commands_open_the_index_themselves(home):
    found = json.loads((await run(home, "search", "boiler", "--json")).stdout)
    assert found["results"][0]["path"] == "MEMORY.md"
    assert json.loads((await run_sync(home.health)).stdout)["status"] == "ok"


async def test_the_person_at_the_machine_may_search_where_scope_denies(home):
    home.configure({"memory": {"scope": {"default": "deny"}}})
    async with home.gateway() as owner:
        denied = await owner.call("memory_search", {"query": "boiler"})
        assert denied["outcome"] == "denied"
        found = json.loads((await run(home, "search", "boiler", "--json")).stdout)
        assert found["outcome"] == "ok"


async def test_a_mistake_is_told_as_without_an_owner(home):
    async with home.gateway() as owner:
        await owner.call("health")
        with_owner = await run(home, "search", " ")
    without = await run(home, "search", " ")
    assert (with_owner.returncode, with_owner.stderr) == (without.returncode, without.stderr)
    assert with_owner.returncode == os.EX_USAGE


async def test_an_owner_that_hangs_is_failing_and_health_says_so_in_time(home):
    async with home.gateway() as owner:
        await owner.call("health")
        owner.process.send_signal(signal.SIGSTOP)
        try:
            done = await run(home, "health", "--json")
        finally:
            owner.process.send_signal(signal.SIGCONT)
    assert done.returncode == 2
    health = json.loads(done.stdout)
    assert health["status"] == "failing"
    assert "has not answered for" in health["reasons"][0]


async def test_a_command_for_another_workspace_is_refused_and_names_the_owner_s(home, tmp_path):
    async with home.gateway() as owner:
        await owner.call("health")
        done = await run(home, "search", "boiler", "--workspace", str(tmp_path))
    assert done.returncode == os.EX_UNAVAILABLE
    assert f"for the workspace {home.workspace}" in done.stderr
    assert f"Ask it with --workspace {home.workspace}" in done.stderr


async def test_metrics_without_a_gateway_are_none_and_that_is_no_success(home):
    done = await run(home, "metrics")
    assert (done.returncode, done.stdout) == (69, "")
    assert "No gateway runs for agent main" in done.stderr
    answer = json.loads((await run(home, "metrics", "--json")).stdout)
    assert answer["error"]["kind"] == "index_unavailable"


async def test_what_is_remembered_beside_a_gateway_is_written_by_it(home):
    home.configure({"memory": {"scope": {"default": "deny"}}})
    async with home.gateway() as owner:
        added = json.loads(
            (await run(home, "remember", "- The kettle is descaled.", "--json")).stdout
        )
        found = json.loads((await run(home, "search", "kettle descaled", "--json")).stdout)
        assert [hit["path"] for hit in found["results"]] == [added["path"]]
        refused = await owner.call("memory_append", {"text": "- No."})
        assert refused["disabled"]
        events = (await owner.call("metrics"))["families"]
        assert "memory_append" in json.dumps(events)


async def test_that_the_owner_leaves_out_what_claude_code_remembers_is_told_to_who_asks_for_it(
    home,
):
    warning = "the gateway that owns the index runs without it"
    async with home.gateway() as owner:
        await owner.call("sync")
        found = json.loads((await run(home, "search", "boiler", "--claude-code", "--json")).stdout)
        assert (found["outcome"], found["results"][0]["path"]) == ("partial", "MEMORY.md")
        assert warning in found["warning"]
        assert warning in (await run(home, "index", "--claude-code")).stderr
        status = json.loads((await run(home, "status", "--claude-code", "--json")).stdout)
        assert any(warning in issue for issue in status["issues"])
        plain = json.loads((await run(home, "search", "boiler", "--json")).stdout)
        assert (plain["outcome"], plain.get("warning")) == ("ok", None)
        async with home.gateway("--claude-code") as guest:
            answer = await guest.call("memory_search", {"query": "boiler"})
            assert (answer["outcome"], warning in answer["warning"]) == ("partial", True)


async def test_an_owner_that_searches_what_claude_code_remembers_answers_who_asks_for_it(home):
    memory = home.root / ".claude/projects/-garden/memory/MEMORY.md"
    memory.parent.mkdir(parents=True)
    memory.write_text("The quince is pruned in March.\n", encoding="utf-8")
    async with home.gateway("--claude-code") as owner:
        await owner.call("sync")
        found = json.loads((await run(home, "search", "quince", "--claude-code", "--json")).stdout)
        assert (len(found["results"]), found["outcome"], found.get("warning")) == (1, "ok", None)
