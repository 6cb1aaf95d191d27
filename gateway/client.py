"""The client's end of the pipe, as a chat gateway has it: for our own commands, the demo and benchmarks.

Replies are matched to calls over any pair of byte streams: the pipe of a child, or a Unix socket. A gateway can
be started as a child. When that ends, its last output is part of the error; however the caller leaves, the child
is first asked to end, then sent SIGTERM, then killed, each within a time limit.

A command that asks a running gateway one thing uses blocking calls: importing an event loop, and the log that goes
with it, takes longer than the answer.
"""

from __future__ import annotations

import itertools
import math
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from msgspec import UNSET, UnsetType

from config.errors import ErrorKind, MemoryGatewayError
from config.runtime.start import command_of
from config.runtime.tasks import background_tasks
from gateway.rpc.wire import DeadlineExceededError, LineSplitter, RpcError

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, ByteSendStream, Process, TaskStatus

_KNOWN_KINDS: Final = frozenset(ErrorKind)
DEFAULT_TIMEOUT_S: Final = 30.0
_LONGEST_LINE_BYTES: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 65_536
_WAITING_FRAMES: Final = 64
"""Calls that may wait for the gateway to read; more wait in `call`, within their deadline."""
_CLOSED: Final = "The gateway closed the connection."
GATEWAY_COMMAND: Final = (*command_of("gateway"), "serve")
PATIENCE_S: Final = 3.0
"""The gateway promises to end within 2 s of the end of its input, and of SIGTERM."""
LAST_OUTPUT_S: Final = 1.0
_LAST_WORDS_LINES: Final = 20
_LONGEST_WORD: Final = 4096


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


class SilentGatewayError(MemoryGatewayError):
    """The gateway is there, but gives no sign of life."""


class _Error(msgspec.Struct, frozen=True):
    code: int
    message: str
    data: Mapping[str, object] = msgspec.field(default_factory=dict)


class Frame(msgspec.Struct, frozen=True):
    """One line from the gateway: a reply when it has an id, else a notification."""

    id: int | str | None = None
    method: str | None = None
    params: object = None
    result: object = None
    error: _Error | UnsetType = UNSET

    def outcome(self) -> object:
        """The result of a reply. Raises RemoteError."""
        if isinstance(self.error, _Error):
            raise RemoteError(self.error.code, self.error.message, self.error.data)
        return self.result


_decoder = msgspec.json.Decoder(Frame)


def decode_frame(line: bytes | RpcError) -> Frame:
    """Decodes one line. Raises GatewayGoneError where the other end does not speak our protocol."""
    if isinstance(line, RpcError):
        raise GatewayGoneError(f"The gateway sent what is no JSON-RPC: {line}")
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError as error:
        shown = line[:80].decode(errors="replace")
        raise GatewayGoneError(
            f"The gateway sent what is no JSON-RPC: {shown!r} ({error})."
        ) from error


def encode_call(method: str, params: object, call_id: int | None = None) -> bytes:
    """Returns the line of a request, or of a notification when it has no id, with its newline."""
    frame: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    if call_id is not None:
        frame["id"] = call_id
    if params is not None:
        frame["params"] = params
    return msgspec.json.encode(frame) + b"\n"


NotificationCallback = Callable[[str, object], None]
"""Takes the method and the parameters of a notification. Called on the event loop; must not wait."""


async def _closed() -> str:
    return _CLOSED


class BlockingClient:
    """Calls over a connected socket, one after the other, from a thread that does nothing else."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._ids = itertools.count(1)
        self._splitter = LineSplitter(_LONGEST_LINE_BYTES)
        self._frames: deque[Frame] = deque()
        self.notified: NotificationCallback = lambda *_: None
        """Called with every notification that comes during a call; it may be replaced."""

    def call(
        self,
        method: str,
        params: object = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        look_after_s: float = math.inf,
        patience_s: float = math.inf,
    ) -> object:
        """Returns the result of one request, as plain data.

        Every `look_after_s` the gateway is asked for a sign of life, which does not wait for its work. Raises
        SilentGatewayError if none comes within `patience_s`, and RemoteError, DeadlineExceededError,
        GatewayGoneError.
        """
        ends = time.monotonic() + timeout_s
        wanted, look = next(self._ids), 0
        self._send(encode_call(method, params, wanted), timeout_s)
        look_at = time.monotonic() + look_after_s
        while True:
            frame = self._receive(min(ends, look_at))
            if frame is None and time.monotonic() >= ends:
                raise DeadlineExceededError(f"{method} did not answer in {timeout_s:g} s.")
            if frame is None:
                if look:
                    raise SilentGatewayError("The gateway gave no sign of life.")
                look = next(self._ids)
                self._send(encode_call("$/cancelRequest", {"id": 0}, look), timeout_s)
                look_at = time.monotonic() + patience_s
            elif frame.method is not None:
                self.notified(frame.method, frame.params)
            elif frame.id == wanted:
                return frame.outcome()
            elif frame.id == look:
                look, look_at = 0, time.monotonic() + look_after_s

    def _send(self, line: bytes, timeout_s: float) -> None:
        self._connection.settimeout(None if math.isinf(timeout_s) else timeout_s)
        try:
            self._connection.sendall(line)
        except TimeoutError:
            raise DeadlineExceededError(f"The gateway reads nothing for {timeout_s:g} s.") from None
        except OSError:
            raise GatewayGoneError(_CLOSED) from None

    def _receive(self, until: float) -> Frame | None:
        """Returns the next frame; None if none came in time."""
        while not self._frames:
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            self._connection.settimeout(None if math.isinf(left_s) else left_s)
            try:
                received = self._connection.recv(_PIECE_BYTES)
            except TimeoutError:
                return None
            except OSError:
                received = b""
            if not received:
                raise GatewayGoneError(_CLOSED)
            self._frames.extend(map(decode_frame, self._splitter.feed(received)))
        return self._frames.popleft()


class _Pending:
    """One open call."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.reply: Frame | None = None


class GatewayClient:
    """A client of one gateway for any number of tasks. Make it with `connect` or `spawn_gateway`."""

    def __init__(
        self,
        receive: ByteReceiveStream,
        send: ByteSendStream,
        *,
        notified: NotificationCallback = lambda *_: None,
        why_ended: Callable[[], Awaitable[str]] = _closed,
    ) -> None:
        self._receive = receive
        self._send = send
        self.notified = notified
        """Called with every notification that comes; it may be replaced."""
        self._why_ended = why_ended
        self._ids = itertools.count(1)
        self._pending: dict[int | str | None, _Pending] = {}
        self._end: str | None = None
        self._outgoing, self._frames = anyio.create_memory_object_stream[bytes](_WAITING_FRAMES)

    async def call(
        self, method: str, params: object = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Any:
        """Returns the result of one request, as plain data. Cancelling the call stops its work.

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

    async def notify(self, method: str, params: object = None) -> None:
        """Sends a notification, which has no answer. Raises GatewayGoneError."""
        await self._put(encode_call(method, params))

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Carries the calls until the gateway goes away; `connect` and `spawn_gateway` start it."""
        try:
            async with background_tasks() as tasks:
                tasks.start_soon(self._write)
                task_status.started()
                self._end_with(await self._read() or await self._why_ended())
        finally:
            self._end_with("The connection was closed from this side.")

    async def _put(self, frame: bytes) -> None:
        if self._end is not None:
            raise self._gone()
        try:
            await self._outgoing.send(frame)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise self._gone() from None

    def _take_back(self, call_id: int) -> None:
        with suppress(anyio.WouldBlock):  # then nothing is sent, and the gateway works in vain
            self._outgoing.send_nowait(encode_call("$/cancelRequest", {"id": call_id}))

    async def _write(self) -> None:
        # When the gateway no longer reads, the end of its output ends all calls.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for frame in self._frames:
                await self._send.send(frame)

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
        frame = decode_frame(line)
        if frame.method is not None:
            self.notified(frame.method, frame.params)
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
    notified: NotificationCallback = lambda *_: None,
) -> AsyncIterator[GatewayClient]:
    """Yields a client for as long as the body runs; closes both streams."""
    client = GatewayClient(receive, send, notified=notified)
    async with receive, send, background_tasks() as tasks:
        await tasks.start(client.run)
        yield client


class SpawnedGateway(GatewayClient):
    """A client whose gateway is a child of this process."""

    def __init__(self, process: Process, notified: NotificationCallback) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        super().__init__(
            process.stdout, process.stdin, notified=notified, why_ended=self._why_it_ended
        )
        self.process = process
        self.last_words: deque[str] = deque(maxlen=_LAST_WORDS_LINES)
        """The newest lines of its standard error."""
        self._silent = anyio.Event()

    async def listen(self) -> None:
        """Reads the child's standard error, if we have it, so that the child never waits for a reader."""
        from anyio.streams.text import TextReceiveStream  # noqa: PLC0415 - for children only

        rest = ""
        if self.process.stderr is not None:
            async for text in TextReceiveStream(self.process.stderr, errors="replace"):
                *lines, rest = (rest[-_LONGEST_WORD:] + text).split("\n")
                self.last_words.extend(lines)
        self.last_words.extend([rest] if rest else [])
        self._silent.set()

    async def stop(self, patience_s: float = PATIENCE_S) -> None:
        """Ends the child by the end of its input, then SIGTERM, then SIGKILL, each `patience_s` after the last."""
        process = self.process
        assert process.stdin is not None
        with anyio.CancelScope(shield=True):
            await process.stdin.aclose()
            for push in (process.terminate, process.kill):
                with anyio.move_on_after(patience_s):
                    await process.wait()
                    break
                push()
            await process.wait()

    async def _why_it_ended(self) -> str:
        with anyio.move_on_after(LAST_OUTPUT_S):
            code = await self.process.wait()
            await self._silent.wait()
        if self.process.returncode is None:
            return "The gateway closed its output but is still running."
        return "\n".join([f"The gateway ended with exit code {code}.", *self.last_words])


@asynccontextmanager
async def spawn_gateway(
    arguments: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    working_directory: Path | None = None,
    notified: NotificationCallback = lambda *_: None,
    command: Sequence[str] = GATEWAY_COMMAND,
    share_stderr: bool = False,
    patience_s: float = PATIENCE_S,
) -> AsyncIterator[SpawnedGateway]:
    """Runs `memory-gateway serve` with these further arguments until the body is left.

    `environment` is all of the child's environment; None stands for that of this process. With
    `share_stderr` its log goes where ours goes; otherwise only its last lines are kept. `patience_s` is how
    long the child may take to end before a stronger signal follows.
    """
    import subprocess  # noqa: PLC0415 - for children only

    process = await anyio.open_process(
        [*command, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if share_stderr else subprocess.PIPE,
        env=environment,
        cwd=working_directory,
    )
    gateway = SpawnedGateway(process, notified)
    async with process, background_tasks() as tasks:
        try:
            await tasks.start(gateway.run)
            tasks.start_soon(gateway.listen)
            yield gateway
        finally:
            await gateway.stop(patience_s)
