"""The queue of frames by itself."""

from __future__ import annotations

import anyio
import pytest

from gateway.rpc.transport import Outbox

pytestmark = pytest.mark.anyio


class Sink:
    """Takes bytes once `taking` is set."""

    def __init__(self) -> None:
        self.taking = anyio.Event()
        self.taken = b""

    async def send(self, data: bytes) -> None:
        await self.taking.wait()
        self.taken += data

    async def aclose(self) -> None: ...


async def test_frames_leave_in_order_each_with_its_newline():
    outbox, sink = Outbox(1000), Sink()
    sink.taking.set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.run, sink)
        for frame in (b"1", b"2", b"3" * 50_000):
            await outbox.put(frame)
        with anyio.fail_after(30):
            await outbox.flush(1)
        tasks.cancel_scope.cancel()
    assert sink.taken == b"1\n2\n" + b"3" * 50_000 + b"\n"
    assert outbox.written == len(sink.taken)


async def test_a_flush_includes_frames_that_were_waiting_for_room():
    outbox, sink = Outbox(1), Sink()
    await outbox.put(b"first")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:

            async def flush() -> None:
                await outbox.flush(60)
                tasks.cancel_scope.cancel()

            tasks.start_soon(outbox.run, sink)
            tasks.start_soon(flush)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(outbox.put, b"second")
            await anyio.wait_all_tasks_blocked()
            assert outbox.congested
            sink.taking.set()
    assert sink.taken == b"first\nsecond\n"


async def test_a_flush_gives_up_when_nothing_is_taken():
    outbox, sink = Outbox(1), Sink()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.run, sink)
        await outbox.put(b"never read")
        with anyio.fail_after(30):
            await outbox.flush(0.01)
        tasks.cancel_scope.cancel()
    assert sink.taken == b""


async def test_a_newer_notification_replaces_an_unwritten_one_of_its_key_in_its_place():
    outbox, sink = Outbox(1000), Sink()
    outbox.notify("a", b"a1")
    outbox.notify("b", b"b1")
    await outbox.put(b"reply")
    outbox.notify("a", b"a2, longer")
    sink.taking.set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.run, sink)
        with anyio.fail_after(30):
            await outbox.flush(1)
            outbox.notify("a", b"a3")
            await outbox.flush(1)
        tasks.cancel_scope.cancel()
    assert sink.taken == b"a2, longer\nb1\nreply\na3\n"
