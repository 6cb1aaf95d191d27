"""Carries the lines of one client to the owner of the index, and its answers back.

Owns what the client never notices: that an owner died, or ended, and another one took over. Open
requests are then put to the next owner; when there is none, or one that is silent, they are answered
with an error. The phases of the connection belong to `rpc.connection`, taking over to `standby`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import msgspec
import structlog
from anyio.abc import SocketStream, TaskGroup

from backends.errors import IndexUnavailableError
from config.errors import MemoryGatewayError
from config.runtime.tasks import Wakeup
from gateway.ownership.forwarding import PING, Forwarded, OpenLines, Reply, greeting, read_reply
from gateway.ownership.lock import OWNER
from gateway.rpc.encoding import encode_batch, encode_error
from gateway.rpc.errors import RpcError, ShuttingDownError, to_wire
from gateway.rpc.framing import LineSplitter
from gateway.rpc.limits import ConnectionLimits
from gateway.rpc.messages import ClientReply, Malformed, decode_line
from gateway.rpc.outbox import Outbox
from gateway.rpc.sockets import SocketChannel
from gateway.sessions.terms import Terms

_log = structlog.get_logger(__name__)

PATIENCE_S: Final = 10.0
"""How long open requests wait for an owner, and for one that is silent; opening an index takes far less."""
_LOOKS: Final = 10
"""How often a bridge looks for a sign of life in that time. Looks are counted and not seconds: where the
bridge itself was stopped, the owner may have answered all the while."""
_LONGEST_FRAME_BYTES: Final = 256 * 1024 * 1024
_PAUSE_S: Final = 0.01


class Bridge:
    """The handler of one client's lines; give it to `serve_lines`."""

    def __init__(
        self,
        reach: Callable[[], Awaitable[SocketStream]],
        outbox: Outbox,
        tasks: TaskGroup,
        *,
        limits: ConnectionLimits,
        end: Callable[[], None],
        terms: Terms,
        name_owner: Callable[[], str] = lambda: OWNER,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`reach` waits for an owner, which hears the `terms` first; `end` is called when the client asks
        for the end. `name_owner` begins a sentence about the owner.
        """
        self._reach = reach
        self._outbox = outbox
        self._limits = limits
        self._end = end
        self._terms = terms
        self._name_owner = name_owner
        self._patience_s = patience_s
        self._lines = OpenLines()
        self._channel: SocketChannel | None = None
        self._refusal: MemoryGatewayError | None = None
        """Why lines are answered here instead of being forwarded; None: they are forwarded."""
        self._moved = Wakeup()
        self._sending = anyio.Lock()
        self._listening = False
        """Whether anything that the owner sends is read at once."""
        self._signs = 0
        """How often something came from the owner."""
        self._is_greeted = False
        """Whether the owner has answered the greeting."""
        tasks.start_soon(self._follow)

    async def accept(self, line: bytes | RpcError) -> None:
        if isinstance(line, RpcError):
            await self._outbox.put(encode_error(None, to_wire(line)))
            return
        message = decode_line(line, batch_members=self._limits.batch_members)
        match message:
            case ClientReply():
                _log.debug("a reply to no request of ours was ignored")
            case Malformed():
                await self._outbox.put(encode_error(message.id, to_wire(message.error)))
            case _:
                while self._channel is None and self._refusal is None:
                    await self._moved.wait()
                forwarded = self._lines.add(line, message)
                self._moved.fire()
                await self._forward(forwarded)

    def close(self) -> None:
        self._refusal = ShuttingDownError()
        self._moved.fire()

    async def drain(self, cause: RpcError) -> None:
        with anyio.move_on_after(self._limits.grace_s):
            while len(self._lines):
                await self._moved.wait()
        self._answer_all(cause)

    async def _forward(self, forwarded: Forwarded) -> None:
        channel = self._channel
        if channel is None or isinstance(self._refusal, ShuttingDownError):
            assert self._refusal is not None
            self._answer_all(self._refusal, only=forwarded)
            return
        try:
            async with self._sending:
                await channel.send(forwarded.line + b"\n")
        except anyio.BrokenResourceError:
            _log.debug("the owner is gone; the line waits for the next one")
        if forwarded.ends_process and not forwarded.ids:
            self._end()

    async def _follow(self) -> None:
        """Finds an owner, and the next one whenever it is gone."""
        while True:
            channel = await self._next_owner()
            try:
                async with anyio.create_task_group() as tasks:
                    served = anyio.Event()
                    self._is_greeted = False
                    tasks.start_soon(self._pump, channel, tasks, served)
                    tasks.start_soon(self._attend, channel)
                    await channel.send(greeting(self._terms) + b"\n")
                    await served.wait()
                    for line in self._lines.replay():
                        await channel.send(line + b"\n")
                    self._channel, self._refusal = channel, self._lasting_refusal()
                    self._moved.fire()
            except* (anyio.BrokenResourceError, msgspec.DecodeError) as errors:
                _log.debug("the owner is lost", error=str(errors.exceptions[0]))
            finally:
                self._channel = None
                with anyio.CancelScope(shield=True):
                    await channel.aclose()
            self._give_up_unrepeatable("The gateway ended before it answered.")
            await anyio.sleep(_PAUSE_S)

    async def _next_owner(self) -> SocketChannel:
        while True:
            with anyio.move_on_after(self._patience_s):
                return SocketChannel(await self._reach())
            self._refuse(
                IndexUnavailableError(
                    "The gateway that owns the index cannot be reached.",
                    remedy="Check the logs of this agent's gateways; it will be tried again.",
                )
            )

    def _refuse(self, error: MemoryGatewayError) -> None:
        """Answers what is open, and what comes until an owner is there."""
        self._give_up_unrepeatable(error.message)
        self._refusal = self._lasting_refusal() or error
        self._answer_all(error)
        self._moved.fire()

    async def _attend(self, channel: SocketChannel) -> None:
        """Leaves an owner that keeps something open and gives no sign of life.

        Whatever it still does comes too late: the connection is given up, so that nothing is answered
        twice. A new one is greeted, and carries nothing before the answer to that.
        """
        silent = 0
        while True:
            while self._is_greeted and not len(self._lines):
                await self._moved.wait()
            signs = self._signs
            await anyio.sleep(self._patience_s / _LOOKS)
            silent = silent + 1 if self._listening and self._signs == signs else 0
            if silent >= _LOOKS:
                _log.warning("the owner of the index is silent", seconds=self._patience_s)
                self._refuse(self._silence())
                silent = 0
                if self._is_greeted:
                    channel.hang_up()
                    return
            elif silent and self._channel is channel and not self._sending.locked():
                async with self._sending:
                    await channel.send(PING + b"\n")

    def _silence(self) -> IndexUnavailableError:
        return IndexUnavailableError(
            f"{self._name_owner()} has been silent for {self._patience_s:g} s.",
            remedy="See whether it is stopped, and its log; what is asked once it goes on is answered. "
            "End it, and another one takes over.",
        )

    async def _pump(self, channel: SocketChannel, tasks: TaskGroup, served: anyio.Event) -> None:
        """Answers of one owner, until it is gone."""
        splitter = LineSplitter(_LONGEST_FRAME_BYTES)
        while data := await self._receive(channel):
            for frame in splitter.feed(data):
                if isinstance(frame, RpcError):
                    raise anyio.BrokenResourceError from frame
                reply = read_reply(frame)
                if reply.is_greeting:
                    self._is_greeted = True
                    if self._is_served(reply):
                        served.set()
                await self._take(frame, reply)
        tasks.cancel_scope.cancel()

    async def _receive(self, channel: SocketChannel) -> bytes:
        self._listening = True
        try:
            return await channel.receive()
        finally:
            self._listening = False
            self._signs += 1

    def _is_served(self, reply: Reply) -> bool:
        """Whether the owner heeds our terms, or there are none that it would have to heed."""
        if not reply.is_unknown:
            return True
        _log.warning("the owner is of an older release and answers by its own configuration alone")
        if not self._terms.may_deny:
            return True
        self._refuse(
            IndexUnavailableError(
                f"{self._name_owner()} is of an older release and would not heed the "
                "memory.scope of this gateway.",
                remedy="Start it again in this release.",
            )
        )
        return False

    async def _take(self, frame: bytes, reply: Reply) -> None:
        answered = self._lines.find(reply)
        if reply.is_ours or (reply.is_refusal and self._waits(answered)):
            return
        if answered is not None:
            self._lines.drop(answered)
        await self._outbox.put(frame)
        self._moved.fire()
        if answered is not None and answered.ends_process:
            self._end()

    def _waits(self, refused: Forwarded | None) -> bool:
        """Whether a line that an ending owner refused stays open for the next one."""
        repeatable = refused is None or refused.is_repeatable
        return repeatable and self._lasting_refusal() is None

    def _give_up_unrepeatable(self, cause: str) -> None:
        for forwarded in self._lines:
            if not forwarded.is_repeatable:
                error = IndexUnavailableError(
                    f"{cause} The entry may be written, or not.",
                    remedy="Read the file, and append again if the entry is missing.",
                )
                self._answer_all(error, only=forwarded)

    def _lasting_refusal(self) -> MemoryGatewayError | None:
        """The refusal that no new owner lifts."""
        return self._refusal if isinstance(self._refusal, ShuttingDownError) else None

    def _answer_all(self, error: MemoryGatewayError, only: Forwarded | None = None) -> None:
        for forwarded in self._lines:
            if only is None or forwarded is only:
                frames = [encode_error(one, to_wire(error)) for one in forwarded.ids]
                self._outbox.put_now(encode_batch(frames) if forwarded.is_batch else frames[0])
                self._lines.drop(forwarded)
