"""Serves one client, from its first byte to its last: lines become work, each outcome exactly one answer.

A `ClientConnection` reads while there is input, then lets open requests finish, writes their answers and closes;
all of it lives in one task group, so nothing outlives it. Its lines go to a `LineHandler`: the `Dispatcher`, which
calls methods, or the bridge to another process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import anyio
import anyio.lowlevel
import msgspec
from msgspec import UNSET, Raw, UnsetType

from config.runtime.decoding import prepared
from config.runtime.logs import Log, bind
from config.runtime.tasks import Wakeup
from gateway.rpc.registry import Method, MethodRegistry, RequestContext, Session, decode_params
from gateway.rpc.transport import ByteReader, ByteWriter, Outbox
from gateway.rpc.wire import (
    SMALL_LINE_BYTES,
    Batch,
    Call,
    ClientReply,
    DeadlineExceededError,
    InvalidParamsError,
    InvalidRequestError,
    LineRoom,
    LineSplitter,
    Malformed,
    Message,
    OverloadedError,
    RequestCancelledError,
    RequestId,
    RpcError,
    ShuttingDownError,
    decode_line,
    encode_batch,
    encode_error,
    encode_notification,
    encode_result,
    to_wire,
)

_log = Log()


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one client, and of all clients of sockets together."""

    line_bytes: int = 4 * 1024 * 1024
    """The longest line; a longer one is discarded while it streams in."""
    all_lines_bytes: int = 32 * 1024 * 1024
    """The bytes of unfinished lines of all clients of sockets together; the client on the pipe has its own room."""
    batch_members: int = 256
    running: int = 64
    """Requests at work at the same time."""
    waiting: int = 256
    """Requests accepted beyond those; then reading pauses."""
    open_bytes: int = 16 * 1024 * 1024
    """Parameters of all accepted requests together; then reading pauses too."""
    outbox_bytes: int = 1024 * 1024
    """Frames that the client has not read yet; then requests wait to be answered."""
    admission_patience_s: float = 0.3
    """The longest pause of reading until there is room; then requests are refused, so that cancellations are read."""
    grace_s: float = 1.0
    """The time that open requests may still take after the end of input or a shutdown."""
    unwind_s: float = 0.2
    """The time that cancelled requests may take to clean up before they are answered without waiting."""
    flush_s: float = 0.5
    """The time without reading any of the last answers after which the client is given up."""
    stall_s: float = 0.5
    """The time without reading anything after which a client that hung up counts as gone."""

    @property
    def shutdown_s(self) -> float:
        """The most that a shutdown may take, once asked for."""
        return self.grace_s + self.unwind_s + self.flush_s


class LineHandler(Protocol):
    """Handles the lines of one connection."""

    async def accept(self, line: bytes | RpcError) -> None:
        """Starts what a line asks for; an error stands for a line that could not be read."""

    def close(self) -> None:
        """Refuses every request from now on."""

    async def drain(self, cause: RpcError) -> None:
        """Lets open requests finish for a while, then answers the rest with `cause`."""


class SharedLimits:
    """Limits that all clients of sockets share, so that many of them do not slow down the client on the pipe.

    Their unfinished lines take a bounded number of bytes, and the event loop handles one of their long lines
    at a time.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.room = LineRoom(limits.all_lines_bytes)
        self._turn = anyio.Lock()

    async def turn(self, line: bytes | RpcError) -> None:
        """Waits until it is this client's turn to have the line handled."""
        if isinstance(line, bytes) and len(line) > SMALL_LINE_BYTES:
            async with self._turn:
                await anyio.lowlevel.checkpoint()


class ClientConnection:
    """One client for as long as it is connected: its bytes and limits, who it is, and the tasks that work for it."""

    def __init__(
        self,
        reader: ByteReader,
        writer: ByteWriter,
        *,
        shutdown: anyio.Event,
        limits: ConnectionLimits | None = None,
        session: Session | None = None,
        shared: SharedLimits | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_end` is called as soon as the input has ended, while open requests still finish."""
        self.session = session or Session()
        self.limits = limits or ConnectionLimits()
        self.outbox = Outbox(self.limits.outbox_bytes)
        """The queue of answers."""
        self.tasks = anyio.create_task_group()
        """Open as long as `serve` runs."""
        self._reader = reader
        self._writer = writer
        self._shutdown = shutdown
        self._shared = shared or SharedLimits(self.limits)
        self._on_end = on_end
        self._input_ended = anyio.Event()
        self._finishing = anyio.CancelScope()
        self._between_reads = Wakeup()
        self._reading = False

    async def serve(self, make_handler: Callable[[ClientConnection], LineHandler]) -> None:
        """Serves the client until it leaves or `shutdown` is set; closes the writer at the end.

        At the end of input open requests get `grace_s`; the rest is answered `cancelled`, and the answers are
        written for as long as the client goes on reading. At a shutdown new lines are refused, open requests
        get `grace_s`, and the rest is answered `shutting_down`; this takes at most `limits.shutdown_s`.
        It ends at once if the client stops reading after it hung up, or if the connection breaks.

        Cancelling this call ends it at once, without answers. A handler that shields itself from
        cancellation delays the return, not the answers.
        """
        try:
            async with self.tasks:
                self._handler = make_handler(self)
                self.tasks.start_soon(self._write)
                self.tasks.start_soon(self._read)
                self.tasks.start_soon(self._await_shutdown)
                self.tasks.start_soon(self._watch_for_desertion)
                await self._input_ended.wait()
                with self._finishing:
                    await self._finish()
                self.tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._writer.aclose()

    async def _read(self) -> None:
        splitter = LineSplitter(self.limits.line_bytes, self._shared.room)
        try:
            while data := await self._reader.receive():
                self._reading = True
                for line in splitter.feed(data):
                    await self._shared.turn(line)
                    await self._handler.accept(line)
                    await anyio.lowlevel.checkpoint()  # a burst of lines must not starve the others
                self._reading = False
                self._between_reads.fire()
            self._on_end()
            for line in splitter.finish():
                await self._shared.turn(line)
                await self._handler.accept(line)
        finally:
            splitter.close()
        self._input_ended.set()

    async def _write(self) -> None:
        try:
            await self.outbox.run(self._writer)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            _log.debug("the client closed its end")
            self.tasks.cancel_scope.cancel()

    async def _await_shutdown(self) -> None:
        await self._shutdown.wait()
        self._handler.close()
        self._finishing.deadline = anyio.current_time() + self.limits.shutdown_s
        self._input_ended.set()

    async def _finish(self) -> None:
        with anyio.move_on_after(self.limits.grace_s):
            while self._reading:  # lines that were read together with a `shutdown` get an answer
                await self._between_reads.wait()
        await self._handler.drain(
            ShuttingDownError()
            if self._shutdown.is_set()
            else RequestCancelledError("The client closed its input before this was done.")
        )
        await self.outbox.flush(self.limits.flush_s)

    async def _watch_for_desertion(self) -> None:
        """Notices a client that hung up and reads nothing while unsent answers keep us from reading its input.

        Otherwise the end of input, which comes after unread lines, would never be seen.
        """
        while True:
            await self.outbox.congestion()
            written = self.outbox.written
            await anyio.sleep(self.limits.stall_s)
            if self.outbox.written == written and self.outbox.congested and self._reader.hung_up():
                _log.debug("the client hung up and reads nothing")
                self.tasks.cancel_scope.cancel()


class Dispatcher:
    """Calls the methods that the lines of one connection name; give it to `ClientConnection.serve`."""

    def __init__(self, registry: MethodRegistry, connection: ClientConnection) -> None:
        self._registry = registry
        self._outbox = connection.outbox
        self._session = connection.session
        self._limits = connection.limits
        self._tasks = connection.tasks
        self._inflight = Inflight(connection.limits)
        self._slots = anyio.Semaphore(connection.limits.running, fast_acquire=True)

    async def accept(self, line: bytes | RpcError) -> None:
        """Starts what a line asks for; an error stands for a line that could not be read.

        Returns as soon as the work is started. Waits while there is no room for it.
        """
        if isinstance(line, RpcError):
            await self._accept(Malformed(None, line), alone)
            return
        message = decode_line(line, batch_members=self._limits.batch_members)
        if not isinstance(message, Batch):
            await self._accept(message, alone)
            return
        reply = BatchReply()
        slots = [reply.slot() if _is_answered(member) else alone for member in message.members]
        for member, slot in zip(message.members, slots, strict=True):
            await self._accept(member, slot)

    def close(self) -> None:
        """Refuses every request from now on."""
        self._inflight.close()

    async def drain(self, cause: RpcError) -> None:
        """Lets open requests finish, then cancels them, then answers for those that do not stop."""
        await self._inflight.all_answered(self._limits.grace_s)
        for request in self._inflight.unanswered():
            request.cancel(cause)
        await self._inflight.all_answered(self._limits.unwind_s)
        for request in self._inflight.unanswered():
            self._inflight.claim(request)
            if request.call.id is not None:
                answer = None if request.silent else encode_error(request.call.id, to_wire(cause))
                frame = request.reply(answer)
                if frame is not None:
                    self._outbox.put_now(frame)

    async def _accept(self, message: Message, reply: ReplySlot) -> None:
        match message:
            case ClientReply():
                _log.debug("a reply to no request of ours was ignored")
            case Malformed():
                await self._send(reply, encode_error(message.id, to_wire(message.error)))
            case Call():
                try:
                    if message.method in CANCEL_METHODS:
                        await self._cancel(message, reply)
                    else:
                        await self._start(message, reply)
                except (RpcError, OSError, ImportError) as error:  # a method may have to be loaded
                    wire = to_wire(error)
                    if message.id is None:
                        _log.debug("a notification was refused", kind=wire.data["kind"])
                    else:
                        await self._send(reply, encode_error(message.id, wire))

    async def _start(self, call: Call, reply: ReplySlot) -> None:
        method = self._registry.find(call.method)
        if call.id is None and not method.accepts_notification:
            _log.debug("a notification of a request method was ignored", method=method.name)
            return
        await self._inflight.make_room(call.size_bytes)
        request = OpenRequest(call, reply, silent_when_cancelled=method.silent_when_cancelled)
        if method.timeout_s is not None:
            request.scope.deadline = anyio.current_time() + method.timeout_s
        self._inflight.add(request)
        self._tasks.start_soon(self._serve, method, request, name=method.name)

    async def _serve(self, method: Method[Any], request: OpenRequest) -> None:
        bind(
            connection=self._session.connection,
            request=str(request.call.id or "notification"),
            method=method.name,
        )
        started = time.perf_counter()
        request_id = request.call.id
        try:
            try:
                result = await self._result(method, request)
                with _timed(request, "encode"):
                    frame = encode_result(request_id, result) if request_id else None
                outcome = "ok"
            except Exception as error:  # noqa: BLE001 - one request's failure is its own answer
                wire = to_wire(error)
                frame = encode_error(request_id, wire) if request_id else None
                outcome = str(wire.data["kind"])
            if self._inflight.claim(request):
                seconds = time.perf_counter() - started
                duration_ms = round(seconds * 1000, 1)
                write = _log.debug if outcome == "ok" else _log.info
                write("request", outcome=outcome, duration_ms=duration_ms, stages_ms=request.stages)
                self._registry.observe(method.name, outcome, seconds)
                if request_id is not None:
                    await self._send(request.reply, None if request.silent else frame)
        finally:
            if request.running:
                self._slots.release()
            self._inflight.remove(request)

    async def _result(self, method: Method[Any], request: OpenRequest) -> object:
        """Returns what the handler returns. Raises what it raises, or the reason why the request was ended early."""
        with request.scope:
            with _timed(request, "wait"):
                await self._slots.acquire()
            request.running = True
            with _timed(request, "decode"):
                params = decode_params(method.name, method.params, request.call.params)
            context = RequestContext(
                session=self._session,
                request_id=request.call.id.value if request.call.id else None,
                notify=partial(self._notify, request),
                stages=request.stages,
            )
            with _timed(request, "work"):
                try:
                    return await method.handler(params, context)
                except anyio.get_cancelled_exc_class() as error:
                    if anyio.current_effective_deadline() == -math.inf:
                        raise
                    # The handler awaited a future that somebody else cancelled: without this, no answer would be sent.
                    raise RuntimeError("The handler was cancelled, but not by us") from error
        raise request.cause or DeadlineExceededError(
            f"{method.name} was not done within {method.timeout_s:g} s."
        )

    def _notify(self, request: OpenRequest, method: str, params: object) -> None:
        if not (request.answered or request.silent):
            self._outbox.notify((request, method), encode_notification(method, params))

    async def _cancel(self, call: Call, reply: ReplySlot) -> None:
        request = self._inflight.find(cancelled_id(call.params).key)
        if request is not None:
            request.silent |= request.silent_when_cancelled and call.method == MCP_CANCEL_METHOD
            request.cancel(RequestCancelledError("The client cancelled the request."))
        if call.id is not None:
            await self._send(reply, encode_result(call.id, {"cancelled": request is not None}))

    async def _send(self, reply: ReplySlot, frame: bytes | None) -> None:
        complete = reply(frame)
        if complete is not None:
            await self._outbox.put(complete)


def _is_answered(message: Message) -> bool:
    return isinstance(message, Malformed) or (isinstance(message, Call) and message.id is not None)


ReplySlot = Callable[[bytes | None], bytes | None]
MCP_CANCEL_METHOD = "notifications/cancelled"
CANCEL_METHODS = frozenset({"$/cancelRequest", MCP_CANCEL_METHOD})


def alone(frame: bytes | None) -> bytes | None:
    """Returns the answer as it is: that of a message outside a batch waits for no other."""
    return frame


class BatchReply:
    """Collects the answers of one batch, in the order of its members."""

    def __init__(self) -> None:
        self._frames: list[bytes | None] = []
        self._missing = 0

    def slot(self) -> ReplySlot:
        """Reserves the place of one member that must be answered. Reserve all before filling any."""
        self._frames.append(None)
        self._missing += 1
        return partial(self._fill, len(self._frames) - 1)

    def _fill(self, index: int, frame: bytes | None) -> bytes | None:
        self._frames[index] = frame
        self._missing -= 1
        if self._missing:
            return None
        frames = [frame for frame in self._frames if frame is not None]
        return encode_batch(frames) if frames else None


class OpenRequest(msgspec.Struct, eq=False):
    """One accepted call: waiting, then `running`, then `answered`; `cause` is why it was cancelled.

    Once it is `silent`, the client wants no answer either.
    """

    call: Call
    reply: ReplySlot
    scope: anyio.CancelScope = msgspec.field(default_factory=anyio.CancelScope)
    cause: RpcError | None = None
    running: bool = False
    answered: bool = False
    silent: bool = False
    stages: dict[str, float] = msgspec.field(default_factory=dict)
    """The duration of each part, in milliseconds, for the log."""
    silent_when_cancelled: bool = False

    def cancel(self, cause: RpcError) -> None:
        if self.cause is None:
            self.cause = cause
        self.scope.cancel()


class Inflight:
    """The open requests of one connection: room for more, and which of them are not answered yet."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._open: set[OpenRequest] = set()
        self._by_key: dict[str | bytes, OpenRequest] = {}
        self._open_bytes = 0
        self._changed = Wakeup()
        self._stuck = False
        self._closed = False

    def close(self) -> None:
        """Accepts nothing more."""
        self._closed = True
        self._changed.fire()

    async def make_room(self, size_bytes: int) -> None:
        """Waits for room, but not for ever: while reading pauses, cancellations are not read either.

        Raises:
            OverloadedError: no request finished in time.
            ShuttingDownError: no more requests are accepted.
        """
        with anyio.move_on_after(0 if self._stuck else self._limits.admission_patience_s):
            while not (self._closed or self._has_room(size_bytes)):
                self._stuck = True
                await self._changed.wait()
            self._stuck = False
        if self._closed:
            raise ShuttingDownError
        if self._stuck:
            raise OverloadedError(
                f"{len(self._open)} requests are open and none of them finishes.",
                remedy="Wait for answers, or cancel requests, before sending more.",
            )

    def add(self, request: OpenRequest) -> None:
        """Accepts a request.

        Raises:
            InvalidRequestError: its id belongs to another request that is still open.
        """
        if request.call.id is not None:
            if request.call.id.key in self._by_key:
                raise InvalidRequestError(
                    f"A request with the id {request.call.id} is still open.",
                    remedy="Give every request an id of its own.",
                )
            self._by_key[request.call.id.key] = request
        self._open.add(request)
        self._open_bytes += request.call.size_bytes

    def remove(self, request: OpenRequest) -> None:
        """Forgets a request that is done."""
        self._open.discard(request)
        self._open_bytes -= request.call.size_bytes
        self._changed.fire()

    def claim(self, request: OpenRequest) -> bool:
        """Takes the right to answer. True once for each request; its id is free from then on."""
        if request.answered:
            return False
        request.answered = True
        if request.call.id is not None:
            del self._by_key[request.call.id.key]
        self._changed.fire()
        return True

    def find(self, key: str | bytes) -> OpenRequest | None:
        return self._by_key.get(key)

    def unanswered(self) -> list[OpenRequest]:
        return [request for request in self._open if not request.answered]

    async def all_answered(self, timeout_s: float) -> None:
        """Waits until every open request is claimed, at most for `timeout_s`."""
        with anyio.move_on_after(timeout_s):
            while self.unanswered():
                await self._changed.wait()

    def _has_room(self, size_bytes: int) -> bool:
        if not self._open:
            return True
        limits = self._limits
        return (
            len(self._open) < limits.running + limits.waiting
            and self._open_bytes + size_bytes <= limits.open_bytes
        )


@contextmanager
def _timed(request: OpenRequest, stage: str) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        request.stages[stage] = round((time.perf_counter() - started) * 1000, 2)


class _CancelParams(msgspec.Struct, rename="camel"):
    id: Raw | UnsetType = UNSET
    request_id: Raw | UnsetType = UNSET


def cancelled_id(params: bytes | None) -> RequestId:
    """Returns the id of the request to cancel.

    Raises:
        InvalidParamsError: there is none, or it cannot be an id.
    """
    try:
        named = msgspec.json.decode(params or b"{}", type=prepared(_CancelParams))
        raw = named.id if named.request_id is UNSET else named.request_id
        if raw is not UNSET:
            return RequestId.parse(raw)
    except (msgspec.DecodeError, InvalidRequestError, RecursionError) as error:
        raise InvalidParamsError("A cancellation names no valid request id.") from error
    raise InvalidParamsError("A cancellation needs the `id` of a request.")
