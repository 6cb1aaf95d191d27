"""Lets a connection be served over one accepted Unix socket.

Owns the adapter from anyio's stream, as its listeners hand it out, to the byte protocols of `streams`.
Listening, permissions and socket activation belong to whoever accepts.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from anyio.abc import SocketAttribute, SocketStream

from gateway.rpc.streams import DescriptorReader, DescriptorWriter


class SocketChannel:
    """Both byte ends of one accepted Unix socket: pass it as reader and as writer.

    The bytes go past the stream's own methods: those report an exception to the event loop when a
    wait is cancelled in the very moment in which the client closes.
    """

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        descriptor: int = stream.extra(attribute=SocketAttribute.raw_socket).fileno()
        self._reader = DescriptorReader(descriptor)
        self._writer = DescriptorWriter(descriptor)

    async def receive(self) -> bytes:
        return await self._reader.receive()

    def hung_up(self) -> bool:
        return self._reader.hung_up()

    async def send(self, data: bytes) -> None:
        await self._writer.send(data)

    def hang_up(self) -> None:
        """Ends both directions: whoever waits to read or write here finds the peer gone."""
        with suppress(OSError):
            self._stream.extra(attribute=SocketAttribute.raw_socket).shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        await self._stream.aclose()
