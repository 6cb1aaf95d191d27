"""Turns each line into work, and each outcome into exactly one answer.

Owns the life of a request: refused or accepted, started in the order of its line, run beside the others,
answered once. Running it belongs to `execution`; bytes and the phases of a connection to `connection`.
"""

from __future__ import annotations

import time
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup
from structlog.contextvars import bind_contextvars

from gateway.rpc.cancellation import CANCEL_METHODS, MCP_CANCEL_METHOD, cancelled_id
from gateway.rpc.context import Session
from gateway.rpc.encoding import encode_error, encode_result
from gateway.rpc.errors import RequestCancelledError, RpcError, to_wire
from gateway.rpc.execution import Execution
from gateway.rpc.inflight import Inflight, OpenRequest
from gateway.rpc.limits import ConnectionLimits
from gateway.rpc.messages import Batch, Call, ClientReply, Malformed, Message, decode_line
from gateway.rpc.methods import Method, MethodRegistry
from gateway.rpc.outbox import Outbox
from gateway.rpc.replies import BatchReply, ReplySlot, alone

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
