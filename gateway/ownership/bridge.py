"""A bridge: forwards the lines of one client to the owner, and takes the owner's place when it is gone.

What is forwarded is remembered until it is answered, so that nothing is lost when an owner dies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.abc import SocketStream, TaskGroup
from msgspec import UNSET, Raw, UnsetType

from backends.interface import IndexUnavailableError
from config.errors import ErrorKind, MemoryGatewayError
from config.runtime.decoding import prepared
from config.runtime.logs import Log
from config.runtime.tasks import Wakeup, cancelled_after
from gateway.ownership.owner import (
    OWNER,
    OWNER_PATIENCE_S,
    LockDisk,
    OwnerLock,
)
from gateway.ownership.sockets import connect_owner
from gateway.rpc.connection import ClientConnection, cancelled_id
from gateway.rpc.transport import SocketChannel
from gateway.rpc.wire import (
    Batch,
    Call,
    ClientReply,
    InvalidParamsError,
    InvalidRequestError,
    LineSplitter,
    Malformed,
    Message,
    RequestId,
    RpcError,
    ShuttingDownError,
    decode_line,
    encode_batch,
    encode_error,
    to_wire,
)
from gateway.scope import GREETING, Terms

_HANDSHAKE_ID: Final = b'"memory-gateway/bridge/handshake"'
_GREETING_ID: Final = b'"memory-gateway/bridge/greeting"'
_PING_ID: Final = b'"memory-gateway/bridge/ping"'
_OWN_IDS: Final = frozenset({_HANDSHAKE_ID, _GREETING_ID, _PING_ID})
PING: Final = b'{"jsonrpc":"2.0","id":%b,"method":"$/cancelRequest","params":{"id":%b}}' % (
    _PING_ID,
    _PING_ID,
)
"""A cancellation of nothing: every release answers it at once, however many requests are at work."""
_ENDING: Final = "shutdown"
_HANDSHAKE: Final = "initialize"
_HANDSHAKE_DONE: Final = "notifications/initialized"
_UNREPEATABLE: Final = frozenset({"memory_append"})
"""Methods that would do harm if called twice; every other one may be called again."""
_FORGET: Final = "notifications/cancelled"
"""MCP's cancellation: no answer is expected any more. The other kind is still answered."""
_log = Log()
_LOOKS: Final = 10
"""The number of looks for a sign of life before an owner counts as silent. Looks are counted and not seconds: if the
bridge itself was stopped, the owner may have answered all the while."""
_LONGEST_FRAME_BYTES: Final = 256 * 1024 * 1024
_PAUSE_S: Final = 0.01
_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0


class Forwarded(msgspec.Struct, frozen=True, eq=False):
    """One line on its way. `ids` are those of its requests; none: it has no answer."""

    line: bytes
    ids: tuple[RequestId, ...]
    is_batch: bool
    methods: frozenset[str]

    @property
    def ends_process(self) -> bool:
        """True if the client asks the gateway, which for the client is the bridge, to end."""
        return _ENDING in self.methods

    @property
    def is_repeatable(self) -> bool:
        """True if it may be sent to a next owner although the first may have done it."""
        return not self.methods & _UNREPEATABLE


class OwnerReply(msgspec.Struct, frozen=True):
    """The parts of one line of an owner that matter. Without ids it is a notification."""

    keys: tuple[str | bytes, ...]
    is_ours: bool
    """True if it answers a message of the bridge itself, of which the client knows nothing."""
    is_greeting: bool
    is_unknown: bool
    """True if the owner has no such method: its release is older."""
    is_refusal: bool
    """True if the owner is about to end and did not do it."""


class OpenLines:
    """The lines that were forwarded and are not answered, oldest first."""

    def __init__(self) -> None:
        self._open: dict[Forwarded, None] = {}
        self._handshake: dict[str, bytes] = {}

    def __iter__(self) -> Iterator[Forwarded]:
        return iter(tuple(self._open))

    def __len__(self) -> int:
        return len(self._open)

    def add(self, line: bytes, message: Message | Batch) -> Forwarded:
        members = message.members if isinstance(message, Batch) else (message,)
        calls = [one for one in members if isinstance(one, Call)]
        ids = tuple(call.id for call in calls if call.id is not None)
        methods = frozenset(name for call in calls for name in _methods_of(call))
        forwarded = Forwarded(line, ids, isinstance(message, Batch), methods)
        if ids:
            self._open[forwarded] = None
        for call in calls:
            self._note(call, line)
        return forwarded

    def find(self, reply: OwnerReply) -> Forwarded | None:
        """Returns the line that this answers. Of two with the same id the later one was refused."""
        for forwarded in reversed(self._open):
            if any(one.key in reply.keys for one in forwarded.ids):
                return forwarded
        return None

    def drop(self, forwarded: Forwarded) -> None:
        """Closes a line: it is answered."""
        self._open.pop(forwarded, None)

    def replay(self) -> Iterator[bytes]:
        """Yields the lines that a new owner needs: those that say who the client is, then all that are not answered."""
        pending = self._open
        if not any(_HANDSHAKE in one.methods for one in pending):
            yield from self._handshake.values()
        for forwarded in tuple(pending):
            yield forwarded.line

    def _note(self, call: Call, line: bytes) -> None:
        if call.method == _HANDSHAKE:
            again = b'{"jsonrpc":"2.0","id":%b,"method":"initialize","params":%b}'
            self._handshake = {_HANDSHAKE: again % (_HANDSHAKE_ID, call.params or b"{}")}
        elif call.method == _HANDSHAKE_DONE:
            self._handshake[_HANDSHAKE_DONE] = line
        elif call.method == _FORGET:
            self._forget(call)

    def _forget(self, call: Call) -> None:
        try:
            key = cancelled_id(call.params).key
        except InvalidParamsError:
            return
        for forwarded in tuple(self._open):
            if not forwarded.is_batch and forwarded.ids[0].key == key:
                del self._open[forwarded]


class _Envelope(msgspec.Struct):
    id: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _ErrorData(msgspec.Struct, frozen=True):
    kind: str = ""


class _Error(msgspec.Struct, frozen=True):
    data: _ErrorData = _ErrorData()


_decoder: msgspec.json.Decoder[_Envelope | list[_Envelope]] = msgspec.json.Decoder(
    _Envelope | list[_Envelope]
)


def read_reply(frame: bytes) -> OwnerReply:
    """Raises msgspec.DecodeError for what no owner sends."""
    read = _decoder.decode(frame)
    envelopes = [one for one in (read if isinstance(read, list) else [read]) if one.id is not UNSET]
    return OwnerReply(
        keys=tuple(key for one in envelopes if (key := _key(one)) is not None),
        is_ours=any(bytes(one.id) in _OWN_IDS for one in envelopes if isinstance(one.id, Raw)),
        is_greeting=any(one.id == Raw(_GREETING_ID) for one in envelopes),
        is_unknown=any(_kind(one) == ErrorKind.METHOD_NOT_FOUND for one in envelopes),
        is_refusal=any(_kind(one) == ErrorKind.SHUTTING_DOWN for one in envelopes),
    )


def _key(envelope: _Envelope) -> str | bytes | None:
    assert isinstance(envelope.id, Raw)
    try:
        return RequestId.parse(envelope.id).key
    except InvalidRequestError:  # null: the answer to a line without a readable id
        return None


def _kind(envelope: _Envelope) -> str | None:
    if not isinstance(envelope.error, Raw):
        return None
    try:
        return msgspec.json.decode(envelope.error, type=prepared(_Error)).data.kind
    except msgspec.ValidationError:
        return None


def greeting(terms: Terms) -> bytes:
    """Returns the first line of a bridge: the terms under which its client is to be answered."""
    params = msgspec.json.encode(terms)
    return b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (
        _GREETING_ID,
        GREETING.encode(),
        params,
    )


class _Tool(msgspec.Struct):
    name: str = ""


def _methods_of(call: Call) -> Iterator[str]:
    """Yields the method and, if it calls a tool that must not be called twice, the name of the tool."""
    yield call.method
    if call.method == "tools/call" and call.params:
        try:
            name = msgspec.json.decode(call.params, type=prepared(_Tool)).name
        except msgspec.DecodeError:
            return
        if name in _UNREPEATABLE:
            yield name


class Bridge:
    """The handler of one client's lines; give it to `ClientConnection.serve`."""

    def __init__(
        self,
        reach: Callable[[], Awaitable[SocketStream]],
        connection: ClientConnection,
        *,
        end: Callable[[], None],
        terms: Terms,
        name_owner: Callable[[], str] = lambda: OWNER,
        patience_s: float = OWNER_PATIENCE_S,
    ) -> None:
        """`reach` waits for an owner, which is sent the `terms` first; `end` is called when the client asks
        for the end. `name_owner` begins a sentence about the owner.
        """
        self._reach = reach
        self._outbox = connection.outbox
        self._limits = connection.limits
        self._end = end
        self._terms = terms
        self._name_owner = name_owner
        self._patience_s = patience_s
        self._lines = OpenLines()
        self._channel: SocketChannel | None = None
        self._refusal: MemoryGatewayError | None = None
        """The reason why lines are answered here instead of being forwarded; None: they are forwarded."""
        self._moved = Wakeup()
        self._sending = anyio.Lock()
        self._listening = False
        """True while anything that the owner sends is read at once."""
        self._signs = 0
        """The number of times that something came from the owner."""
        self._is_greeted = False
        """True once the owner has answered the greeting."""
        connection.tasks.start_soon(self._follow)

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
            if forwarded.ends_process:
                self._end()
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
            refusal = IndexUnavailableError(
                "The gateway that owns the index cannot be reached.",
                remedy="Check the logs of this agent's gateways; it will be tried again.",
            )
            with anyio.move_on_after(self._patience_s):
                while True:
                    try:
                        return SocketChannel(await self._reach())
                    except IndexUnavailableError as error:  # perhaps about a dead owner
                        refusal = error
                        await anyio.sleep(self._patience_s / _LOOKS)
            self._refuse(refusal)

    def _refuse(self, error: MemoryGatewayError) -> None:
        """Answers the open lines with the error, and those that come until there is an owner."""
        self._give_up_unrepeatable(error.message)
        self._refusal = self._lasting_refusal() or error
        is_end = any(one.ends_process for one in self._lines)
        self._answer_all(error)
        self._moved.fire()
        if is_end:
            self._end()

    async def _attend(self, channel: SocketChannel) -> None:
        """Leaves an owner that keeps requests open and gives no sign of life.

        Whatever it still does comes too late: the connection is closed, so that nothing is answered twice.
        A new connection begins with the greeting, and nothing else is sent before that is answered.
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
        """Passes on the answers of one owner, until it is gone."""
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

    def _is_served(self, reply: OwnerReply) -> bool:
        """Returns whether the owner observes our terms, or there are none that it would have to observe."""
        if not reply.is_unknown:
            return True
        _log.warning("the owner is of an older release and answers by its own configuration alone")
        if not self._terms.may_deny:
            return True
        self._refuse(
            IndexUnavailableError(
                f"{self._name_owner()} is of an older release and would not apply the "
                "scope of this gateway.",
                remedy="Start it again in this release.",
            )
        )
        return False

    async def _take(self, frame: bytes, reply: OwnerReply) -> None:
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
        """Returns whether a line that an ending owner refused stays open for the next one."""
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
        """Returns the refusal that no new owner lifts."""
        return self._refusal if isinstance(self._refusal, ShuttingDownError) else None

    def _answer_all(self, error: MemoryGatewayError, only: Forwarded | None = None) -> None:
        for forwarded in self._lines:
            if only is None or forwarded is only:
                frames = [encode_error(one, to_wire(error)) for one in forwarded.ids]
                self._outbox.put_now(encode_batch(frames) if forwarded.is_batch else frames[0])
                self._lines.drop(forwarded)


Own = Callable[[OwnerLock], Awaitable[None]]
"""Owns the index until the process ends; releases the lock however it returns."""


async def stand_by(lock_path: Path, own: Own, ending: anyio.Event) -> None:
    """Returns once `ending` is set and, if this process became the owner, `own` has returned."""
    disk = LockDisk()
    pause_s = _FIRST_PAUSE_S
    logged = ""
    while not ending.is_set():
        try:
            lock = await disk.acquire(lock_path)
            if lock is not None:
                _log.info("taking over", lock=str(lock_path))
                await own(lock)
                continue
            if await _outlast(lock_path, ending, disk):
                pause_s = _FIRST_PAUSE_S
        except MemoryGatewayError as error:
            if logged != (logged := str(error)):
                _log.warning("cannot take over", error=logged, kind=error.kind)
        with anyio.move_on_after(pause_s):
            await ending.wait()
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _outlast(lock_path: Path, ending: anyio.Event, disk: LockDisk) -> bool:
    """Waits until the owner is gone, or `ending` is set. Returns whether there was an owner to wait for."""
    stream = await connect_owner(lock_path, disk)
    if stream is None:
        return False
    async with stream, cancelled_after(ending.wait):
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await stream.receive()
    return True
