"""`health --deep` on the real process: every part is made to do its work, and the failing ones are named."""

from __future__ import annotations

import json

import anyio
import pytest
from anyio.to_thread import run_sync

from fakes.faults import status
from fakes.vendors import FakeVendor

pytestmark = pytest.mark.anyio

KEY = "sk-canary-3f0a77c1"
PATIENCE_S = 60


@pytest.fixture
def vendor():
    with FakeVendor("openai", key=KEY) as host:
        yield host


@pytest.fixture
def wired(home, vendor):
    home.embed_with(vendor)
    return home


def outcomes(health):
    return {one["part"]: one["outcome"] for one in health["trials"]}


async def run_deep(home):
    done = await run_sync(home.health, "--deep")
    assert KEY not in done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)


async def test_a_provider_that_answers_and_vectors_that_are_found_are_told(wired, vendor):
    async with wired.gateway() as client:
        await client.call("sync", {})
        with anyio.fail_after(PATIENCE_S):
            while outcomes(health := await client.call("health", {"deep": True})) != {
                "provider": "ok",
                "vectors": "ok",
            }:
                await anyio.sleep(0.02)
        assert health["status"] == "ok"
        before = len(vendor.requests)
        code, health = await run_deep(wired)
        assert (code, health["status"]) == (0, "ok")
        assert len(vendor.requests) > before, "the provider was not asked"
        assert all(one["ms"] >= 0 for one in health["trials"])
        assert "trials" not in await client.call("health")


async def test_a_provider_that_fails_degrades_it_and_is_named_with_or_without_an_owner(
    wired, vendor
):
    vendor.misbehave(status(401), times=1000)
    code, health = await run_deep(wired)
    assert (code, health["status"]) == (1, "degraded")
    assert outcomes(health) == {"provider": "failed", "vectors": "skipped"}
    assert "openai" in " ".join(health["reasons"])
    async with wired.gateway():
        code, health = await run_deep(wired)
        assert (code, outcomes(health)["provider"]) == (1, "failed")


async def test_without_a_provider_nothing_fails(home):
    code, health = await run_deep(home)
    assert (code, health["status"]) == (0, "ok")
    assert set(outcomes(health).values()) == {"skipped"}


async def test_a_missing_qmd_is_said_at_once(home):
    home.configure({"memory": {"backend": "qmd", "qmd": {"command": "/nowhere/qmd"}}})
    code, health = await run_deep(home)
    assert (code, outcomes(health)["qmd"]) == (1, "failed")
    (trial,) = [one for one in health["trials"] if one["part"] == "qmd"]
    assert "/nowhere/qmd" in trial["detail"]
    assert trial["ms"] < 5000
    assert trial["remedy"]
    assert any("/nowhere/qmd" in reason for reason in health["reasons"])


async def test_a_memory_that_is_off_has_nothing_to_try(home):
    home.configure({"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
    code, health = await run_deep(home)
    assert (code, health["trials"]) == (0, [])


async def test_a_deep_status_holds_a_deep_health(wired):
    async with wired.gateway() as client:
        await client.call("sync", {})
        assert "health" not in await client.call("status", {})
        deep = await client.call("status", {"deep": True}, timeout_s=PATIENCE_S)
        assert outcomes(deep["health"])["provider"] == "ok"
