"""A whole session of a chat runtime over the real pipe: start, search, get, flush, append."""

from __future__ import annotations

import json

import pytest

from gateway.tools.search import agent_now

pytestmark = pytest.mark.anyio

KEY = "agent:main:main"


async def test_a_session_from_its_start_to_its_flush(home):
    zone = "Asia/Tokyo"
    home.configure({
        "agents": {"defaults": {"userTimezone": zone}}, "memory": {"append": {"enabled": True}},
    })  # fmt: skip
    log = f"memory/{agent_now(zone).date()}.md"
    home.write(log, "- Bought tea.\n")
    async with home.gateway() as client:
        hello = await client.call("initialize", {"sessionKey": KEY})
        assert "memory_search" in hello["instructions"]
        started = await client.call("session_start", {"sessionKey": KEY})
        assert [(file["path"], file["status"]) for file in started["files"][:3]] == [
            ("MEMORY.md", "ok"), ("USER.md", "not_found"), (log, "ok"),
        ]  # fmt: skip
        assert started["timeZone"] == zone
        found = await client.call("memory_search", {"query": "who services the boiler"})
        assert found["results"][0]["path"] == "MEMORY.md"
        got = await client.call("memory_get", {"path": "MEMORY.md", "from": 3, "lines": 1})
        assert "Hartmann" in got["text"]
        turn = {"sessionKey": KEY, "totalTokens": 180_000, "contextWindow": 200_000}
        flush = await client.call("memory_flush", {**turn, "compactionCount": 0})
        assert flush["due"]
        assert log in flush["prompt"]
        added = await client.call("memory_append", {"text": "- The kettle is descaled."})
        assert (added["path"], added["startLine"]) == (log, 2)
        found = await client.call("memory_search", {"query": "kettle"})
        assert found["results"][0]["path"] == log
        done = await client.call("memory_flush_done", {"sessionKey": KEY})
        assert done == {"recorded": True, "compactionCount": 0}
        assert not (await client.call("memory_flush", {**turn, "compactionCount": 0}))["due"]
    sessions = json.loads((home.state / "memory-gateway/main/flushes.json").read_bytes())
    assert sessions[KEY]["memoryFlushCompactionCount"] == 0
