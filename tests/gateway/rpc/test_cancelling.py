"""Requests that are cancelled: what stops, and who is notified."""

from __future__ import annotations

import pytest

from fakes.each import each
from gateway.rpc.connection import cancelled_id
from gateway.rpc.wire import InvalidParamsError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("$/cancelRequest", {"id": "x"}),
        ("notifications/cancelled", {"requestId": "x", "reason": "changed my mind"}),
        ("notifications/cancelled", {"id": "x"}),
    ],
)
async def test_a_cancelled_request_stops_and_is_answered_once(connect, method, params):
    async with connect() as client:
        client.request("x", "wait")
        await client.until(lambda: client.workshop.active == 1)
        client.notify(method, params)
        reply = await client.receive()
        assert reply["id"] == "x"
        assert (reply["error"]["code"], reply["error"]["data"]["kind"]) == (-32800, "cancelled")
        assert client.workshop.cancelled == 1
        client.notify(method, params)
        assert (await client.call(2, "echo"))["id"] == 2


async def test_a_request_that_mcp_takes_back_is_never_heard_of_again(connect):
    async with connect() as client:
        client.request("x", "quiet")
        await client.until(lambda: client.workshop.active == 1)
        client.notify("notifications/cancelled", {"requestId": "x"})
        client.notify("$/cancelRequest", {"id": "x"})
        await client.until(lambda: client.workshop.cancelled == 1)
        client.request("x", "echo")
        client.end_input()
        assert [frame["result"]["text"] for frame in await client.all_frames()] == [""]


async def test_our_own_cancellation_of_such_a_request_is_answered(connect):
    async with connect() as client:
        client.request("x", "quiet")
        await client.until(lambda: client.workshop.active == 1)
        client.notify("$/cancelRequest", {"id": "x"})
        last_words, reply = [await client.receive() for _ in range(2)]
        assert last_words["method"] == "progress"
        assert reply["error"]["data"]["kind"] == "cancelled"


async def test_a_batch_leaves_out_the_member_that_was_taken_back(connect):
    async with connect() as client:
        client.send(
            [
                {"jsonrpc": "2.0", "id": 1, "method": "quiet"},
                {"jsonrpc": "2.0", "id": 2, "method": "echo"},
            ]
        )
        client.send([{"jsonrpc": "2.0", "id": 3, "method": "quiet"}])
        await client.until(lambda: client.workshop.active == 2)
        client.notify("notifications/cancelled", {"requestId": 1})
        client.notify("notifications/cancelled", {"requestId": 3})
        assert [reply["id"] for reply in await client.receive()] == [2]
        assert (await client.call(4, "echo"))["id"] == 4


async def test_a_request_that_was_taken_back_stays_silent_when_the_connection_ends(connect):
    async with connect(grace_s=0.05, unwind_s=0.05) as client:
        client.request("x", "unending")
        client.request("y", "stubborn")
        await client.until(lambda: client.workshop.active == 2)
        client.notify("notifications/cancelled", {"requestId": "x"})
        client.notify("notifications/cancelled", {"requestId": "y"})
        client.end_input()
        assert (await client.receive())["id"] == "y"
        client.workshop.release.set()
        assert await client.all_frames() == []


async def test_cancelling_what_is_not_open_changes_nothing(connect):
    async with connect() as client:
        assert (await client.call(1, "$/cancelRequest", {"id": 99}))["result"] == {
            "cancelled": False
        }
        client.notify("$/cancelRequest", {"id": 99})
        client.notify("$/cancelRequest", {"id": None})
        client.notify("$/cancelRequest")
        reply = await client.call(2, "$/cancelRequest", {})
        assert reply["error"]["data"]["kind"] == "invalid_params"
        reply = await client.call(3, "$/cancelRequest", {"id": {}})
        assert reply["error"]["data"]["kind"] == "invalid_params"


async def test_a_request_that_waits_for_its_turn_can_be_cancelled(connect):
    async with connect(running=1) as client:
        client.request(1, "wait")
        client.request(2, "wait")
        client.notify("$/cancelRequest", {"id": 2})
        assert (await client.receive())["error"]["data"]["kind"] == "cancelled"
        client.workshop.release.set()
        assert (await client.receive())["id"] == 1
        assert client.workshop.most_active == 1


@each(
    ("params", "key"),
    [
        (b'{"id":1}', b"1"),
        (b'{"requestId":"a","reason":"b","_meta":{}}', "a"),
        (b'{"id":"\\u0061"}', "a"),
        (b'{"id":1,"requestId":2}', b"2"),
    ],
)
def test_the_request_is_named_by_either_parameter(params, key):
    assert cancelled_id(params).key == key


@each("params", [None, b"{}", b"[]", b"[1]", b'{"id":null}', b'{"id":[1]}', b'{"x":' + b"[" * 5000])
def test_anything_else_names_nobody(params):
    with pytest.raises(InvalidParamsError):
        cancelled_id(params)
