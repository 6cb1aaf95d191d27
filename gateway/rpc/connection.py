"""Serves one client from its first byte to its last, over any pair of byte streams.

Owns the phases: reading while there is input, then letting open requests finish, then flushing answers,
then closing; and the ways in which a client can leave. All of it lives in one task group, so nothing
outlives the connection. What a line means belongs to its handler: the dispatcher, or a bridge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import anyio
import anyio.lowlevel
import structlog
from anyio.abc import TaskGroup

from config.runtime.tasks import Wakeup
from gateway.rpc.dispatcher import Dispatcher
from gateway.rpc.methods import MethodRegistry, Session
from gateway.rpc.transport import ByteReader, ByteWriter, Outbox
from gateway.rpc.wire import (
    SMALL_LINE_BYTES,
    ConnectionLimits,
    LineRoom,
    LineSplitter,
    RequestCancelledError,
    RpcError,
    ShuttingDownError,
)

_log = structlog.get_logger(__name__)


class LineHandler(Protocol):
    """What becomes of the lines of one connection."""

    async def accept(self, line: bytes | RpcError) -> None:
        """Start what a line asks for; an error stands for a line that could not be read."""
        ...

    def close(self) -> None:
        """Refuse what comes from now on."""
        ...

    async def drain(self, cause: RpcError) -> None:
        """Let open requests finish for a while, then answer the rest with `cause`."""
        ...


class Lane:
    """What the clients of sockets share, so that many of them are no burden for the one on the pipe.

    Their unfinished lines hold a bounded number of bytes, and of their long lines the event loop takes
    one in a round.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.room = LineRoom(limits.all_lines_bytes)
        self._turn = anyio.Lock()

    async def turn(self, line: bytes | RpcError) -> None:
        """Waits for the client's turn with this line."""
        if isinstance(line, bytes) and len(line) > SMALL_LINE_BYTES:
            async with self._turn:
                await anyio.lowlevel.checkpoint()


MakeHandler: TypeAlias = Callable[[Outbox, TaskGroup], LineHandler]
"""Gets where the answers go, and a task group that lives as long as the connection."""


async def serve_connection(
    reader: ByteReader,
    writer: ByteWriter,
    registry: MethodRegistry,
    *,
    shutdown: anyio.Event,
    limits: ConnectionLimits | None = None,
    session: Session | None = None,
    lane: Lane | None = None,
) -> None:
    """Serve one client until it leaves or `shutdown` is set; close `writer` at the end.

    End of input: open requests get `grace_s`, what remains is answered `cancelled`, and the answers are
    written for as long as the client goes on reading. Shutdown: new lines are refused, open requests
    get `grace_s`, what remains is answered `shutting_down`; all over within `limits.shutdown_s`.
    A client that stops reading altogether, after it hung up, or whose end breaks, ends it at once.

    Cancelling this call ends it at once, without answers. A handler that shields itself from
    cancellation delays the return, not the answers.
    """
    bounds = limits or ConnectionLimits()

    def dispatch(outbox: Outbox, tasks: TaskGroup) -> Dispatcher:
        return Dispatcher(registry, outbox, session or Session(), bounds, tasks)

    await serve_lines(reader, writer, dispatch, shutdown=shutdown, limits=bounds, lane=lane)


async def serve_lines(
    reader: ByteReader,
    writer: ByteWriter,
    make_handler: MakeHandler,
    *,
    shutdown: anyio.Event,
    limits: ConnectionLimits | None = None,
    lane: Lane | None = None,
) -> None:
    """As `serve_connection`, with any handler of lines."""
    bounds = limits or ConnectionLimits()
    own = lane or Lane(bounds)
    await _Connection(
        reader, writer, make_handler, shutdown=shutdown, limits=bounds, lane=own
    ).serve()


class _Connection:
    def __init__(
        self,
        reader: ByteReader,
        writer: ByteWriter,
        make_handler: MakeHandler,
        *,
        shutdown: anyio.Event,
        limits: ConnectionLimits,
        lane: Lane,
    ) -> None:
        self._lane = lane
        self._reader = reader
        self._writer = writer
        self._shutdown = shutdown
        self._limits = limits
        self._outbox = Outbox(limits.outbox_bytes)
        self._tasks = anyio.create_task_group()
        self._make_handler = make_handler
        self._input_ended = anyio.Event()
        self._finishing = anyio.CancelScope()
        self._between_reads = Wakeup()
        self._reading = False

    async def serve(self) -> None:
        try:
            async with self._tasks:
                self._handler = self._make_handler(self._outbox, self._tasks)
                self._tasks.start_soon(self._write)
                self._tasks.start_soon(self._read)
                self._tasks.start_soon(self._await_shutdown)
                self._tasks.start_soon(self._watch_for_desertion)
                await self._input_ended.wait()
                with self._finishing:
                    await self._finish()
                self._tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._writer.aclose()

    async def _read(self) -> None:
        splitter = LineSplitter(self._limits.line_bytes, self._lane.room)
        try:
            while data := await self._reader.receive():
                self._reading = True
                for line in splitter.feed(data):
                    await self._lane.turn(line)
                    await self._handler.accept(line)
                    await anyio.lowlevel.checkpoint()  # a burst of lines must not starve the others
                self._reading = False
                self._between_reads.fire()
            for line in splitter.finish():
                await self._lane.turn(line)
                await self._handler.accept(line)
        finally:
            splitter.close()
        self._input_ended.set()

    async def _write(self) -> None:
        try:
            await self._outbox.run(self._writer)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            _log.debug("the client closed its end")
            self._tasks.cancel_scope.cancel()

    async def _await_shutdown(self) -> None:
        await self._shutdown.wait()
        self._handler.close()
        self._finishing.deadline = anyio.current_time() + self._limits.shutdown_s
        self._input_ended.set()

    async def _finish(self) -> None:
        with anyio.move_on_after(self._limits.grace_s):
            while self._reading:  # lines that were read together with a `shutdown` get an answer
                await self._between_reads.wait()
        await self._handler.drain(
            ShuttingDownError()
            if self._shutdown.is_set()
            else RequestCancelledError("The client closed its input before this was done.")
        )
        await self._outbox.flush(self._limits.flush_s)

    async def _watch_for_desertion(self) -> None:
        """Notice a client that hung up and reads nothing, while its answers keep us from reading.

        Then the end of input, behind unread lines, would never be seen.
        """
        while True:
            await self._outbox.congestion()
            written = self._outbox.written
            await anyio.sleep(self._limits.stall_s)
            if (
                self._outbox.written == written
                and self._outbox.congested
                and self._reader.hung_up()
            ):
                _log.debug("the client hung up and reads nothing")
                self._tasks.cancel_scope.cancel()
