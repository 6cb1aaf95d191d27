"""Real gateways' connections over a real Unix socket, and peers that misbehave."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import anyio
import msgspec
import pytest

from gateway.client import connect
from gateway.rpc.connection import ClientConnection, Dispatcher
from gateway.rpc.registry import Method, MethodRegistry, NoParams
from gateway.rpc.transport import SocketChannel


class EchoParams(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""


class Bench:
    """The methods of the served connection, and the results of their calls."""

    def __init__(self, directory):
        self.path = str(directory / "s")
        self.release = anyio.Event()
        self.cancelled = anyio.Event()
        self.shutdown = anyio.Event()
        self.registry = MethodRegistry(
            [
                Method("echo", EchoParams, self._echo, accepts_notification=True),
                Method("wait", NoParams, self._wait),
                Method("tell", NoParams, self._tell),
            ]
        )
        self.echoed = anyio.Event()
        self.heard = []

    async def _echo(self, params, _context):
        self.heard.append(params.text)
        self.echoed.set()
        return {"text": params.text}

    async def _wait(self, _params, _context):
        try:
            await self.release.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return "released"

    async def _tell(self, _params, context):
        context.notify("notifications/progress", {"done": 1})
        return "told"

    async def _serve(self, stream):
        channel = SocketChannel(stream)
        connection = ClientConnection(channel, channel, shutdown=self.shutdown)
        await connection.serve(partial(Dispatcher, self.registry))

    @asynccontextmanager
    async def client(self, handler=None, **options):
        """Returns a client of the served connection, or of a peer that `handler` plays."""

        async def handle(stream):
            async with stream:
                await (handler or self._serve)(stream)

        async with (
            await anyio.create_unix_listener(self.path) as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, handle)
            stream = await anyio.connect_unix(self.path)
            try:
                async with connect(stream, stream, **options) as client:
                    yield client
            finally:
                tasks.cancel_scope.cancel()


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)
