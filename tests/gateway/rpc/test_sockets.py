"""The same connection over a real Unix socket."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from gateway.rpc.connection import ClientConnection, ConnectionLimits, Dispatcher
from gateway.rpc.transport import SocketChannel

pytestmark = pytest.mark.anyio


@pytest.fixture
def listen(tmp_path, connect):
    """Serve every client of a socket; yields its path and a list with an entry for each that ended."""

    @asynccontextmanager
    async def start(**limits) -> AsyncIterator[tuple[str, list]]:
        path = str(tmp_path / "socket")
        ended: list[bool] = []
        async with connect() as helper, await anyio.create_unix_listener(path) as listener:
            registry = helper.workshop.registry()

            async def handle(stream) -> None:
                channel = SocketChannel(stream)
                connection = ClientConnection(
                    channel,
                    channel,
                    shutdown=helper.workshop.shutdown,
                    limits=ConnectionLimits(**limits),
                )
                await connection.serve(partial(Dispatcher, registry))
                ended.append(True)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listener.serve, handle)
                with anyio.fail_after(30):
                    yield path, ended
                tasks.cancel_scope.cancel()

    return start


async def ask(stream, request_id: int, method: str, **params) -> dict:
    request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    await stream.send(json.dumps(request).encode() + b"\n")
    data = b""
    while not data.endswith(b"\n"):
        data += await stream.receive()
    return json.loads(data)


async def settle(ended: list, count: int) -> None:
    while len(ended) < count:
        await anyio.lowlevel.checkpoint()


async def flood(client: socket.socket) -> None:
    """Send requests until the other side has stopped taking them."""
    client.setblocking(False)
    requests = b'{"jsonrpc":"2.0","id":1,"method":"big","params":{"steps":50000}}\n' * 100
    with contextlib.suppress(BlockingIOError):
        while True:
            client.send(requests)
            await anyio.wait_all_tasks_blocked()


async def test_several_clients_are_served_side_by_side(listen):
    async with listen(grace_s=0.05) as (path, ended):
        first, second = await anyio.connect_unix(path), await anyio.connect_unix(path)
        async with first, second:
            await first.send(b'{"jsonrpc":"2.0","id":1,"method":"wait"}\n')
            assert (await ask(second, 1, "echo", text="x" * 500_000))["result"][
                "text"
            ] == "x" * 500_000
        await settle(ended, 2)


async def test_a_client_that_stops_sending_still_gets_its_answers(listen):
    async with listen() as (path, ended):
        async with await anyio.connect_unix(path) as stream:
            await stream.send(b'{"jsonrpc":"2.0","id":1,"method":"echo"}')
            await stream.send_eof()
            assert b'"id":1' in await stream.receive()
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        await settle(ended, 1)


async def test_a_client_that_never_reads_delays_nobody_and_is_given_up_when_it_leaves(listen):
    async with listen(outbox_bytes=1000, running=2, waiting=2, stall_s=0.02) as (path, ended):
        with socket.socket(socket.AF_UNIX) as mute:
            mute.connect(path)
            await flood(mute)
            async with await anyio.connect_unix(path) as other:
                assert "result" in await ask(other, 1, "echo")
            await settle(ended, 1)
            mute.shutdown(socket.SHUT_WR)
            await settle(ended, 2)


async def test_a_client_that_vanishes_ends_its_connection_only(listen):
    async with listen(grace_s=0.05) as (path, ended), await anyio.connect_unix(path) as stays:
        leaves = await anyio.connect_unix(path)
        await leaves.send(b'{"jsonrpc":"2.0","id":1,"method":"wait"}\n')
        await leaves.aclose()
        await settle(ended, 1)
        assert "result" in await ask(stays, 1, "echo")
