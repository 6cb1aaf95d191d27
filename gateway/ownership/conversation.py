"""One client for as long as it is connected: its bytes, its session, and when it has to end.

Owns what differs between the client on the pipe, with whom the process ends, and those of sockets,
who come and go. Whether they are answered or carried to somebody else is the caller's business.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import anyio

from gateway.rpc.context import Session
from gateway.rpc.sockets import SocketChannel
from gateway.rpc.streams import ByteReader, ByteWriter

_LONGEST_LOOK: Final = 1024 * 1024
"""A first line that is longer is no greeting."""


@dataclass(frozen=True, slots=True)
class Pipe:
    """The bytes of the client that started this process."""

    reader: ByteReader
    writer: ByteWriter


@dataclass(frozen=True, slots=True)
class Conversation:
    reader: ByteReader
    writer: ByteWriter
    shutdown: anyio.Event
    session: Session


Serve = Callable[[Conversation], Awaitable[None]]
"""Serves one client until it leaves or its `shutdown` is set."""


async def serve_pipe(
    serve: Serve, pipe: Pipe, shutdown: anyio.Event, *, on_end: Callable[[], None]
) -> None:
    """Calls `on_end` as soon as the input has ended, while open requests still finish."""
    reader = _Noticed(pipe.reader, on_end)
    await serve(Conversation(reader, pipe.writer, shutdown, Session()))
    on_end()


async def serve_socket(
    serve: Serve, closing: anyio.Event, channel: SocketChannel, name: str
) -> None:
    """Ends with `closing`, or when the client asks for the end of its own connection."""
    leaving = anyio.Event()
    session = Session(connection=name, leave=leaving.set)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_set_after, closing, leaving)
        await serve(Conversation(channel, channel, leaving, session))
        tasks.cancel_scope.cancel()


async def _set_after(first: anyio.Event, second: anyio.Event) -> None:
    await first.wait()
    second.set()


class _Noticed:
    """A reader whose end somebody else wants to know, too."""

    def __init__(self, reader: ByteReader, on_end: Callable[[], None]) -> None:
        self._reader = reader
        self._on_end = on_end

    async def receive(self) -> bytes:
        data = await self._reader.receive()
        if not data:
            self._on_end()
        return data

    def hung_up(self) -> bool:
        return self._reader.hung_up()


class Peeked:
    """A reader whose first line somebody looked at before it is served."""

    def __init__(self, reader: ByteReader) -> None:
        self._reader = reader
        self._held = b""

    async def first_line(self) -> bytes:
        """The first line that is not blank, or the first `_LONGEST_LOOK` bytes; empty at the end."""
        while True:
            line, newline, _ = self._held.lstrip().partition(b"\n")
            if newline or len(line) >= _LONGEST_LOOK:
                return line
            data = await self._reader.receive()
            if not data:
                return line
            self._held += data

    async def receive(self) -> bytes:
        if self._held:
            held, self._held = self._held, b""
            return held
        return await self._reader.receive()

    def hung_up(self) -> bool:
        return self._reader.hung_up()
