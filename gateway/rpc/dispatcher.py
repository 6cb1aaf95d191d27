"""Turns each line into work, and each outcome into exactly one answer: in flight, cancelled, batched."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from msgspec import UNSET, Raw, UnsetType
from structlog.contextvars import bind_contextvars

from config.runtime.tasks import Wakeup
from gateway.rpc.methods import Method, MethodRegistry, RequestContext, Session, decode_params
from gateway.rpc.transport import Outbox
from gateway.rpc.wire import (
    Batch,
    Call,
    ClientReply,
    ConnectionLimits,
    DeadlineExceededError,
    InvalidParamsError,
    InvalidRequestError,
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

ReplySlot = Callable[[bytes | None], bytes | None]


def alone(frame: bytes | None) -> bytes | None:
    """Answer a message that is not part of a batch."""
    return frame


class BatchReply:
    """Collects the answers of one batch, in the order of its members."""

    def __init__(self) -> None:
        self._frames: list[bytes | None] = []
        self._missing = 0

    def slot(self) -> ReplySlot:
        """Reserve the place of one member that must be answered. Reserve all before filling any."""
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


@dataclass(slots=True, eq=False)
class OpenRequest:
    """One accepted call: waiting, then `running`, then `answered`; `cause` is why it was cancelled.

    Once it is `silent` the client wants nothing more of it, no answer either.
    """

    call: Call
    reply: ReplySlot
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    cause: RpcError | None = None
    running: bool = False
    answered: bool = False
    silent: bool = False
    stages: dict[str, float] = field(default_factory=dict)
    """Milliseconds that its parts took, for the log."""
    silent_when_cancelled: bool = False

    def cancel(self, cause: RpcError) -> None:
        if self.cause is None:
            self.cause = cause
        self.scope.cancel()


class Inflight:
    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._open: set[OpenRequest] = set()
        self._by_key: dict[str | bytes, OpenRequest] = {}
        self._open_bytes = 0
        self._changed = Wakeup()
        self._stuck = False
        self._closed = False

    def close(self) -> None:
        """Accept nothing more."""
        self._closed = True
        self._changed.fire()

    async def make_room(self, size_bytes: int) -> None:
        """Wait for room, but not for ever: who stops reading also stops hearing cancellations.

        Raises:
            OverloadedError: nothing finished in time, and nothing has since.
            ShuttingDownError: nothing more is accepted.
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
        """Accept a request.

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
        """Forget a request that is done."""
        self._open.discard(request)
        self._open_bytes -= request.call.size_bytes
        self._changed.fire()

    def claim(self, request: OpenRequest) -> bool:
        """Take the right to answer. True once for each request; its id is free from then on."""
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
        """Wait until every open request is claimed, at most for `timeout_s`."""
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


class Outcome(msgspec.Struct, frozen=True):
    """`frame` is None for a notification; `kind` is "ok" or the kind of the error."""

    frame: bytes | None
    kind: str


class Execution:
    def __init__(self, session: Session, outbox: Outbox, running: int) -> None:
        self._session = session
        self._outbox = outbox
        self._slots = anyio.Semaphore(running, fast_acquire=True)

    async def run(self, method: Method[Any], request: OpenRequest) -> Outcome:
        """Run the handler; every exception becomes an outcome."""
        request_id = request.call.id
        try:
            result = await self._result(method, request)
            with _timed(request, "encode"):
                frame = encode_result(request_id, result) if request_id else None
            return Outcome(frame, "ok")
        except Exception as error:  # noqa: BLE001 - one request's failure is its own answer
            wire = to_wire(error)
            frame = encode_error(request_id, wire) if request_id else None
            return Outcome(frame, str(wire.data["kind"]))

    def release(self, request: OpenRequest) -> None:
        """Let the next request run; called once the outcome has been handed over."""
        if request.running:
            self._slots.release()

    async def _result(self, method: Method[Any], request: OpenRequest) -> object:
        with request.scope:
            with _timed(request, "wait"):
                await self._slots.acquire()
            request.running = True
            with _timed(request, "decode"):
                params = decode_params(method.name, method.params, request.call.params)
            with _timed(request, "work"):
                return await _call(method, params, self._context(request))
        raise request.cause or DeadlineExceededError(
            f"{method.name} was not done within {method.timeout_s:g} s."
        )

    def _context(self, request: OpenRequest) -> RequestContext:
        request_id = request.call.id
        return RequestContext(
            session=self._session,
            request_id=str(request_id) if request_id else None,
            notify=partial(self._notify, request),
            stages=request.stages,
        )

    def _notify(self, request: OpenRequest, method: str, params: object) -> None:
        if not (request.answered or request.silent):
            self._outbox.notify((request, method), encode_notification(method, params))


@contextmanager
def _timed(request: OpenRequest, stage: str) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        request.stages[stage] = round((time.perf_counter() - started) * 1000, 2)


async def _call(method: Method[Any], params: msgspec.Struct, context: RequestContext) -> object:
    try:
        return await method.handler(params, context)
    except anyio.get_cancelled_exc_class() as error:
        if anyio.current_effective_deadline() == -math.inf:
            raise
        # Awaiting a future that somebody else cancelled: without this the request had no answer.
        raise RuntimeError("The handler was cancelled, but not by us") from error


MCP_CANCEL_METHOD = "notifications/cancelled"
CANCEL_METHODS = frozenset({"$/cancelRequest", MCP_CANCEL_METHOD})


class _CancelParams(msgspec.Struct, rename="camel"):
    id: Raw | UnsetType = UNSET
    request_id: Raw | UnsetType = UNSET


def cancelled_id(params: bytes | None) -> RequestId:
    """Return the id of the request to cancel.

    Raises:
        InvalidParamsError: there is none, or it cannot be an id.
    """
    try:
        named = msgspec.json.decode(params or b"{}", type=_CancelParams)
        raw = named.id if named.request_id is UNSET else named.request_id
        if raw is not UNSET:
            return RequestId.parse(raw)
    except (msgspec.ValidationError, InvalidRequestError, RecursionError) as error:
        raise InvalidParamsError("A cancellation names no valid request id.") from error
    raise InvalidParamsError("A cancellation needs the `id` of a request.")


_log = structlog.get_logger(__name__)


class Dispatcher:
    """Serves the lines of one connection; request tasks live in `tasks`."""

    def __init__(
        self,
        registry: MethodRegistry,
        outbox: Outbox,
        session: Session,
        limits: ConnectionLimits,
        tasks: TaskGroup,
    ) -> None:
        self._registry = registry
        self._outbox = outbox
        self._session = session
        self._limits = limits
        self._tasks = tasks
        self._inflight = Inflight(limits)
        self._execution = Execution(session, outbox, limits.running)

    async def accept(self, line: bytes | RpcError) -> None:
        """Start what a line asks for; an error stands for a line that could not be read.

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
        """Refuse what comes from now on."""
        self._inflight.close()

    async def drain(self, cause: RpcError) -> None:
        """Let open requests finish, then cancel them, then answer for those that do not stop."""
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
                await self._accept_call(message, reply)

    async def _accept_call(self, call: Call, reply: ReplySlot) -> None:
        try:
            if call.method in CANCEL_METHODS:
                await self._cancel(call, reply)
            else:
                await self._start(call, reply)
        except RpcError as error:
            if call.id is None:
                _log.debug("a notification was refused", kind=error.kind.value)
            else:
                await self._send(reply, encode_error(call.id, to_wire(error)))

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
        bind_contextvars(
            connection=self._session.connection,
            request=str(request.call.id or "notification"),
            method=method.name,
        )
        started = time.perf_counter()
        try:
            outcome = await self._execution.run(method, request)
            if self._inflight.claim(request):
                self._tell(method, request, outcome.kind, time.perf_counter() - started)
                if request.call.id is not None:
                    await self._send(request.reply, None if request.silent else outcome.frame)
        finally:
            self._execution.release(request)
            self._inflight.remove(request)

    def _tell(
        self, method: Method[Any], request: OpenRequest, outcome: str, seconds: float
    ) -> None:
        duration_ms = round(seconds * 1000, 1)
        _log.info("request", outcome=outcome, duration_ms=duration_ms, stages_ms=request.stages)
        self._registry.observe(method.name, outcome, seconds)

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
    match message:
        case Call():
            return message.id is not None
        case Malformed():
            return True
        case ClientReply():
            return False
