"""The real process with the official MCP client at its pipe, in every era the client speaks."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import LATEST_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from fakes.faults import fault
from fakes.vendors import FakeVendor

pytestmark = pytest.mark.anyio

MODES = ["legacy", "auto", *MODERN_PROTOCOL_VERSIONS]
AGREED = {"legacy": HANDSHAKE_PROTOCOL_VERSIONS[-1]}

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def connect(home, tmp_path) -> Connect:
    """Starts a gateway as child of the official client: `async with connect("auto") as client`."""

    @asynccontextmanager
    async def start(mode: str) -> AsyncIterator[Client]:
        with (tmp_path / "gateway.log").open("a", encoding="utf-8") as log, anyio.fail_after(120):
            server = StdioServerParameters(
                command=sys.executable,
                args=["-m", "gateway", "serve", *home.arguments],
                env=home.environment,
            )
            async with Client(stdio_client(server, errlog=log), mode=mode) as client:
                yield client

    return start


async def find(client: Client, query: str, **options: Any) -> str:
    """Returns the answer of a search, as soon as the notes are indexed."""
    while True:
        found = await client.call_tool("memory_search", {"query": query}, **options)
        assert not found.is_error
        if "<passage" in found.content[0].text:
            return found.content[0].text


@pytest.mark.parametrize("mode", MODES)
async def test_the_official_client_lists_and_calls_both_tools(connect, mode):
    progress: list[Any] = []

    async def progressed(*parts: Any) -> None:
        progress.append(parts)

    async with connect(mode) as client:
        assert client.protocol_version == AGREED.get(mode, LATEST_PROTOCOL_VERSION)
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["memory_search", "memory_get"]
        found = await find(client, "heating pump membrane", progress_callback=progressed)
        assert re.findall(r'<passage path="(.+?)"', found)[0] == "memory/2026-02-01.md"
        read = await client.call_tool(
            "memory_get", {"path": "memory/2026-02-01.md", "from": 5, "lines": 1}
        )
        assert 'lines="5">\n- The greenhouse sensor' in read.content[0].text
        refused = await client.call_tool("memory_get", {"path": "../secret.md"})
        assert refused.is_error
        wrong = await client.call_tool("memory_search", {"qery": "x"})
        assert wrong.is_error and "qery" in wrong.content[0].text
        with pytest.raises(MCPError, match="no_such_tool"):
            await client.call_tool("no_such_tool", {})
    assert progress[0] == (0.0, None, "Searching memory")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.promises_seconds
async def test_a_call_that_the_client_gives_up_leaves_the_connection_whole(connect, home, mode):
    with FakeVendor("openai", key="sk-test") as vendor:
        vendor.misbehave(fault("hang"))
        home.embed_with(vendor, query={"embeddingTimeoutMs": 20_000})
        async with connect(mode) as client:
            with anyio.move_on_after(1.0) as patience:
                await client.call_tool("memory_search", {"query": "boiler"})
            assert patience.cancelled_caught
            started = time.monotonic()
            read = await client.call_tool("memory_get", {"path": "MEMORY.md"})
            assert not read.is_error
            assert time.monotonic() - started < 5


@pytest.mark.parametrize("mode", MODES)
async def test_the_official_client_is_served_through_the_bridge_too(connect, home, mode):
    async with home.gateway() as owner:
        await owner.call("sync", {})
        async with connect(mode) as client:
            found = await find(client, "membrane")
            assert re.findall(r'<passage path="(.+?)"', found)[0] == "memory/2026-02-01.md"
            assert [tool.name for tool in (await client.list_tools()).tools] == [
                "memory_search",
                "memory_get",
            ]
        families = (await owner.call("metrics", {}))["families"]
        (requests,) = (family for family in families if family["name"] == "requests")
        assert ["tools/call", "ok"] in [sample["labels"] for sample in requests["samples"]]


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_every_revision_with_a_handshake_is_served_beside_plain_json_rpc(home, revision):
    async with home.gateway() as client:
        hello = await client.call(
            "initialize",
            {
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        )
        assert (hello["protocolVersion"], hello["agentId"]) == (revision, "main")
        await client.notify("notifications/initialized")
        listed = await client.call("tools/list", {})
        assert [tool["name"] for tool in listed["tools"]] == ["memory_search", "memory_get"]
        await client.call("sync", {})
        call = {"name": "memory_search", "arguments": {"query": "boiler"}}
        by_mcp = await client.call("tools/call", call)
        plain = await client.call("memory_search", {"query": "boiler"})
        paths = re.findall(r'<passage path="(.+?)"', by_mcp["content"][0]["text"])
        assert paths == [hit["path"] for hit in plain["results"]] != []


@pytest.mark.parametrize("mode", MODES)
async def test_the_official_client_reads_resources_and_gets_the_prompt(connect, mode):
    async with connect(mode) as client:
        listed = await client.list_resources()
        (memory,) = (one for one in listed.resources if one.name == "MEMORY.md")
        read = await client.read_resource(memory.uri)
        assert "serviced by Hartmann" in read.contents[0].text
        with pytest.raises(MCPError, match="not allowed"):
            await client.read_resource("memory:///../secret.md")
        prompt, _ = (await client.list_prompts()).prompts
        got = await client.get_prompt(prompt.name, {"topic": "the boiler"})
        assert "the boiler" in got.messages[0].content.text
