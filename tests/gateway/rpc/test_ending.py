"""The ends of a connection: end of input, shutdown, a broken pipe; every open request is answered."""

from __future__ import annotations

import anyio
import pytest

pytestmark = pytest.mark.anyio


async def test_everything_sent_before_the_end_of_input_is_answered(connect):
    async with connect() as client:
        for n in range(100):
            client.request(n, "echo")
        client.end_input()
        assert sorted(frame["id"] for frame in await client.all_frames()) == list(range(100))
        assert client.writer.closed


async def test_the_last_line_counts_without_a_newline(connect):
    async with connect() as client:
        client.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"echo"}')
        client.end_input()
        (frame,) = await client.all_frames()
        assert frame["id"] == 1


async def test_an_idle_connection_ends_with_its_input(connect):
    async with connect(grace_s=60, unwind_s=60, flush_s=60) as client:
        client.end_input()
        assert await client.all_frames() == []
        with anyio.fail_after(30):
            await client.ended.wait()


async def test_work_that_outlasts_the_grace_is_cancelled_and_answered(connect):
    async with connect(grace_s=0.05, unwind_s=60) as client:
        client.request(1, "wait")
        client.request(2, "echo")
        client.end_input()
        echo, wait = await client.all_frames()
        assert echo["id"] == 2
        assert wait["error"]["data"]["kind"] == "cancelled"
        assert client.workshop.cancelled == 1


async def test_work_that_finishes_within_the_grace_is_answered_with_its_result(connect):
    async with connect(grace_s=60) as client:
        client.request(1, "wait")
        client.end_input()
        await client.until(lambda: client.workshop.active == 1)
        client.workshop.release.set()
        assert [frame["result"] for frame in await client.all_frames()] == ["released"]


async def test_a_handler_that_does_not_stop_is_answered_for(connect):
    async with connect(grace_s=0.05, unwind_s=0.05) as client:
        client.send([{"jsonrpc": "2.0", "id": n, "method": "stubborn"} for n in (1, 2)])
        client.request(3, "stubborn")
        client.end_input()
        batch, single = sorted(
            [await client.receive(), await client.receive()],
            key=lambda reply: isinstance(reply, dict),
        )
        assert [reply["error"]["data"]["kind"] for reply in [*batch, single]] == ["cancelled"] * 3
        client.workshop.release.set()
        assert await client.all_frames() == []


async def test_shutdown_ends_an_idle_connection(connect):
    async with connect(grace_s=60) as client:
        assert "result" in await client.call(1, "echo")
        client.workshop.shutdown.set()
        assert await client.all_frames() == []


async def test_shutdown_refuses_new_lines_and_lets_open_requests_finish(connect):
    async with connect(grace_s=60) as client:
        client.request(1, "wait")
        await client.until(lambda: client.workshop.active == 1)
        client.workshop.shutdown.set()
        await anyio.wait_all_tasks_blocked()
        refused = await client.call(2, "echo")
        assert (refused["id"], refused["error"]["data"]["kind"]) == (2, "shutting_down")
        client.workshop.release.set()
        (frame,) = await client.all_frames()
        assert frame["result"] == "released"


async def test_shutdown_cancels_what_outlasts_the_grace(connect):
    async with connect(running=1, grace_s=0.05) as client:
        client.request(1, "wait")
        client.request(2, "wait")
        await client.until(lambda: client.workshop.active == 1)
        client.workshop.shutdown.set()
        frames = await client.all_frames()
        assert {frame["id"] for frame in frames} == {1, 2}
        assert {frame["error"]["data"]["kind"] for frame in frames} == {"shutting_down"}


async def test_a_request_that_causes_the_shutdown_is_answered_and_so_is_what_came_with_it(connect):
    async with connect() as client:
        lines = [
            b'{"jsonrpc":"2.0","id":1,"method":"stop"}\n',
            b'{"jsonrpc":"2.0","method":"note"}\n' * 300,
            b'{"jsonrpc":"2.0","id":2,"method":"echo"}\n',
        ]
        client.send_bytes(b"".join(lines))
        stop, echo = await client.all_frames()
        assert (stop["id"], stop["result"]) == (1, "stopping")
        assert (echo["id"], echo["error"]["data"]["kind"]) == (2, "shutting_down")


async def test_shutdown_releases_a_line_that_waits_for_room(connect):
    async with connect(running=1, waiting=0, admission_patience_s=60, grace_s=60) as client:
        client.request(1, "wait")
        client.request(2, "wait")
        await anyio.wait_all_tasks_blocked()
        client.workshop.shutdown.set()
        refused = await client.receive()
        assert (refused["id"], refused["error"]["data"]["kind"]) == (2, "shutting_down")
        client.workshop.release.set()
        (frame,) = await client.all_frames()
        assert (frame["id"], frame["result"]) == (1, "released")


@pytest.mark.parametrize("how", ["end of input", "shutdown"])
async def test_a_client_that_reads_nothing_cannot_delay_the_end(connect, how):
    limits = {"outbox_bytes": 100, "grace_s": 0.05, "unwind_s": 0.05, "flush_s": 0.05}
    async with connect(**limits) as client:
        client.writer.reading = anyio.Event()
        for n in range(3):
            client.request(n, "big", {"steps": 1000})
        await anyio.wait_all_tasks_blocked()
        if how == "shutdown":
            client.workshop.shutdown.set()
        else:
            client.end_input()
        assert not client.ended.is_set()
        with anyio.fail_after(30):
            await client.ended.wait()


@pytest.mark.promises_seconds
async def test_after_the_end_of_input_answers_flow_for_as_long_as_the_client_reads(connect):
    async with connect(flush_s=1.0) as client:
        client.writer.reading = anyio.Event()
        client.request(1, "big", {"steps": 250_000})
        client.end_input()
        for _ in range(15):
            await anyio.sleep(0.1)  # a reader this slow needs more than `flush_s` in all
            client.writer.reading.set()
            client.writer.reading = anyio.Event()
        client.writer.reading.set()
        (frame,) = await client.all_frames()
        assert len(frame["result"]) == 250_000


async def test_shutdown_bounds_the_flush_of_a_client_that_goes_on_reading(connect):
    async with connect(flush_s=0.1, grace_s=0, unwind_s=0) as client:
        client.writer.reading = anyio.Event()
        client.request(1, "big", {"steps": 10_000_000})
        client.workshop.shutdown.set()
        with anyio.fail_after(30):
            while not client.ended.is_set():
                await anyio.sleep(0.01)
                client.writer.reading.set()
                client.writer.reading = anyio.Event()
        assert client.writer.closed


async def test_a_broken_pipe_ends_the_connection_and_stops_its_work(connect):
    async with connect(grace_s=60) as client:
        client.request(1, "wait")
        await client.until(lambda: client.workshop.active == 1)
        client.writer.broken = True
        client.request(2, "echo")
        with anyio.fail_after(30):
            await client.ended.wait()
        assert client.workshop.cancelled == 1
        assert client.writer.closed


async def test_cancelling_the_connection_ends_it_at_once(connect):
    with anyio.fail_after(30):
        async with connect(grace_s=60) as client:
            client.request(1, "wait")
            await client.until(lambda: client.workshop.active == 1)
    assert client.workshop.cancelled == 1
    assert client.writer.closed
