"""The real process while the place of its notes is away."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

pytestmark = pytest.mark.anyio


async def ask(client, method, params):
    """Asks once: the usual call asks again while answers are stale."""
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


async def test_a_start_without_the_workspace_of_its_index_answers_from_the_index(home):
    async with home.gateway() as client:
        await client.call("sync", {})
    moved = home.workspace.with_name("moved")
    home.workspace.rename(moved)
    async with home.gateway() as client:
        found = await ask(client, "memory_search", {"query": "boiler"})
        assert found["results"][0]["path"] == "MEMORY.md"
        assert "is missing" in found["stale"]["reason"]
        await client.call("reload")
        assert (await client.call("health"))["status"] == "degraded"
        moved.rename(home.workspace)
        back = await client.call("memory_search", {"query": "boiler"})
        assert back["results"] and not back.get("stale")


async def test_a_start_with_a_workspace_that_nobody_knows_is_refused(home):
    async with home.gateway() as client:
        await client.call("sync", {})
    arguments = [*home.arguments, "--workspace", str(home.workspace) + "x"]
    done = await anyio.run_process(
        [sys.executable, "-m", "gateway", "serve", *arguments],
        env=home.environment,
        check=False,
        input=b"",
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 78
    assert b"does not exist" in done.stderr


async def test_a_slip_in_the_workspace_of_a_start_costs_the_index_nothing(home):
    home.configure({"agents": {"defaults": {"workspace": str(home.workspace)}}})
    async with home.gateway() as client:
        await client.call("sync", {})
        before = (await client.call("status"))["files"]
    other = home.root / "other"
    (other / "memory").mkdir(parents=True)
    (other / "memory/own.md").write_text("The ladder.\n", encoding="utf-8")
    home.workspace, right = other, home.workspace
    async with home.gateway() as client:
        found = await ask(client, "memory_search", {"query": "boiler"})
        assert found["results"] == []
        assert f"made for the workspace {right}" in found["stale"]["reason"]
    home.workspace = right
    async with home.gateway() as client:
        await client.call("sync", {})
        assert (await client.call("status"))["files"] == before
        found = await ask(client, "memory_search", {"query": "ladder"})
        assert found["results"] == [] and not found.get("stale")
