"""One process among those that serve an index: its owner, or a bridge to it; one client for as long as it is connected."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
from anyio.abc import SocketStream, TaskGroup
from msgspec.structs import replace

from backends.errors import IndexUnavailableError
from config.errors import MemoryGatewayError, ungrouped
from config.host_keys import is_disabled
from config.runtime.logs import Log
from config.settings import Settings
from gateway.notify import STANDING_BY, Notifier
from gateway.ownership.lock import (
    LockDisk,
    OwnerLock,
    OwnerPlace,
    OwnerRecord,
    check_workspace,
    name_process,
    place_of,
)
from gateway.ownership.sockets import (
    Listening,
    ServeClient,
    listen_somewhere,
    listener_of,
    reach_owner,
    serving,
)
from gateway.rpc.connection import Lane, serve_connection, serve_lines
from gateway.rpc.registry import Session
from gateway.rpc.transport import ByteReader, ByteWriter, Outbox, SocketChannel
from gateway.rpc.wire import ConnectionLimits
from gateway.sessions import terms_of
from gateway.version import VERSION

if TYPE_CHECKING:
    from gateway.agent.reloading import Reloader
    from gateway.ownership.bridge import Bridge
    from gateway.rpc.registry import MethodRegistry


_LONGEST_LOOK: Final = 1024 * 1024
"""A first line that is longer is no greeting."""


class Pipe(msgspec.Struct, frozen=True):
    """The bytes of the client that started this process."""

    reader: ByteReader
    writer: ByteWriter


class Conversation(msgspec.Struct, frozen=True):
    reader: ByteReader
    writer: ByteWriter
    shutdown: anyio.Event
    session: Session
    on_end: Callable[[], None] = lambda: None
    """Called when the input has ended."""


Serve = Callable[[Conversation], Awaitable[None]]
"""Serves one client until it leaves or its `shutdown` is set."""


async def serve_pipe(
    serve: Serve, pipe: Pipe, shutdown: anyio.Event, *, on_end: Callable[[], None]
) -> None:
    """Calls `on_end` as soon as the input has ended, while open requests still finish."""
    await serve(Conversation(pipe.reader, pipe.writer, shutdown, Session(), on_end))
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


_log = Log()


class Host:
    """Serves until `shutdown` is set or the client on the pipe has left."""

    def __init__(
        self,
        settings: Settings,
        *,
        read_settings: Callable[[], Settings],
        pipe: Pipe | None,
        sockets: Sequence[socket.socket] = (),
        shutdown: anyio.Event,
        notifier: Notifier | None = None,
    ) -> None:
        """Without a `pipe` only sockets are served: the owner's own, and those handed in."""
        self._settings = settings
        self._read_settings = read_settings
        self._pipe = pipe
        self._handed_in = tuple(sockets)
        self._shutdown = shutdown
        self._notifier = notifier or Notifier()
        self.closing = anyio.Event()
        """Set as soon as the end begins: clients of sockets may then go to the next owner."""
        self._limits = ConnectionLimits()
        self._lane = Lane(self._limits)
        self._reloader: Reloader | None = None
        self._disk = LockDisk()
        self._owner_pid: int | None = None
        """The process that owned the index when this one last reached it."""

    async def run(self) -> None:
        """Raises IndexUnavailableError when the index can be neither owned nor visited."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._close_at_shutdown)
            await self._recognise_client()
            if is_disabled(self._settings):
                async with self._answering(self._handed_in) as serve:
                    await self._serve_pipe(serve)
            else:
                await self._run(await self._disk.run(partial(place_of, self._settings)))
            tasks.cancel_scope.cancel()

    async def _recognise_client(self) -> None:
        """Looks at the first line where it decides whether memory is on.

        What switches OpenClaw's own memory off is meant for the sidecar that stands in for it; a client
        of MCP is somebody else.
        """
        as_mcp = replace(self._settings, started_as="mcp")
        if self._pipe is None or not is_disabled(self._settings) or is_disabled(as_mcp):
            return
        from gateway.mcp.eras import speaks_mcp  # noqa: PLC0415 - hardly any start needs it

        peeked = Peeked(self._pipe.reader)
        self._pipe = Pipe(peeked, self._pipe.writer)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_after, self._shutdown, tasks.cancel_scope)
            if speaks_mcp(await peeked.first_line()):
                self._settings = as_mcp
            tasks.cancel_scope.cancel()

    async def reload(self) -> None:
        """Reads the configuration again, if this process is the one that answers by it."""
        if self._reloader is None:
            _log.info("nothing to reload: another process owns the index")
            return
        self._notifier.reloading()
        with suppress(MemoryGatewayError):  # it is in the log, and in `health`
            await self._reloader.reload()
        self._notifier.ready("Done with reading the configuration.")

    async def _run(self, place: OwnerPlace) -> None:
        lock = await self._disk.acquire(place.lock)
        if lock is None:
            await self._visit(place)
            return
        async with self._owning(place, lock, self._handed_in) as serve:
            await self._serve_pipe(serve)

    async def _visit(self, place: OwnerPlace) -> None:
        """Serves as a guest, and takes over when the owner is gone."""
        from gateway.ownership.bridge import stand_by  # noqa: PLC0415 - an owner needs none of it

        await self._disk.run(partial(check_workspace, place.lock, self._settings.workspace))
        _log.info("another process owns the index", lock=str(place.lock))
        self._notifier.ready(STANDING_BY)
        carry = partial(self._carry, place.lock)
        async with anyio.create_task_group() as tasks:
            own = partial(self._take_over, place)
            tasks.start_soon(stand_by, place.lock, own, self.closing, LockDisk())
            async with serving(self._handed_in, self._on_socket(carry), self.closing):
                await self._serve_pipe(carry)

    async def _take_over(self, place: OwnerPlace, lock: OwnerLock) -> None:
        async with self._owning(place, lock, ()):
            await self.reload()  # the former owner may have had a newer configuration
            await self.closing.wait()

    @asynccontextmanager
    async def _owning(
        self, place: OwnerPlace, lock: OwnerLock, handed_in: Sequence[socket.socket]
    ) -> AsyncIterator[Serve]:
        own = await self._listen(place)
        record = OwnerRecord(
            pid=os.getpid(),
            workspace=str(self._settings.workspace),
            socket=str(own.path) if own else None,
        )
        try:
            async with (
                self._answering((*handed_in, *([own.socket] if own else []))) as serve,
                announced(lock, record),
            ):
                yield serve
        finally:
            self._reloader = None
            await self._let_go(lock, own)

    async def _listen(self, place: OwnerPlace) -> Listening | None:
        """Without a socket only the client on the pipe is served."""

        def close(own: Listening | None) -> None:
            if own is not None:
                own.close()

        try:
            return await self._disk.run(partial(listen_somewhere, place.sockets), discard=close)
        except IndexUnavailableError as error:
            _log.warning("no socket can be made", error=str(error))
            return None

    async def _let_go(self, lock: OwnerLock, own: Listening | None) -> None:
        """What a disk that hangs keeps goes with the process."""

        def let_go() -> None:
            if own is not None:
                own.path.unlink(missing_ok=True)
            lock.release()

        with anyio.CancelScope(shield=True), suppress(IndexUnavailableError):
            await self._disk.run(let_go)

    @asynccontextmanager
    async def _answering(self, sockets: Sequence[socket.socket]) -> AsyncIterator[Serve]:
        """Opens the memory and answers the clients of these sockets; yields how to answer others."""
        from gateway.agent.memory import open_memory  # noqa: PLC0415 - a guest needs none of it
        from gateway.agent.reloading import Reloader  # noqa: PLC0415
        from gateway.methods import build_registry  # noqa: PLC0415
        from gateway.notify import supervised  # noqa: PLC0415

        settings = self._settings
        async with open_memory(settings) as memory:
            self._reloader = Reloader(memory, self._read_settings)
            registry = build_registry(memory, self._shutdown.set, self._reloader.reload)
            answer = partial(self._answer, registry)
            async with (
                serving(sockets, self._on_socket(answer), self.closing),
                supervised(self._notifier, memory),
            ):
                _log.info(
                    "serving",
                    agent=settings.agent_id,
                    version=VERSION,
                    workspace=str(settings.workspace),
                )
                yield answer

    async def _answer(self, registry: MethodRegistry, client: Conversation) -> None:
        await serve_connection(
            client.reader,
            client.writer,
            registry,
            shutdown=client.shutdown,
            limits=self._limits,
            session=client.session,
            lane=self._lane_of(client),
            on_end=client.on_end,
        )

    async def _carry(self, lock: Path, client: Conversation) -> None:
        from gateway.ownership.bridge import Bridge  # noqa: PLC0415 - as above

        def make_bridge(outbox: Outbox, tasks: TaskGroup) -> Bridge:
            end = client.session.leave or self._shutdown.set
            return Bridge(
                partial(self._reach, lock),
                outbox,
                tasks,
                limits=self._limits,
                end=end,
                terms=terms_of(self._settings),
                name_owner=lambda: name_process(self._owner_pid),
            )

        await serve_lines(
            client.reader,
            client.writer,
            make_bridge,
            shutdown=client.shutdown,
            limits=self._limits,
            lane=self._lane_of(client),
            on_end=client.on_end,
        )

    async def _reach(self, lock: Path) -> SocketStream:
        stream = await reach_owner(lock, self._disk)
        self._owner_pid = listener_of(stream)
        return stream

    def _lane_of(self, client: Conversation) -> Lane | None:
        """The client on the pipe is alone on its lane."""
        return self._lane if client.session.leave else None

    async def _serve_pipe(self, serve: Serve) -> None:
        if self._pipe is None:
            await self._shutdown.wait()
        else:
            await serve_pipe(serve, self._pipe, self._shutdown, on_end=self.closing.set)

    def _on_socket(self, serve: Serve) -> ServeClient:
        return partial(serve_socket, serve, self.closing)

    async def _close_at_shutdown(self) -> None:
        await self._shutdown.wait()
        self._notifier.stopping()
        self.closing.set()


async def _cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


_ANNOUNCING_PAUSE_S: Final = 1.0


@asynccontextmanager
async def announced(lock: OwnerLock, record: OwnerRecord) -> AsyncIterator[None]:
    """The record stands in the lock file while the body runs, as soon as it can be written."""
    disk = LockDisk()
    problem = await _announce(disk, lock, record)
    if problem is None:
        yield
        return
    _log.warning("the owner of the index is not announced yet", error=str(problem))
    with ungrouped():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_announce_later, disk, lock, record)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()


async def _announce_later(disk: LockDisk, lock: OwnerLock, record: OwnerRecord) -> None:
    while True:
        await anyio.sleep(_ANNOUNCING_PAUSE_S)
        if await _announce(disk, lock, record) is None:
            _log.info("the owner of the index is announced")
            return


async def _announce(disk: LockDisk, lock: OwnerLock, record: OwnerRecord) -> Exception | None:
    try:
        await disk.run(partial(lock.announce, record))
    except (OSError, IndexUnavailableError) as error:
        return error
    return None
