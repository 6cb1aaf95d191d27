"""Serves the clients of listening sockets, each in a task of its own.

Owns accepting, and that one client's fault or a lack of descriptors never ends the others. What a
client gets is the caller's business.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
import structlog
from anyio.abc import SocketListener, TaskGroup

from gateway.rpc.sockets import SocketChannel

_log = structlog.get_logger(__name__)

ServeClient = Callable[[SocketChannel, str], Awaitable[None]]
"""Serves one client to its end; the second argument names it in the log."""

_PAUSE_S: Final = 0.2
"""After a failure to accept: descriptors may be free again by then."""

_numbers = itertools.count(1)


@asynccontextmanager
async def serving(
    sockets: Sequence[socket.socket], serve_client: ServeClient, closing: anyio.Event
) -> AsyncIterator[None]:
    """Serves the sockets while the body runs, until `closing` is set; closes them.

    At the end it waits for the clients, so `serve_client` must heed `closing` as well.
    """
    listeners = [await SocketListener.from_socket(one) for one in sockets]
    async with anyio.create_task_group() as clients:
        clients.start_soon(_accept_all, listeners, clients, serve_client, closing)
        try:
            yield
        finally:
            closing.set()


async def _accept_all(
    listeners: Sequence[SocketListener],
    clients: TaskGroup,
    serve_client: ServeClient,
    closing: anyio.Event,
) -> None:
    async with anyio.create_task_group() as acceptors:
        for listener in listeners:
            acceptors.start_soon(_accept, listener, clients, serve_client)
        await closing.wait()
        acceptors.cancel_scope.cancel()


async def _accept(listener: SocketListener, clients: TaskGroup, serve_client: ServeClient) -> None:
    async with listener:
        while True:
            try:
                stream = await listener.accept()
            except anyio.BrokenResourceError as error:
                _log.warning("no client can be accepted", error=str(error.__cause__ or error))
                await anyio.sleep(_PAUSE_S)
                continue
            name = f"socket-{next(_numbers)}"
            clients.start_soon(_serve, SocketChannel(stream), name, serve_client, name=name)


async def _serve(channel: SocketChannel, name: str, serve_client: ServeClient) -> None:
    try:
        await serve_client(channel, name)
    except Exception:  # noqa: BLE001 - one client's misfortune is not that of the others
        _log.exception("client not served", connection=name)
