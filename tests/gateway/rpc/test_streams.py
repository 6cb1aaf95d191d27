"""Real descriptors: pipes, files, terminals, sockets."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import socket
import tty
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from gateway.rpc.transport import DescriptorReader, DescriptorWriter

pytestmark = pytest.mark.anyio


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        with contextlib.suppress(OSError):  # the test closed it
            os.close(descriptor)


async def read_all(reader: DescriptorReader) -> bytes:
    data = b""
    with anyio.fail_after(30):
        while piece := await reader.receive():
            data += piece
    return data


async def test_a_pipe_is_read_to_its_end(pipe):
    reading, writing = pipe
    os.write(writing, b"hello")
    os.close(writing)
    assert await read_all(DescriptorReader(reading)) == b"hello"


async def test_waiting_for_a_pipe_leaves_the_loop_free_and_can_be_cancelled(pipe):
    with anyio.fail_after(30):
        with anyio.move_on_after(0.01) as scope:
            await DescriptorReader(pipe[0]).receive()
        assert scope.cancelled_caught


async def test_a_full_pipe_leaves_the_loop_free_and_can_be_cancelled(pipe):
    with anyio.fail_after(30):
        with anyio.move_on_after(0.01) as scope:
            await DescriptorWriter(pipe[1]).send(b"x" * 1_000_000)
        assert scope.cancelled_caught


async def passed_through(pipe, data):
    """Returns the part of the data, written meanwhile, that arrives."""

    async def write() -> None:
        writer = DescriptorWriter(pipe[1])
        await writer.send(data)
        await writer.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        return await read_all(DescriptorReader(pipe[0]))


async def test_more_than_a_pipe_holds_arrives_whole(pipe):
    data = os.urandom(700_001)
    assert await passed_through(pipe, data) == data


async def test_the_mode_that_is_shared_with_the_parent_is_never_changed(pipe):
    before = [fcntl.fcntl(descriptor, fcntl.F_GETFL) for descriptor in pipe]
    await DescriptorWriter(pipe[1]).send(b"x")
    await DescriptorReader(pipe[0]).receive()
    assert [fcntl.fcntl(descriptor, fcntl.F_GETFL) for descriptor in pipe] == before
    assert os.get_blocking(pipe[0])


async def test_a_pipe_that_the_parent_made_non_blocking_works_too(pipe):
    for descriptor in pipe:
        os.set_blocking(descriptor, False)
    data = b"x" * 300_000
    assert await passed_through(pipe, data) == data


async def test_a_byte_that_another_reader_took_is_waited_for_again(pipe):
    reading, writing = pipe
    os.set_blocking(reading, False)
    twin = os.dup(reading)
    received: list[bytes] = []

    async def read(descriptor: int) -> None:
        received.append(await DescriptorReader(descriptor).receive())

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, reading)
            tasks.start_soon(read, twin)
            await anyio.wait_all_tasks_blocked()
            os.write(writing, b"1")
            while not received:
                await anyio.lowlevel.checkpoint()
            os.write(writing, b"2")
    os.close(twin)
    assert received == [b"1", b"2"]


async def test_room_that_another_writer_took_is_waited_for_again(pipe):
    reading, writing = pipe
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"-" * select.PIPE_BUF)
    twin = os.dup(writing)
    sent: list[int] = []

    async def write(descriptor: int) -> None:
        await DescriptorWriter(descriptor).send(b"x" * select.PIPE_BUF)
        sent.append(descriptor)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, writing)
            tasks.start_soon(write, twin)
            await anyio.wait_all_tasks_blocked()
            os.read(reading, select.PIPE_BUF)
            while not sent:
                await anyio.lowlevel.checkpoint()
            os.read(reading, select.PIPE_BUF)
    os.close(twin)
    os.close(writing)
    assert (await read_all(DescriptorReader(reading))).count(b"x") == 2 * select.PIPE_BUF


async def test_writing_to_a_pipe_without_reader_says_so(pipe):
    os.close(pipe[0])
    with anyio.fail_after(30), pytest.raises(anyio.BrokenResourceError):
        await DescriptorWriter(pipe[1]).send(b"x")


async def test_a_full_pipe_whose_reader_leaves_says_so(pipe):
    reading, writing = pipe

    async def leave() -> None:
        await anyio.wait_all_tasks_blocked()
        os.close(reading)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            with pytest.raises(anyio.BrokenResourceError):
                await DescriptorWriter(writing).send(b"x" * 1_000_000)


async def test_a_hang_up_is_seen_behind_unread_bytes(pipe):
    reading, writing = pipe
    reader = DescriptorReader(reading)
    os.write(writing, b"unread")
    assert not reader.hung_up()
    os.close(writing)
    assert reader.hung_up()
    assert await read_all(reader) == b"unread"


async def test_files_are_read_and_written(tmp_path: Path):
    path = tmp_path / "file"
    writer = DescriptorWriter(os.open(path, os.O_WRONLY | os.O_CREAT))
    await writer.send(b"x" * 100_000)
    await writer.aclose()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        reader = DescriptorReader(descriptor)
        assert await read_all(reader) == b"x" * 100_000
        assert not reader.hung_up()
    finally:
        os.close(descriptor)


async def test_the_null_device_is_empty_and_takes_everything():
    descriptor = os.open(os.devnull, os.O_RDWR)
    assert await read_all(DescriptorReader(descriptor)) == b""
    writer = DescriptorWriter(descriptor)
    await writer.send(b"x" * 100_000)
    await writer.aclose()


async def test_a_directory_counts_as_empty(tmp_path: Path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert await read_all(DescriptorReader(descriptor)) == b""
    finally:
        os.close(descriptor)


async def test_a_full_device_says_so():
    writer = DescriptorWriter(os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(anyio.BrokenResourceError):
        await writer.send(b"x")
    await writer.aclose()


async def test_a_terminal_works_and_its_hang_up_ends_the_input():
    master, slave = pty.openpty()
    tty.setraw(slave)
    reader, writer = DescriptorReader(slave), DescriptorWriter(slave)
    with anyio.move_on_after(0.01):
        await reader.receive()  # given up without leaving anybody behind who would take the input
    os.write(master, b"typed")
    with anyio.fail_after(30):
        assert await reader.receive() == b"typed"
        await writer.send(b"shown")
    assert os.read(master, 100) == b"shown"
    os.close(master)
    assert await read_all(reader) == b""
    assert reader.hung_up()
    await writer.aclose()


async def test_the_socket_pair_that_node_uses_for_pipes_works():
    ours, theirs = socket.socketpair()
    with theirs, ours:
        reader, writer = DescriptorReader(ours.fileno()), DescriptorWriter(os.dup(ours.fileno()))
        theirs.sendall(b"in")
        with anyio.fail_after(30):
            assert await reader.receive() == b"in"
            await writer.send(b"out")
        assert theirs.recv(100) == b"out"
        assert not reader.hung_up()
        theirs.shutdown(socket.SHUT_WR)
        assert reader.hung_up()
        assert await read_all(reader) == b""
        await writer.aclose()
