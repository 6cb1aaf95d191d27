"""Arrays of requests: answered as arrays, in order, or refused as a whole."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio


async def test_a_batch_is_answered_by_one_array_in_the_order_of_its_members(connect):
    async with connect() as client:
        client.send(
            [
                {"jsonrpc": "2.0", "id": 1, "method": "wait"},
                {"jsonrpc": "2.0", "id": 2, "method": "echo"},
                {"jsonrpc": "2.0", "method": "note", "params": {"text": "heard"}},
                {"foo": "bar"},
                5,
                {"jsonrpc": "2.0", "id": 3, "method": "nothing"},
                {"jsonrpc": "2.0", "id": 4, "result": 1},
            ]
        )
        assert (await client.call(9, "echo"))["id"] == 9, "the batch is not done yet"
        client.workshop.release.set()
        replies = await client.receive()
        assert [reply["id"] for reply in replies] == [1, 2, None, None, 3]
        assert [reply.get("error", {}).get("code") for reply in replies] == [
            None,
            None,
            -32600,
            -32600,
            -32601,
        ]
        assert client.workshop.noted == ["heard"]


async def test_a_batch_of_notifications_is_not_answered(connect):
    async with connect() as client:
        client.send(
            [{"jsonrpc": "2.0", "method": "note", "params": {"text": str(n)}} for n in range(3)]
        )
        assert (await client.call(1, "echo"))["id"] == 1
        assert client.workshop.noted == ["0", "1", "2"]


async def test_an_empty_batch_is_an_invalid_request(connect):
    async with connect() as client:
        client.send([])
        reply = await client.receive()
        assert (reply["id"], reply["error"]["code"]) == (None, -32600)


async def test_a_batch_with_too_many_members_is_refused_as_a_whole(connect):
    async with connect(batch_members=2) as client:
        client.send([{"jsonrpc": "2.0", "id": n, "method": "echo"} for n in range(3)])
        reply = await client.receive()
        assert reply["id"] is None
        assert "at most 2 members" in reply["error"]["message"]


async def test_a_batch_may_be_larger_than_what_may_be_open_at_once(connect):
    async with connect(running=1, waiting=1) as client:
        client.send([{"jsonrpc": "2.0", "id": n, "method": "echo"} for n in range(20)])
        assert [reply["id"] for reply in await client.receive()] == list(range(20))


async def test_cancellation_takes_effect_within_a_batch(connect):
    async with connect() as client:
        client.send(
            [
                {"jsonrpc": "2.0", "id": 1, "method": "wait"},
                {"jsonrpc": "2.0", "id": 2, "method": "$/cancelRequest", "params": {"id": 1}},
            ]
        )
        first, second = await client.receive()
        assert first["error"]["data"]["kind"] == "cancelled"
        assert second["result"] == {"cancelled": True}
