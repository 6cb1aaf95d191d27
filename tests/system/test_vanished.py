"""The real process while the place of its notes is away."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio


async def ask(client, method, params):
    """Once: the usual call asks again while answers are stale."""
    return await type(client).call(client, method, params)


async def test_a_renamed_workspace_is_said_by_every_method_and_costs_nothing(home):
    for number in range(12):
        home.write(f"memory/n{number}.md", f"the boiler of house number{number}\n")
    moved = home.workspace.with_name("moved")
    async with home.gateway() as client:
        await client.call("sync", {})
        home.workspace.rename(moved)
        found = await ask(client, "memory_search", {"query": "number3"})
        assert found["results"][0]["path"] == "memory/n3.md"
        assert "is missing" in found["stale"]["reason"]
        health = await client.call("health")
        assert health["status"] == "degraded"
        assert any("is missing" in reason for reason in health["reasons"])
        moved.rename(home.workspace)
        back = await client.call("memory_search", {"query": "number3"})
        assert back["results"] and not back.get("stale")
