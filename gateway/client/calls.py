"""Calls to a gateway over any pair of byte streams: the pipe of a child, or a Unix socket."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import msgspec
import structlog
from anyio.abc import ByteReceiveStream, ByteSendStream, TaskStatus
from msgspec import UNSET, UnsetType

from config.errors import ErrorKind, MemoryGatewayError, ungrouped
from gateway.rpc.wire import DeadlineExceededError, LineSplitter, RpcError

_KNOWN_KINDS: Final = frozenset(ErrorKind)


class RemoteError(MemoryGatewayError):
    """The gateway answered a call with an error.

    `kind` is `internal` when it is one that this version does not know; `data` always holds the
    original.
    """

    def __init__(self, code: int, message: str, data: Mapping[str, Any]) -> None:
        remedy = data.get("remedy")
        super().__init__(message, remedy=remedy if isinstance(remedy, str) else None)
        kind = data.get("kind")
        self.kind = ErrorKind(kind) if kind in _KNOWN_KINDS else ErrorKind.INTERNAL
        self.code = code
        self.data = data


class GatewayGoneError(MemoryGatewayError):
    """The gateway ended, or closed the connection, before it answered."""


class _Error(msgspec.Struct, frozen=True):
    code: int
    message: str
    data: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Frame(msgspec.Struct, frozen=True):
    """One line from the gateway: a reply when it has an id, else a notification."""

    id: int | str | None = None
    method: str | None = None
    params: Any = None
    result: Any = None
    error: _Error | UnsetType = UNSET

    def outcome(self) -> Any:
        """The result of a reply. Raises RemoteError."""
        if isinstance(self.error, _Error):
            raise RemoteError(self.error.code, self.error.message, self.error.data)
        return self.result


_decoder = msgspec.json.Decoder(Frame)


def decode_frame(line: bytes) -> Frame:
    """Raises GatewayGoneError: whatever is at the other end does not speak our protocol."""
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError as error:
        shown = line[:80].decode(errors="replace")
        raise GatewayGoneError(
            f"The gateway sent what is no JSON-RPC: {shown!r} ({error})."
        ) from error


def encode_call(method: str, params: object, call_id: int | None = None) -> bytes:
    """A request, or a notification when it has no id; with its newline."""
    frame: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    if call_id is not None:
        frame["id"] = call_id
    if params is not None:
        frame["params"] = params
    return msgspec.json.encode(frame) + b"\n"


_log = structlog.get_logger(__name__)

NotificationCallback = Callable[[str, Any], None]
"""Takes the method and the parameters of a notification. Called on the event loop; must not wait."""

DEFAULT_TIMEOUT_S: Final = 30.0
_LONGEST_LINE_BYTES: Final = 64 * 1024 * 1024
_WAITING_FRAMES: Final = 64
"""Calls that may wait for the gateway to read; more wait in `call`, within their deadline."""


def _ignore(_method: str, _params: Any) -> None:
    """Stand in where nobody listens to notifications."""


async def _closed() -> str:
    return "The gateway closed the connection."


class _Pending:
    """One open call."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.reply: Frame | None = None


class Client:
    """Any number of tasks may call at the same time. Make it with `connect` or `spawn_gateway`."""

    def __init__(
        self,
        receive: ByteReceiveStream,
        send: ByteSendStream,
        *,
        notified: NotificationCallback = _ignore,
        why_ended: Callable[[], Awaitable[str]] = _closed,
    ) -> None:
        self._receive = receive
        self._send = send
        self._notified = notified
        self._why_ended = why_ended
        self._ids = itertools.count(1)
        self._pending: dict[int | str | None, _Pending] = {}
        self._end: str | None = None
        self._outgoing, self._frames = anyio.create_memory_object_stream[bytes](_WAITING_FRAMES)

    async def call(
        self, method: str, params: object = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Any:
        """The result of one request, as plain data. A call that is cancelled stops its work.

        Raises RemoteError, DeadlineExceededError, GatewayGoneError.
        """
        call_id = next(self._ids)
        pending = self._pending[call_id] = _Pending()
        try:
            with anyio.fail_after(timeout_s):
                await self._put(encode_call(method, params, call_id))
                await pending.done.wait()
        except TimeoutError:
            raise DeadlineExceededError(f"{method} did not answer in {timeout_s:g} s.") from None
        finally:
            del self._pending[call_id]
            if not pending.done.is_set() and self._end is None:
                self._take_back(call_id)
        if pending.reply is None:
            raise self._gone()
        return pending.reply.outcome()

    async def ping(self, *, timeout_s: float) -> None:
        """Returns when the gateway gives a sign of life, which waits for no work of its own.

        Raises DeadlineExceededError, GatewayGoneError.
        """
        await self.call("$/cancelRequest", {"id": 0}, timeout_s=timeout_s)

    async def notify(self, method: str, params: object = None) -> None:
        """Tells the gateway something that has no answer. Raises GatewayGoneError."""
        await self._put(encode_call(method, params))

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Carries the calls until the gateway goes away; `connect` and `spawn_gateway` start it."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write)
                task_status.started()
                self._end_with(await self._read() or await self._why_ended())
                tasks.cancel_scope.cancel()
        finally:
            self._end_with("The connection was closed from this side.")

    async def _put(self, frame: bytes) -> None:
        if self._end is not None:
            raise self._gone()
        try:
            await self._outgoing.send(frame)
        except anyio.BrokenResourceError:
            raise self._gone() from None

    def _take_back(self, call_id: int) -> None:
        try:
            self._outgoing.send_nowait(encode_call("$/cancelRequest", {"id": call_id}))
        except anyio.WouldBlock:
            _log.debug("cancellation not sent", call=call_id)

    async def _write(self) -> None:
        try:
            async for frame in self._frames:
                await self._send.send(frame)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            _log.debug("the gateway reads no more")  # the end of its output tells everybody

    async def _read(self) -> str | None:
        """Reads until the end; returns what was wrong with the gateway's lines, if anything."""
        splitter = LineSplitter(_LONGEST_LINE_BYTES)
        try:
            while True:
                for line in splitter.feed(await self._receive.receive()):
                    self._take(line)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return None
        except GatewayGoneError as error:
            return error.message

    def _take(self, line: bytes | RpcError) -> None:
        if isinstance(line, RpcError):
            raise GatewayGoneError(f"The gateway sent what is no JSON-RPC: {line}")
        frame = decode_frame(line)
        if frame.method is not None:
            self._notified(frame.method, frame.params)
        elif (pending := self._pending.get(frame.id)) is not None:
            pending.reply = frame
            pending.done.set()

    def _end_with(self, reason: str) -> None:
        self._end = self._end or reason
        self._frames.close()
        self._outgoing.close()
        for pending in self._pending.values():
            pending.done.set()

    def _gone(self) -> GatewayGoneError:
        return GatewayGoneError(self._end or "The connection to the gateway is not open.")


@asynccontextmanager
async def connect(
    receive: ByteReceiveStream,
    send: ByteSendStream,
    *,
    notified: NotificationCallback = _ignore,
) -> AsyncIterator[Client]:
    """A client for as long as the body runs; closes both streams."""
    client = Client(receive, send, notified=notified)
    with ungrouped():
        async with receive, send, anyio.create_task_group() as tasks:
            await tasks.start(client.run)
            try:
                yield client
            finally:
                tasks.cancel_scope.cancel()
