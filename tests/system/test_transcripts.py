"""The real process with transcripts as a source: found, redacted, counted, paid for once."""

from __future__ import annotations

import anyio
import pytest

from fakes.host_database import HostDatabase
from fakes.transcripts import Transcript
from fakes.vendors import FakeVendor
from gateway.client import RemoteError

pytestmark = pytest.mark.anyio

PATIENCE_S = 60


@pytest.fixture
def talking(home):
    """Configures transcripts as a source with these thresholds; returns the agent's transcript."""

    def configure(delta_messages=1_000, **search):
        block = {
            "provider": "none",
            "sources": ["memory", "sessions"],
            "experimental": {"sessionMemory": True},
            "sync": {"sessions": {"deltaBytes": 100_000_000, "deltaMessages": delta_messages}},
        }
        home.configure({"agents": {"defaults": {"memorySearch": block | search}}})
        return Transcript(home.state / "agents/main/sessions", "4f1c2a9e")

    return configure


async def search(client, query, **params):
    with anyio.fail_after(PATIENCE_S):
        return (await client.call("memory_search", {"query": query, **params}))["results"]


async def until(condition):
    with anyio.fail_after(PATIENCE_S):
        while not (found := await condition()):
            await anyio.sleep(0.02)
    return found


async def test_history_is_found_with_its_lines_and_without_its_secrets(home, talking):
    talk = talking()
    talk.work("tool output about the kingfisher")
    asked = talk.say("Which kingfisher did we see? DB_PASSWORD=tr0ub4dor")
    talk.work("more output")
    answered = talk.answer("The blue kingfisher at the weir.")
    async with home.gateway() as client:
        await client.call("sync", {})
        (hit,) = await search(client, "kingfisher weir", sources=["sessions"])
        assert (hit["path"], hit["source"]) == ("sessions/4f1c2a9e.jsonl", "sessions")
        assert (hit["startLine"], hit["endLine"]) == (asked, answered)
        assert "DB_PASSWORD=***" in hit["snippet"]
        assert hit["snippet"].endswith("Source: sessions/4f1c2a9e.jsonl#L3-L5")
        assert await search(client, "kingfisher", sources=["memory"]) == []
        got = await client.call("memory_get", {"path": hit["path"]})
        assert (got["status"], got["kind"], got["text"]) == ("error", "path_not_allowed", "")
        status = await client.call("status", {})
        counts = {one["source"]: one for one in status["sources"]}
        assert counts["memory"]["indexed"] == 4
        assert (counts["sessions"]["onDisk"], counts["sessions"]["indexed"]) == (1, 1)
        assert counts["sessions"]["chunks"] >= 1


async def test_session_updated_counts_against_the_thresholds_also_across_restarts(home, talking):
    talk = talking(delta_messages=3)
    async with home.gateway() as client:
        await client.call("sync", {})
        talk.say("A heron stood there.")
        reply = await client.call("session_updated", {"sessionId": "4f1c2a9e"})
        assert reply == {"scheduled": False}
        talk.say("The heron flew away.")
    async with home.gateway() as client:
        assert await search(client, "heron") == []
        talk.answer("Herons do that.")
        await client.notify("session_updated", {"path": str(talk.path)})
        assert await until(lambda: indexed_by(client, "session-delta"))
        assert [hit["path"] for hit in await search(client, "heron")] == ["sessions/4f1c2a9e.jsonl"]


async def indexed_by(client, reason):
    status = await client.call("status", {})
    return status if any(reason in one["reason"] for one in status["recentSyncs"]) else None


@pytest.mark.parametrize("params", [{}, {"path": " "}, {"path": "a", "sessionId": "b"}])
async def test_session_updated_needs_one_name(home, talking, params):
    talking()
    async with home.gateway() as client:
        with pytest.raises(RemoteError, match="only one of them"):
            await client.call("session_updated", params)
        assert await client.call("session_updated", {"path": "/etc/passwd"}) == {"scheduled": False}


async def test_a_long_transcript_that_grows_by_200_turns_embeds_only_their_chunks(home, talking):
    with FakeVendor("openai") as vendor:
        remote = {"baseUrl": vendor.base_url, "apiKey": vendor.key}
        talk = talking(50, provider="openai", remote=remote)
        for number in range(800):
            talk.say(f"Old turn {number} about the boiler.")
            talk.work("x" * 5_000)
        async with home.gateway() as client:
            await client.call("sync", {})
            await until(lambda: all_embedded(client))
            before = len(vendor.embedded())
            known = await recent_syncs(client)
            for number in range(200):
                talk.answer(f"New turn {number} about the pump.")
            await client.notify("session_updated", {"sessionId": "4f1c2a9e"})
            await until(lambda: was_sent(vendor, "New turn 199 "))
            await until(lambda: all_embedded(client))
            # The sync of a watch that has just begun may come before that of the notification.
            syncs = [one for one in await recent_syncs(client) if one not in known]
        texts = vendor.embedded()[before:]
        assert len(texts) <= 3 * sum(one["chunksWritten"] for one in syncs)
        assert sum(one["bytesRead"] for one in syncs) < 50_000
        assert not any("Old turn" in text for text in texts)
        assert all(
            sum(f"New turn {number} " in text for text in texts) == 1 for number in range(200)
        )


async def recent_syncs(client):
    return (await client.call("status", {}))["recentSyncs"]


async def was_sent(vendor, words):
    return any(words in text for text in vendor.embedded())


async def all_embedded(client):
    backfill = (await client.call("status", {}))["details"]["vector"].get("backfill")
    if not backfill or backfill["running"]:
        return False
    return backfill["coverage"]["embedded"] == backfill["coverage"]["total"] > 0


async def test_what_the_host_writes_into_its_database_is_found_and_read_back_at_once(home, talking):
    talking(delta_messages=2)
    host = HostDatabase(home.state)
    async with home.gateway() as client:
        session = host.session("0a1b")
        session.say("Which kingfisher did we see? DB_PASSWORD=tr0ub4dor")
        await client.notify("session_updated", {"sessionId": "0a1b"})
        await until(lambda: search(client, "kingfisher"))
        session.answer("The blue kingfisher at the weir.")
        session.work("nothing")
        (hit,) = await search(client, "kingfisher weir", sources=["sessions"])
        assert (hit["path"], hit["startLine"], hit["endLine"]) == ("sessions/0a1b", 1, 2)
        assert hit["citation"] == "sessions/0a1b#L1-L2 (events 1-2)"
        read = {"path": hit["path"], "from": 2, "lines": 1}
        got = await client.call("memory_get", read)
        assert (got["status"], got["text"]) == ("ok", "Assistant: The blue kingfisher at the weir.")
        whole = await client.call("memory_get", {"path": hit["path"]})
        assert "tr0ub4dor" not in whole["text"]
        missing = await client.call("memory_get", {"path": "sessions/other"})
        assert missing["status"] == "not_found"
    host.close()
    assert [file.name for file in host.path.parent.iterdir()] == [host.path.name]


async def test_a_conversation_that_may_not_use_memory_reads_no_other_one(home, talking):
    talking()
    home.configure({
        "memory": {"scope": {"default": "deny", "rules": [
            {"action": "allow", "match": {"chatType": "direct"}}]}},
        "agents": {"defaults": {"memorySearch": {
            "provider": "none", "sources": ["memory", "sessions"],
            "experimental": {"sessionMemory": True}}}},
    })  # fmt: skip
    host = HostDatabase(home.state)
    host.session("0a1b").say("The kingfisher.")
    async with home.gateway() as client:
        await client.call("sync", {})
        group = {"sessionKey": "agent:main:telegram:group:-1"}
        got = await client.call("memory_get", {"path": "sessions/0a1b"} | group)
        assert (got["status"], got["denied"], got["text"]) == ("error", True, "")
        main = {"sessionKey": "agent:main:main"}
        got = await client.call("memory_get", {"path": "sessions/0a1b"} | main)
        assert got["text"] == "User: The kingfisher."
    host.close()
