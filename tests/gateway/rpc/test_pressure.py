"""A connection with more requests than it can answer, or with a client that does not read."""

from __future__ import annotations

import gc
import tracemalloc

import anyio
import pytest

pytestmark = pytest.mark.anyio


async def test_a_fast_flood_is_answered_in_full(connect):
    async with connect(running=4, waiting=4) as client:
        for n in range(500):
            client.request(n, "echo")
        assert sorted([(await client.receive())["id"] for _ in range(500)]) == list(range(500))


async def test_reading_pauses_while_there_is_no_room(connect):
    async with connect(running=1, waiting=1, admission_patience_s=60) as client:
        for n in range(10):
            client.request(n, "wait")
        await client.until(lambda: client.workshop.active == 1)
        assert client.reader.chunks_taken <= 3
        client.workshop.release.set()
        assert sorted([(await client.receive())["id"] for _ in range(10)]) == list(range(10))


async def test_beyond_patience_requests_are_refused_and_cancellation_gets_through(connect):
    async with connect(running=1, waiting=1, admission_patience_s=0.05) as client:
        for n in range(5):
            client.request(n, "wait")
        client.notify("$/cancelRequest", {"id": 0})
        refused = [await client.receive() for _ in range(3)]
        assert {reply["id"] for reply in refused} == {2, 3, 4}
        assert {reply["error"]["data"]["kind"] for reply in refused} == {"overloaded"}
        assert (await client.receive())["error"]["data"]["kind"] == "cancelled"
        client.workshop.release.set()
        assert (await client.receive())["id"] == 1
        assert "result" in await client.call(6, "echo")


async def test_patience_is_spent_once_and_not_for_every_line(connect):
    async with connect(running=1, waiting=0, admission_patience_s=0.2) as client:
        for n in range(100):
            client.request(n, "wait")
        with anyio.fail_after(30):
            refused = [await client.receive() for _ in range(99)]
        assert {reply["error"]["data"]["kind"] for reply in refused} == {"overloaded"}


async def test_the_size_of_open_requests_is_bounded_too(connect):
    async with connect(open_bytes=1000, admission_patience_s=0.05) as client:
        client.send({"jsonrpc": "2.0", "id": "x" * 600, "method": "wait"})
        client.send({"jsonrpc": "2.0", "id": "y" * 600, "method": "wait"})
        reply = await client.receive()
        assert reply["id"] == "y" * 600
        assert reply["error"]["data"]["kind"] == "overloaded"


async def test_one_request_above_the_size_bound_is_served_when_nothing_else_is_open(connect):
    async with connect(open_bytes=1000) as client:
        reply = await client.call(1, "echo", {"text": "x" * 5000})
        assert len(reply["result"]["text"]) == 5000


async def test_a_client_that_does_not_read_stops_being_read(connect):
    async with connect(
        running=2, waiting=2, outbox_bytes=1000, admission_patience_s=0.01
    ) as client:
        client.writer.reading = anyio.Event()
        for n in range(2000):
            client.request(n, "big", {"steps": 300})
        await client.until(lambda: client.reader.chunks_taken > 5)
        await anyio.wait_all_tasks_blocked()
        paused_at = client.reader.chunks_taken
        assert paused_at < 50
        client.writer.reading.set()
        replies = [await client.receive() for _ in range(2000)]
        assert sorted(reply["id"] for reply in replies) == list(range(2000))


async def test_memory_stays_flat_while_a_client_does_not_read(connect):
    limits = {"running": 4, "waiting": 8, "outbox_bytes": 10_000, "admission_patience_s": 0.0}
    async with connect(**limits) as client:
        client.writer.reading = anyio.Event()
        line = b'{"jsonrpc":"2.0","id":1,"method":"big","params":{"steps":2000}}\n'
        for _ in range(300):
            client.send_bytes(line * 300)
        tracemalloc.start()
        try:
            await anyio.wait_all_tasks_blocked()
            gc.collect()
            allocated, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert allocated < 500_000


async def test_progress_that_is_not_read_is_replaced_by_newer_progress(connect):
    async with connect() as client:
        client.writer.reading = anyio.Event()
        client.request(1, "count", {"steps": 10_000})
        await anyio.wait_all_tasks_blocked()
        client.writer.reading.set()
        frames = [await client.receive()]
        while "id" not in frames[-1]:
            frames.append(await client.receive())
        assert len(frames) <= 3
        assert frames[-2]["params"] == {"step": 10_000}
        assert frames[-1]["result"] == 10_000


async def test_a_client_that_hung_up_and_reads_nothing_is_given_up(connect):
    async with connect(running=2, waiting=2, outbox_bytes=100, stall_s=0.02) as client:
        client.writer.reading = anyio.Event()
        for n in range(100):
            client.request(n, "echo")
        await anyio.wait_all_tasks_blocked()
        assert not client.ended.is_set()
        client.reader.is_hung_up = True
        with anyio.fail_after(30):
            await client.ended.wait()
        assert client.writer.closed


@pytest.mark.promises_seconds
async def test_a_client_that_goes_on_reading_is_not_given_up_though_it_hung_up(connect):
    async with connect(running=2, waiting=2, outbox_bytes=100, stall_s=1.0) as client:
        client.reader.is_hung_up = True
        client.writer.reading = anyio.Event()
        for n in range(30):
            client.request(n, "big", {"steps": 20_000})
        client.end_input()
        for _ in range(60):
            await anyio.sleep(0.02)  # the pace of a slow reader, far below the stall time
            client.writer.reading.set()
            client.writer.reading = anyio.Event()
        client.writer.reading.set()
        assert len(await client.all_frames()) == 30
