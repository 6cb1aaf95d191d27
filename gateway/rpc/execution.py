"""Runs one accepted request to its outcome: a frame, whatever its handler does.

Owns the bound on how many run at the same time, decoding of parameters, cancellation and deadlines, and the
channel for notifications. Whether the frame is sent is decided by the dispatcher.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import msgspec

from gateway.rpc.context import RequestContext, Session
from gateway.rpc.encoding import encode_error, encode_notification, encode_result
from gateway.rpc.errors import DeadlineExceededError, to_wire
from gateway.rpc.inflight import OpenRequest
from gateway.rpc.methods import Method
from gateway.rpc.outbox import Outbox
from gateway.rpc.params import decode_params


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
