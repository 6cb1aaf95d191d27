"""Serves one client from its first byte to its last, over any pair of byte streams.

Owns the phases: reading while there is input, then letting open requests finish, then flushing answers,
then closing; and the ways in which a client can leave. All of it lives in one task group, so nothing
outlives the connection. What a line means belongs to the dispatcher.
"""

from __future__ import annotations

import anyio
import anyio.lowlevel
import structlog

from gateway.rpc.context import Session
from gateway.rpc.dispatcher import Dispatcher
from gateway.rpc.errors import RequestCancelledError, ShuttingDownError
from gateway.rpc.framing import LineSplitter
from gateway.rpc.limits import ConnectionLimits
from gateway.rpc.methods import MethodRegistry
from gateway.rpc.outbox import Outbox
from gateway.rpc.streams import ByteReader, ByteWriter
from gateway.rpc.wakeup import Wakeup

_log = structlog.get_logger(__name__)


async def serve_connection(
    reader: ByteReader,
    writer: ByteWriter,
    registry: MethodRegistry,
    *,
    shutdown: anyio.Event,
    limits: ConnectionLimits | None = None,
    session: Session | None = None,
) -> None:
    """Serve one client until it leaves or `shutdown` is set; close `writer` at the end.

    End of input: open requests get `grace_s`, what remains is answered `cancelled`, and the answers are
    written for as long as the client goes on reading. Shutdown: new lines are refused, open requests
    get `grace_s`, what remains is answered `shutting_down`; all over within `limits.shutdown_s`.
    A client that stops reading altogether, after it hung up, or whose end breaks, ends it at once.

    Cancelling this call ends it at once, without answers. A handler that shields itself from
    cancellation delays the return, not the answers.
    """
    connection = _Connection(
        reader,
        writer,
        registry,
        shutdown=shutdown,
        limits=limits or ConnectionLimits(),
        session=session or Session(),
    )
    await connection.serve()


class _Connection:
    def __init__(
        self,
        reader: ByteReader,
        writer: ByteWriter,
        registry: MethodRegistry,
        *,
        shutdown: anyio.Event,
        limits: ConnectionLimits,
        session: Session,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._shutdown = shutdown
        self._limits = limits
        self._outbox = Outbox(limits.outbox_bytes)
        self._tasks = anyio.create_task_group()
        self._dispatcher = Dispatcher(registry, self._outbox, session, limits, self._tasks)
        self._input_ended = anyio.Event()
        self._finishing = anyio.CancelScope()
        self._between_reads = Wakeup()
        self._reading = False

    async def serve(self) -> None:
        try:
            async with self._tasks:
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
        splitter = LineSplitter(self._limits.line_bytes)
        while data := await self._reader.receive():
            self._reading = True
            for line in splitter.feed(data):
                await self._dispatcher.accept(line)
                await anyio.lowlevel.checkpoint()  # a burst of lines must not starve the others
            self._reading = False
            self._between_reads.fire()
        for line in splitter.finish():
            await self._dispatcher.accept(line)
        self._input_ended.set()

    async def _write(self) -> None:
        try:
            await self._outbox.run(self._writer)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            _log.debug("the client closed its end")
            self._tasks.cancel_scope.cancel()

    async def _await_shutdown(self) -> None:
        await self._shutdown.wait()
        self._dispatcher.close()
        self._finishing.deadline = anyio.current_time() + self._limits.shutdown_s
        self._input_ended.set()

    async def _finish(self) -> None:
        with anyio.move_on_after(self._limits.grace_s):
            while self._reading:  # lines that were read together with a `shutdown` get an answer
                await self._between_reads.wait()
        await self._dispatcher.drain(
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
