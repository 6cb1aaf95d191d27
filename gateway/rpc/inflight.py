"""The requests of one connection that are accepted and not yet done.

Owns their table: whether there is room for one more, which ids are taken, who is cancelled and why, and
the claim that lets exactly one party answer each. How a request is run is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from config.runtime.tasks import Wakeup
from gateway.rpc.errors import InvalidRequestError, OverloadedError, RpcError, ShuttingDownError
from gateway.rpc.limits import ConnectionLimits
from gateway.rpc.messages import Call
from gateway.rpc.replies import ReplySlot


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
