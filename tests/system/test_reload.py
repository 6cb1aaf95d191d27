"""Live configuration of a real process: applied, refused, corrected; nothing is lost meanwhile."""

from __future__ import annotations

import json
import signal

import anyio
import pytest

from config.errors import ErrorKind
from fakes.vendors import FakeVendor
from gateway.client import RemoteError, spawn_gateway

pytestmark = pytest.mark.anyio

PATIENCE_S = 60
KEY = "sk-canary-5d1f0b7a9c3e2468"


def settings(**search):
    return {"agents": {"defaults": {"memorySearch": search}}}


async def test_a_changed_key_applies_to_the_next_request(home):
    async with home.gateway() as client:
        found = await client.call("memory_search", {"query": "the"})
        assert len(found["results"]) > 1
        home.configure(settings(query={"maxResults": 1}))
        result = await client.call("reload")
        assert result == {
            "changed": ["query.maxResults"],
            "restartNeeded": [], "reopened": True, "warnings": [],
        }  # fmt: skip
        assert len((await client.call("memory_search", {"query": "the"}))["results"]) == 1
        assert (await client.call("reload"))["changed"] == []


async def test_what_a_reopened_index_does_by_itself_is_no_part_of_the_request_in_the_log(
    home, capfd
):
    line, environment = [*home.arguments, "--log-level", "debug"], home.environment
    async with spawn_gateway(line, environment=environment, share_stderr=True) as client:
        await client.call("sync")
        home.configure(settings(query={"maxResults": 1}))
        assert (await client.call("reload"))["reopened"]
        with anyio.fail_after(PATIENCE_S):
            while not (status := await client.call("status"))["recentSyncs"]:
                pass
        assert status["recentSyncs"][0]["reason"] == "reload"
    records = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    (reloaded,) = [one for one in records if one["event"] == "reloaded"]
    assert reloaded["method"] == "reload"
    (synced,) = [
        one for one in records if (one["event"], one.get("reason")) == ("synced", "reload")
    ]
    assert not {"connection", "request", "method"} & synced.keys()


async def test_sighup_reloads(home):
    async with home.gateway() as client:
        await client.call("health")
        home.configure({"memory": {"citations": "off"}})
        client.process.send_signal(signal.SIGHUP)
        with anyio.fail_after(PATIENCE_S):
            while (await client.call("status"))["citations"] != "off":
                pass


async def test_a_bridged_client_reloads_the_owner(home):
    async with home.gateway() as owner:
        await owner.call("health")
        async with home.gateway() as guest:
            home.configure({"memory": {"citations": "off"}})
            assert (await guest.call("reload"))["changed"] == ["citations"]
            assert (await owner.call("status"))["citations"] == "off"


async def test_an_invalid_file_keeps_the_old_configuration_and_says_so_until_it_is_mended(home):
    home.configure(settings(query={"maxResults": 1}))
    async with home.gateway() as client:
        await client.call("health")
        home.config.write_text('{"agents": {', encoding="utf-8")
        with pytest.raises(RemoteError) as caught:
            await client.call("reload")
        assert caught.value.kind is ErrorKind.CONFIG_INVALID
        assert len((await client.call("memory_search", {"query": "the"}))["results"]) == 1
        health = await client.call("health")
        assert health["status"] == "degraded"
        assert "openclaw.json" in health["reasons"][0]
        assert "openclaw.json" in (await client.call("status"))["configError"]
        home.configure(settings(query={"maxResults": 2}))
        assert (await client.call("reload"))["changed"] == ["query.maxResults"]
        assert (await client.call("health"))["status"] == "ok"
        assert (await client.call("status"))["configError"] is None


async def test_what_only_a_restart_can_change_is_named_and_stays(home, tmp_path):
    async with home.gateway() as client:
        before = (await client.call("status"))["databasePath"]
        home.configure(settings(store={"path": str(tmp_path / "other.sqlite")}))
        result = await client.call("reload")
        assert result["restartNeeded"] == ["store.path"]
        assert (await client.call("status"))["databasePath"] == before
        assert not (tmp_path / "other.sqlite").exists()


async def test_memory_is_switched_off_and_on_again_live(home):
    async with home.gateway() as client:
        await client.call("sync")
        home.configure(settings(enabled=False))
        await client.call("reload")
        assert (await client.call("memory_search", {"query": "boiler"}))["outcome"] == "disabled"
        home.configure({})
        await client.call("reload")
        assert (await client.call("memory_search", {"query": "boiler"}))["outcome"] == "ok"


async def test_memory_that_was_off_at_the_start_needs_a_restart(home):
    home.configure(settings(enabled=False))
    async with home.gateway() as client:
        await client.call("health")
        home.configure(settings(query={"maxResults": 3}))
        result = await client.call("reload")
        assert result["restartNeeded"] == ["enabled"]
        assert (await client.call("memory_search", {"query": "boiler"}))["disabled"]


async def test_open_requests_and_the_index_survive_reloads_that_open_the_backend_anew(home):
    for number in range(200):
        home.write(f"memory/big/{number}.md", f"# Note {number}\n\n" + "word " * 800)
    async with home.gateway() as client:
        await client.call("sync", timeout_s=60)
        reports, found = [], []

        async def sync():
            reports.append(await client.call("sync", {"force": True}, timeout_s=60))

        async def search():
            found.append(await client.call("memory_search", {"query": "boiler"}, timeout_s=60))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sync)
            for number in range(5):
                home.configure(settings(query={"maxResults": number + 2}))
                tasks.start_soon(search)
                assert (await client.call("reload", timeout_s=60))["reopened"]
                tasks.start_soon(search)
        assert [(one["scanned"], one["complete"]) for one in reports] == [(204, True)]
        assert [one["results"][0]["path"] for one in found] == ["MEMORY.md"] * 10
        assert (await client.call("status"))["files"] == 204


async def test_a_new_api_key_heals_the_provider_without_a_restart(home):
    with FakeVendor("openai", key=KEY) as vendor:

        def configure(key):
            remote = {"baseUrl": vendor.base_url, "apiKey": key}
            home.configure(settings(provider="openai", remote=remote, query={"minScore": 0}))

        async def until_health(client, wanted):
            with anyio.fail_after(PATIENCE_S):
                while (await client.call("health"))["status"] != wanted:
                    await client.call("memory_search", {"query": "heating"})

        configure("sk-wrong-0000000000000000")
        async with home.gateway() as client:
            await until_health(client, "degraded")
            configure(KEY)
            assert (await client.call("reload"))["changed"] == ["remote.apiKey"]
            await until_health(client, "ok")
            with anyio.fail_after(PATIENCE_S):
                while (await client.call("memory_search", {"query": "pump"}))["mode"] != "hybrid":
                    await anyio.sleep(0.02)
