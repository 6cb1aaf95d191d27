"""One process among those that serve an index: its owner, or a bridge to it; one client while it is connected."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
from anyio.abc import SocketStream
from msgspec.structs import replace

from backends.interface import IndexUnavailableError
from config.errors import MemoryGatewayError
from config.host_keys import is_disabled
from config.runtime.logs import Log
from config.runtime.tasks import background_tasks, cancelled_after
from config.settings import Settings
from gateway.notify import STANDING_BY, Notifier
from gateway.ownership.owner import (
    LockDisk,
    OwnerLock,
    OwnerPlace,
    OwnerRecord,
    check_workspace,
    name_process,
    place_of,
)
from gateway.ownership.sockets import Listening, listen_somewhere, listener_of, reach_owner, serving
from gateway.rpc.connection import (
    ClientConnection,
    ConnectionLimits,
    Dispatcher,
    LineHandler,
    SharedLimits,
)
from gateway.rpc.registry import Session
from gateway.rpc.transport import ByteReader, ByteWriter, SocketChannel
from gateway.scope import terms_of
from gateway.version import VERSION

if TYPE_CHECKING:
    from gateway.agent.reloading import Reloader
    from gateway.ownership.bridge import Bridge

_log = Log()

MakeHandler = Callable[[ClientConnection], LineHandler]
"""Makes the handler of a client's lines, which calls methods or forwards the lines to the owner."""

_ANNOUNCING_PAUSE_S: Final = 1.0
_LOCK_LOOKS_S: Final = 2.0
_LONGEST_LOOK: Final = 1024 * 1024
"""A first line that is longer is no greeting."""


class Pipe(msgspec.Struct, frozen=True):
    """The bytes of the client that started this process."""

    reader: ByteReader
    writer: ByteWriter
    process: int | None = None
    """The process id of that client, where it is known."""


class Peeked:
    """A reader whose first line can be looked at before it is served."""

    def __init__(self, reader: ByteReader) -> None:
        self._reader = reader
        self._buffer = b""

    async def first_line(self) -> bytes:
        """Returns the first line that is not blank, or the first `_LONGEST_LOOK` bytes; empty at the end."""
        while True:
            line, newline, _ = self._buffer.partition(b"\n")
            if newline or len(line) >= _LONGEST_LOOK:
                return line
            data = await self._reader.receive()
            if not data:
                return line
            self._buffer = (self._buffer + data).lstrip()

    async def receive(self) -> bytes:
        if self._buffer:
            data, self._buffer = self._buffer, b""
            return data
        return await self._reader.receive()

    def hung_up(self) -> bool:
        return self._reader.hung_up()


class Clients:
    """The clients of sockets that are connected, and when the last one left."""

    def __init__(self) -> None:
        self._connected = 0
        self._left_at = anyio.current_time()

    @contextmanager
    def one_more(self) -> Iterator[None]:
        self._connected += 1
        try:
            yield
        finally:
            self._connected -= 1
            self._left_at = anyio.current_time()

    async def end_without(self, idle_s: float, shutdown: anyio.Event) -> None:
        """Sets `shutdown` when nobody was connected for so long."""
        while True:
            left_s = idle_s if self._connected else self._left_at + idle_s - anyio.current_time()
            if left_s <= 0:
                break
            await anyio.sleep(left_s)
        _log.info("stopping", cause=f"no client for {idle_s:g} s")
        shutdown.set()


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
        idle_s: float | None = None,
    ) -> None:
        """Without a `pipe` only sockets are served: the owner's own, and those handed in.

        With `idle_s` it ends when there was no client for so long, when the lock file of the index was deleted, and at
        once where the index has an owner.
        """
        self._settings = settings
        self._read_settings = read_settings
        self._pipe = pipe
        self._handed_in = tuple(sockets)
        self._shutdown = shutdown
        self._notifier = notifier or Notifier()
        self._idle_s = idle_s
        self._clients = Clients()
        self.closing = anyio.Event()
        """Set as soon as the end begins: clients of sockets may then go to the next owner."""
        self._limits = ConnectionLimits()
        self._shared = SharedLimits(self._limits)
        self._reloader: Reloader | None = None
        self._disk = LockDisk()
        self._owner_pid: int | None = None
        """The process that owned the index when this one last reached it."""

    async def run(self) -> None:
        """Raises IndexUnavailableError when the index can be neither owned nor visited."""
        async with background_tasks() as tasks:
            tasks.start_soon(self._close_at_shutdown)
            if self._idle_s is not None:
                tasks.start_soon(self._clients.end_without, self._idle_s, self._shutdown)
            await self._recognise_client()
            if is_disabled(self._settings):
                async with self._answering(self._handed_in) as make_handler:
                    await self._serve_pipe(make_handler)
            else:
                await self._run(await self._disk.run(partial(place_of, self._settings)))

    async def _recognise_client(self) -> None:
        """Looks at the first line where it decides whether memory is on.

        A key that switches OpenClaw's own memory off is meant for the sidecar that replaces it, not for a
        client of MCP.
        """
        as_mcp = replace(self._settings, started_as="mcp")
        if self._pipe is None or not is_disabled(self._settings) or is_disabled(as_mcp):
            return
        from gateway.mcp.eras import speaks_mcp  # noqa: PLC0415 - hardly any start needs it

        peeked = Peeked(self._pipe.reader)
        self._pipe = Pipe(peeked, self._pipe.writer, self._pipe.process)
        async with cancelled_after(self._shutdown.wait):
            if speaks_mcp(await peeked.first_line()):
                self._settings = as_mcp

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
        if lock is None and self._idle_s is not None:
            _log.info("another process owns the index", lock=str(place.lock))
            return
        if lock is None:
            await self._visit(place)
            return
        async with self._owning(place, lock, self._handed_in) as make_handler:
            await self._serve_pipe(make_handler)

    async def _visit(self, place: OwnerPlace) -> None:
        """Serves as a guest, and takes over when the owner is gone."""
        from gateway.ownership.bridge import stand_by  # noqa: PLC0415 - an owner needs none of it

        await self._disk.run(partial(check_workspace, place.lock, self._settings.workspace))
        _log.info("another process owns the index", lock=str(place.lock))
        self._notifier.ready(STANDING_BY)
        bridge = partial(self._bridge, place.lock)
        async with anyio.create_task_group() as tasks:
            own = partial(self._take_over, place)
            tasks.start_soon(stand_by, place.lock, own, self.closing)
            async with self._serving_sockets(self._handed_in, bridge):
                await self._serve_pipe(bridge)

    async def _take_over(self, place: OwnerPlace, lock: OwnerLock) -> None:
        async with self._owning(place, lock, (), is_heir=True):
            await self.closing.wait()

    @asynccontextmanager
    async def _owning(
        self,
        place: OwnerPlace,
        lock: OwnerLock,
        handed_in: Sequence[socket.socket],
        *,
        is_heir: bool = False,
    ) -> AsyncIterator[MakeHandler]:
        own = await self._listen(place)
        # Nobody knows of one that stays: who deleted the index would not see that it is there again.
        may_make = (lambda: True) if self._idle_s is None else partial(lock.stands_at, place.lock)
        record = OwnerRecord(
            pid=os.getpid(),
            workspace=str(self._settings.workspace),
            socket=str(own.path) if own else None,
        )
        try:
            sockets = (*handed_in, *([own.socket] if own else []))
            async with (
                self._answering(sockets, is_heir=is_heir, may_make=may_make) as make_handler,
                announced(lock, record),
                background_tasks() as tasks,
            ):
                if self._idle_s is not None:
                    tasks.start_soon(self._end_without_lock, place, lock)
                yield make_handler
        finally:
            self._reloader = None
            await self._let_go(lock, own)

    async def _end_without_lock(self, place: OwnerPlace, lock: OwnerLock) -> None:
        stands = True
        while stands:
            await anyio.sleep(_LOCK_LOOKS_S)
            with suppress(IndexUnavailableError):  # the disk does not answer
                stands = await self._disk.run(partial(lock.stands_at, place.lock))
        _log.info("stopping", cause="the lock of the index was deleted")
        self._shutdown.set()

    async def _listen(self, place: OwnerPlace) -> Listening | None:
        """Listens for clients; if no socket can be made, only the client on the pipe is served."""

        def close(own: Listening | None) -> None:
            if own is not None:
                own.close()

        try:
            return await self._disk.run(partial(listen_somewhere, place.sockets), discard=close)
        except IndexUnavailableError as error:
            _log.warning("no socket can be made", error=str(error))
            return None

    async def _let_go(self, lock: OwnerLock, own: Listening | None) -> None:
        """Removes the socket and releases the lock; if the disk hangs, the end of the process releases it."""

        def let_go() -> None:
            if own is not None:
                own.remove()
            lock.release()

        with anyio.CancelScope(shield=True), suppress(IndexUnavailableError):
            await self._disk.run(let_go)

    @asynccontextmanager
    async def _answering(
        self,
        sockets: Sequence[socket.socket],
        *,
        is_heir: bool = False,
        may_make: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[MakeHandler]:
        """Opens the memory and answers the clients of these sockets; yields the handler for others.

        `may_make`: as for `connect` of the store. An heir reads its configuration before its first answer: the former
        owner may have read a newer one.
        """
        from gateway.agent.memory import open_memory  # noqa: PLC0415 - a guest needs none of it
        from gateway.agent.reloading import Reloader  # noqa: PLC0415
        from gateway.methods import build_registry  # noqa: PLC0415
        from gateway.notify import supervised  # noqa: PLC0415

        settings = self._settings
        async with open_memory(settings, may_make=may_make) as memory:
            self._reloader = Reloader(memory, self._read_settings)
            if is_heir:
                await self.reload()
            registry = build_registry(memory, self._shutdown.set, self._reloader.reload)
            dispatch = partial(Dispatcher, registry)
            async with self._serving_sockets(sockets, dispatch), supervised(self._notifier, memory):
                _log.info(
                    "serving",
                    agent=settings.agent_id,
                    version=VERSION,
                    workspace=str(settings.workspace),
                )
                yield dispatch

    def _bridge(self, lock: Path, connection: ClientConnection) -> Bridge:
        from gateway.ownership.bridge import Bridge  # noqa: PLC0415 - an owner needs none of it

        return Bridge(
            partial(self._reach, lock),
            connection,
            end=connection.session.leave or self._shutdown.set,
            terms=terms_of(self._settings, connection.session.process),
            name_owner=lambda: name_process(self._owner_pid),
        )

    async def _reach(self, lock: Path) -> SocketStream:
        """Connects to the present owner. Raises IndexUnavailableError where it serves another workspace."""
        stream = await reach_owner(lock, self._disk)
        try:
            await self._disk.run(partial(check_workspace, lock, self._settings.workspace))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await stream.aclose()
            raise
        self._owner_pid = listener_of(stream)
        return stream

    async def _serve_pipe(self, make_handler: MakeHandler) -> None:
        """Sets `closing` as soon as the client's input has ended, while open requests still finish."""
        if self._pipe is None:
            await self._shutdown.wait()
            return
        connection = ClientConnection(
            self._pipe.reader,
            self._pipe.writer,
            shutdown=self._shutdown,
            limits=self._limits,
            session=Session(process=self._pipe.process),
            on_end=self.closing.set,
        )
        await connection.serve(make_handler)
        self.closing.set()

    @asynccontextmanager
    async def _serving_sockets(
        self, sockets: Sequence[socket.socket], make_handler: MakeHandler
    ) -> AsyncIterator[None]:
        async def serve_client(channel: SocketChannel, name: str) -> None:
            """Ends with `closing`, or when the client asks for the end of its own connection."""
            leaving = anyio.Event()
            connection = ClientConnection(
                channel,
                channel,
                shutdown=leaving,
                limits=self._limits,
                session=Session(connection=name, leave=leaving.set),
                shared=self._shared,
            )
            async with background_tasks() as tasks:
                tasks.start_soon(_set_after, self.closing, leaving)
                with self._clients.one_more():
                    await connection.serve(make_handler)

        async with serving(sockets, serve_client, self.closing):
            yield

    async def _close_at_shutdown(self) -> None:
        await self._shutdown.wait()
        self._notifier.stopping()
        self.closing.set()


async def _set_after(first: anyio.Event, second: anyio.Event) -> None:
    await first.wait()
    second.set()


@asynccontextmanager
async def announced(lock: OwnerLock, record: OwnerRecord) -> AsyncIterator[None]:
    """Writes the record into the lock file; if that fails, tries again while the body runs."""
    disk = LockDisk()
    problem = await _announce(disk, lock, record)
    if problem is None:
        yield
        return
    _log.warning("the owner of the index is not announced yet", error=str(problem))
    async with background_tasks() as tasks:
        tasks.start_soon(_announce_later, disk, lock, record)
        yield


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
