"""The real process with a model of its own: no key, no network, and a worker that may die."""

from __future__ import annotations

import os
import signal
import time

import anyio
import pytest

from endurance.processes import has_ended
from fakes.embedding import embedded, vector_status
from fakes.onnx_models import write_embedder

pytestmark = pytest.mark.anyio

PATIENCE_S = 120


@pytest.fixture
def local(home):
    """A home whose openclaw.json names a tiny model."""
    path = write_embedder(home.root / "tiny/model.onnx", context=256)

    def configure(**search):
        block = {"provider": "local", "local": {"modelPath": str(path)}, **search}
        home.configure({"agents": {"defaults": {"memorySearch": block}}})
        return home

    home.model, home.reconfigure = path, configure
    return configure()


async def worker_of(client):
    return (await vector_status(client))["provider"]["active"]["details"]["worker"]


async def until_gone(pid):
    with anyio.fail_after(PATIENCE_S):
        while not has_ended(pid):
            await anyio.sleep(0.01)


async def test_notes_are_embedded_and_found_without_any_key(local):
    async with local.gateway() as client:
        await client.call("sync", {})
        coverage = await embedded(client)
        result = await client.call("memory_search", {"query": "heating pump membrane"})
        status = await vector_status(client)
        worker = status["provider"]["active"]["details"]["worker"]
        health = await client.call("health", {})
    assert (result["mode"], result["provider"], result["model"]) == ("hybrid", "local", "tiny")
    assert result["results"][0]["vectorScore"] > 0
    assert coverage["dimensions"] == 32
    assert worker["residentBytes"] > 0
    assert health["status"] == "ok"
    await until_gone(worker["pid"])


async def test_a_killed_worker_is_not_noticed_by_who_searches(local):
    local.reconfigure(query={"embeddingTimeoutMs": 60_000})  # a worker starts when it can
    async with local.gateway() as client:
        await client.call("sync", {})
        await embedded(client)
        for number in range(3):
            os.kill((await worker_of(client))["pid"], signal.SIGKILL)
            result = await client.call("memory_search", {"query": f"heating pump {number}"})
            assert result["mode"] == "hybrid"
            assert "warning" not in result
        assert (await worker_of(client))["deaths"] == 3


async def test_a_killed_gateway_leaves_no_worker(local):
    async with local.gateway() as client:
        await client.call("sync", {})
        await embedded(client)
        pid = (await worker_of(client))["pid"]
        client.process.send_signal(signal.SIGKILL)
        await client.process.wait()
        await until_gone(pid)


@pytest.mark.promises_seconds
async def test_the_end_of_the_input_ends_gateway_and_worker_while_they_embed(local):
    for number in range(200):
        local.write(f"memory/n{number:03}.md", f"- Entry {number}. " + "The boiler log. " * 200)
    async with local.gateway() as client:
        await client.call("sync", {})
        with anyio.fail_after(PATIENCE_S):
            while (worker := await worker_of(client))["status"] != "running":
                await anyio.sleep(0.02)
        started = time.monotonic()
    assert time.monotonic() - started < 3
    assert client.process.returncode == 0
    await until_gone(worker["pid"])


async def test_without_its_model_notes_are_found_by_keywords_and_the_reason_is_given(local):
    local.model.unlink()
    async with local.gateway() as client:
        await client.call("sync", {})
        result = await client.call("memory_search", {"query": "heating pump membrane"})
        assert result["mode"] == "keyword"
        assert result["results"][0]["path"] == "memory/2026-02-01.md"
        assert str(local.model) in result["warning"]
        health = await client.call("health", {})
    assert health["status"] == "degraded"
    assert any(str(local.model) in reason for reason in health["reasons"])


def test_commands_without_a_gateway_say_that_the_model_is_not_there(local):
    local.model.unlink()

    def health_names_it():
        done = local.health()
        return done.returncode == 1 and str(local.model) in done.stdout

    local.until(health_names_it)
    vector = local.command("status", "--json", until=is_chosen)["details"]["vector"]
    assert vector["provider"]["active"]["provider"] == "local"


def is_chosen(status):
    """Returns whether the provider is chosen, which happens beside everything else."""
    return "still being chosen" not in str(status["details"]["vector"].get("reason"))


async def test_two_gateways_of_two_agents_share_one_model_file(local):
    async with local.gateway("--agent", "main") as first, local.gateway("--agent", "two") as second:
        for client in (first, second):
            await client.call("sync", {})
        for client in (first, second):
            await embedded(client)
            result = await client.call("memory_search", {"query": "heating pump membrane"})
            assert result["mode"] == "hybrid"
        assert (await worker_of(first))["pid"] != (await worker_of(second))["pid"]


async def test_chunks_are_no_longer_than_what_the_model_reads(local):
    sentences = (f"The pump was oiled for the {number}th time. " for number in range(400))
    local.write("memory/long.md", "".join(sentences))
    sizes = {}
    for context in (64, 2048):
        write_embedder(local.model, context=context)
        async with local.gateway() as client:
            await client.call("sync", {})
            await embedded(client)
            sizes[context] = (await client.call("status", {}))["chunks"]
    assert sizes[64] > 4 * sizes[2048]


def test_a_model_that_is_yet_to_be_fetched_is_waited_for_and_not_called_ready(local):
    local.reconfigure(local={"modelPath": "hf:org/repository/absent.onnx"})
    status = local.command("status", "--json", until=is_chosen)
    active = status["details"]["vector"]["provider"]["active"]
    assert active["status"] == "waiting"
    assert "yet to be fetched" in active["reason"]
    shown = local.run("status").stdout
    assert "local is waiting" in shown
    assert shown.count("absent.onnx is yet to be fetched.") == 1
