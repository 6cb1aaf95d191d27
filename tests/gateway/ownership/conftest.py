"""Owners that follow a script, on real sockets, and a client behind a bridge."""

from __future__ import annotations

import json
import os
import socket
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
from anyio.abc import UNIXSocketStream

from fakes.settings import make_settings
from gateway.ownership.bridge import Bridge
from gateway.ownership.owner import OwnerSocket
from gateway.ownership.sockets import connect, listen
from gateway.rpc.connection import ClientConnection, ConnectionLimits
from gateway.rpc.transport import DescriptorReader, DescriptorWriter
from gateway.scope import terms_of

WAIT_S = 60


class Peer:
    """One end of a stream of JSON lines."""

    def __init__(self, stream):
        self.stream = stream
        self._rest = b""

    async def send(self, *frames):
        for frame in frames:
            line = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
            await self.stream.send(line + b"\n")

    async def receive(self):
        with anyio.fail_after(WAIT_S):
            while b"\n" not in self._rest:
                self._rest += await self.stream.receive()
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)


class Bridged:
    """A client, its bridge, and the place where owners are found."""

    def __init__(self, path, client):
        self._path = path
        self._listening = None
        self._owners = []
        self.client = Peer(client)
        self.shutdown = anyio.Event()
        self.asked_to_end = anyio.Event()
        self.ended = anyio.Event()

    async def accept(self, *, answers=True):
        """Returns the owner's end of the bridge; there is an owner from now on."""
        if self._listening is None:
            self._listening = listen(self._path)
            self._listening.setblocking(False)
        with anyio.fail_after(WAIT_S):
            await anyio.wait_readable(self._listening)
        accepted, _ = self._listening.accept()
        self._owners.append(Peer(await UNIXSocketStream.from_socket(accepted)))
        if answers:
            await self.greet(self._owners[-1])
        return self._owners[-1]

    async def greet(self, owner, **answer):
        greeting = await owner.receive()
        assert greeting["method"] == "$/guest"
        await owner.send({"jsonrpc": "2.0", "id": greeting["id"], **(answer or {"result": {}})})

    async def lose_owner(self):
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for owner in self._owners:
            await owner.stream.aclose()

    async def reach(self):
        while True:
            try:
                return await connect(OwnerSocket(self._path, frozenset({os.geteuid()})))
            except OSError:
                await anyio.sleep(0.001)


@pytest.fixture
def bridged(tmp_path):
    """Starts a bridge: `async with bridged(patience_s=...) as all: ...`"""

    @asynccontextmanager
    async def start(patience_s=WAIT_S, settings=None, **limits):
        bounds = ConnectionLimits(**limits)
        inside, outside = socket.socketpair()
        client = await UNIXSocketStream.from_socket(outside)
        every = Bridged(tmp_path / "run/s", client)

        async def serve():
            connection = ClientConnection(
                DescriptorReader(inside.fileno()), DescriptorWriter(inside.detach()),
                shutdown=every.shutdown, limits=bounds,
            )  # fmt: skip
            bridge = partial(
                Bridge, every.reach, end=every.asked_to_end.set,
                patience_s=patience_s, terms=terms_of(settings or make_settings(tmp_path)),
                name_owner=lambda: "Process 7, which owns the index,",
            )  # fmt: skip
            await connection.serve(bridge)
            every.ended.set()

        async with client, anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            with anyio.fail_after(2 * WAIT_S):
                yield every
            await every.lose_owner()
            tasks.cancel_scope.cancel()

    return start
