"""Unix sockets by their path: listening, serving clients, reaching the owner."""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup

from backends.interface import IndexUnavailableError
from config.runtime.logs import Log
from config.runtime.tasks import background_tasks
from gateway.ownership.owner import (
    LockDisk,
    OwnerSocket,
    UntrustedSocketError,
    find_owner_socket,
    make_private,
    peer_of,
    socket_address,
    stranger,
)
from gateway.rpc.transport import SocketChannel

_log = Log()

_BACKLOG: Final = 1024
_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.25


class Listening(msgspec.Struct, frozen=True):
    socket: socket.socket
    path: Path
    made: tuple[int, int]
    """The inode of the path, and when it last changed."""

    def close(self) -> None:
        """Closes the socket and removes its path, so that nobody finds it any more."""
        self.socket.close()
        self.remove()

    def remove(self) -> None:
        """Removes the path, unless another owner, of a lock file made anew, listens there by now. Raises OSError."""
        with suppress(FileNotFoundError):
            if _identity(self.path) == self.made:
                self.path.unlink()


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_ino, status.st_ctime_ns


def listen(path: Path) -> socket.socket:
    """Listens at the path, for this user only, in place of what a dead owner left there.

    Call it with the lock held. Raises OSError.
    """
    make_private(path.parent)
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(path) as address:
            made.bind(address)
        path.chmod(0o600)
        made.listen(_BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def listen_somewhere(paths: Iterable[Path]) -> Listening | None:
    """Listens at the first of these places that can be used; None when none can."""
    for path in paths:
        try:
            return Listening(listen(path), path, _identity(path))
        except OSError as error:
            _log.warning("no socket here", path=str(path), error=str(error))
    return None


async def connect(owner: OwnerSocket) -> SocketStream:
    """Raises OSError when nobody listens there, UntrustedSocketError when it is another user."""
    with socket_address(owner.path) as address:
        stream = await anyio.connect_unix(address)
    try:
        owner.check(_raw(stream))
    except UntrustedSocketError:
        await stream.aclose()
        raise
    return stream


async def connect_owner(lock: Path, disk: LockDisk | None = None) -> SocketStream | None:
    """Returns a connection to the process that owns the index of this lock; None when none can be reached.

    Raises IndexUnavailableError when the disk of the lock does not answer, UntrustedSocketError.
    """
    owner = await (disk or LockDisk()).run(partial(find_owner_socket, lock))
    if owner is None:
        return None
    try:
        return await connect(owner)
    except OSError:
        return None


async def reach_owner(lock: Path, disk: LockDisk | None = None) -> SocketStream:
    """Waits until there is an owner that can be reached. Raises UntrustedSocketError at once."""
    disk = disk or LockDisk()
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            if (stream := await connect_owner(lock, disk)) is not None:
                return stream
        except UntrustedSocketError:
            raise
        except IndexUnavailableError:
            pass
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def listener_of(stream: SocketStream) -> int | None:
    """Returns the process at the other end; None where the system does not say."""
    return peer_of(_raw(stream)).pid


def _raw(stream: SocketStream) -> socket.socket:
    raw: socket.socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - that of anyio
    return raw


ServeClient = Callable[[SocketChannel, str], Awaitable[None]]
"""Serves one client to its end; the second argument names it in the log."""

_PAUSE_S: Final = 0.2
"""The pause after a failure to accept: descriptors may be free again by then."""

_numbers = itertools.count(1)


@asynccontextmanager
async def serving(
    sockets: Sequence[socket.socket], serve_client: ServeClient, closing: anyio.Event
) -> AsyncIterator[None]:
    """Serves the sockets while the body runs, until `closing` is set; closes them.

    At the end it waits for the clients, so `serve_client` must observe `closing` as well.
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
    async with background_tasks() as acceptors:
        for listener in listeners:
            acceptors.start_soon(_accept, listener, clients, serve_client)
        await closing.wait()


async def _accept(listener: SocketListener, clients: TaskGroup, serve_client: ServeClient) -> None:
    async with listener:
        while True:
            try:
                stream = await listener.accept()
            except anyio.BrokenResourceError as error:
                _log.warning("no client can be accepted", error=str(error.__cause__ or error))
                await anyio.sleep(_PAUSE_S)
                continue
            if (other := stranger(_raw(stream))) is not None:
                _log.warning("a client of another user is not served", uid=other.uid, pid=other.pid)
                await stream.aclose()
                continue
            name = f"socket-{next(_numbers)}"
            clients.start_soon(_serve, SocketChannel(stream), name, serve_client, name=name)


async def _serve(channel: SocketChannel, name: str, serve_client: ServeClient) -> None:
    try:
        await serve_client(channel, name)
    except Exception:  # noqa: BLE001 - the failure of one client is not that of the others
        _log.exception("client not served", connection=name)
