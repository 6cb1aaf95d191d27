"""Calls over a connection: concurrent, cancelled, late, refused, cut off."""

from __future__ import annotations

import anyio
import pytest

from config.errors import ErrorKind, lone_error
from gateway.client import GatewayGoneError, RemoteError, decode_frame
from gateway.rpc.wire import DeadlineExceededError

pytestmark = pytest.mark.anyio
WAIT_S = 60


async def test_a_call_returns_the_result_of_its_method(bench):
    async with bench.client() as client:
        assert await client.call("echo", {"text": "茶"}) == {"text": "茶"}


async def test_concurrent_calls_each_get_their_own_reply(bench):
    replies = {}
    async with bench.client() as client, anyio.create_task_group() as tasks:

        async def ask(number):
            replies[number] = await client.call("echo", {"text": str(number)})

        for number in range(50):
            tasks.start_soon(ask, number)
    assert replies == {number: {"text": str(number)} for number in range(50)}


async def test_a_slow_call_does_not_hold_up_another(bench):
    async with bench.client() as client, anyio.create_task_group() as tasks:
        results = []

        async def slow():
            results.append(await client.call("wait"))

        tasks.start_soon(slow)
        assert await client.call("echo") == {"text": ""}
        assert results == []
        bench.release.set()
    assert results == ["released"]


async def test_an_error_of_the_gateway_is_raised_with_its_kind_and_remedy(bench):
    async with bench.client() as client:
        with pytest.raises(RemoteError) as caught:
            await client.call("ecko")
    assert caught.value.kind is ErrorKind.METHOD_NOT_FOUND
    assert caught.value.code == -32601
    assert caught.value.remedy == "Did you mean 'echo'?"
    assert "echo" in caught.value.data["methods"]


async def test_an_error_leaves_the_connection_as_itself_not_in_a_group(bench):
    with pytest.raises(BaseException) as caught:
        async with bench.client() as client:
            await client.call("ecko")
    assert isinstance(lone_error(caught.value), RemoteError)


async def test_a_call_past_its_deadline_is_cancelled_at_the_gateway(bench):
    async with bench.client() as client:
        with pytest.raises(DeadlineExceededError, match=r"wait did not answer in 0\.05 s"):
            await client.call("wait", timeout_s=0.05)
        with anyio.fail_after(WAIT_S):
            await bench.cancelled.wait()
        assert await client.call("echo") == {"text": ""}


async def test_a_call_that_is_cancelled_here_stops_its_work_there(bench):
    async with bench.client() as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call, "wait")
            await client.call("echo")  # sent later than `wait`, which has begun
            assert not bench.cancelled.is_set()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(WAIT_S):
            await bench.cancelled.wait()


async def test_notifications_reach_the_callback(bench):
    notified_of = []
    async with bench.client(notified=lambda *one: notified_of.append(one)) as client:
        assert await client.call("tell") == "told"
    assert notified_of == [("notifications/progress", {"done": 1})]


async def test_a_notification_is_sent_without_waiting_for_anything(bench):
    async with bench.client() as client:
        await client.notify("echo", {"text": "psst"})
        with anyio.fail_after(WAIT_S):
            await bench.echoed.wait()
        assert bench.heard == ["psst"]


async def test_open_and_later_calls_fail_when_the_gateway_goes_away(bench):
    async def hang_up(stream):
        await stream.receive()
        await stream.aclose()

    async with bench.client(hang_up) as client:
        for _ in range(2):
            with pytest.raises(GatewayGoneError, match="closed the connection"):
                await client.call("echo")
        with pytest.raises(GatewayGoneError):
            await client.notify("echo")


async def test_a_peer_that_speaks_another_language_is_told_apart(bench):
    async def babble(stream):
        await stream.send(b"220 mail.example.org ESMTP\n")
        await anyio.sleep_forever()

    async with bench.client(babble) as client:
        with pytest.raises(GatewayGoneError, match="no JSON-RPC: '220 mail"):
            await client.call("echo")


async def test_replies_that_nobody_waits_for_are_ignored(bench):
    async def confused(stream):
        await stream.send(b'{"jsonrpc":"2.0","id":77,"result":1}\n{"id":null,"result":2}\n')
        await stream.receive()
        await stream.send(b'{"jsonrpc":"2.0","id":1,"result":"mine"}\n')
        await anyio.sleep_forever()

    async with bench.client(confused) as client:
        assert await client.call("echo") == "mine"


async def test_a_reply_may_arrive_in_any_pieces(bench):
    async def drip(stream):
        await stream.receive()
        for byte in '{"jsonrpc":"2.0","id":1,"result":"茶"}\n'.encode():
            await stream.send(bytes([byte]))
        await anyio.sleep_forever()

    async with bench.client(drip) as client:
        assert await client.call("echo") == "茶"


async def test_a_gateway_that_reads_nothing_holds_up_only_until_the_deadline(bench):
    async def never_read(_stream):
        await anyio.sleep_forever()

    async with bench.client(never_read) as client, anyio.create_task_group() as tasks:

        async def ask():
            with pytest.raises(DeadlineExceededError):
                await client.call("echo", {"text": "x" * 100_000}, timeout_s=0.1)

        for _ in range(100):
            tasks.start_soon(ask)


def test_an_error_of_a_kind_from_the_future_counts_as_internal():
    frame = decode_frame(
        b'{"id":1,"error":{"code":1999,"message":"Odd.","data":{"kind":"odd","remedy":7}}}'
    )
    with pytest.raises(RemoteError, match="Odd") as caught:
        frame.outcome()
    assert caught.value.kind is ErrorKind.INTERNAL
    assert caught.value.remedy is None
    assert caught.value.data["kind"] == "odd"
