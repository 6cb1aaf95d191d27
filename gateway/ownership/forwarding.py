"""What a bridge remembers of the lines it forwards, so that nothing is lost when an owner dies. Pure.

Owns the table of forwarded lines without an answer, and the handshake that a next owner has to hear
first. Lines are kept as they came: whoever answers them in the end gets the client's own words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from config.errors import ErrorKind
from gateway.rpc.cancellation import cancelled_id
from gateway.rpc.errors import InvalidParamsError, InvalidRequestError
from gateway.rpc.messages import Batch, Call, Message, RequestId
from gateway.sessions.terms import GREETING, Terms

_HANDSHAKE_ID: Final = b'"memory-gateway/bridge/handshake"'
_GREETING_ID: Final = b'"memory-gateway/bridge/greeting"'
_PING_ID: Final = b'"memory-gateway/bridge/ping"'
_OWN_IDS: Final = frozenset({_HANDSHAKE_ID, _GREETING_ID, _PING_ID})
PING: Final = b'{"jsonrpc":"2.0","id":%b,"method":"$/cancelRequest","params":{"id":%b}}' % (
    _PING_ID,
    _PING_ID,
)
"""Cancels nothing. Every release answers that at once, however many requests are at work."""
_ENDING: Final = "shutdown"
_HANDSHAKE: Final = "initialize"
_HANDSHAKE_DONE: Final = "notifications/initialized"
_UNREPEATABLE: Final = frozenset({"memory_append"})
"""Done twice they would do harm; every other method may be called again."""
_FORGET: Final = "notifications/cancelled"
"""MCP's cancellation: no answer is expected any more. The other kind is still answered."""


class Forwarded(msgspec.Struct, frozen=True, eq=False):
    """One line on its way. `ids` are those of its requests; none: it has no answer."""

    line: bytes
    ids: tuple[RequestId, ...]
    is_batch: bool
    methods: frozenset[str]

    @property
    def ends_process(self) -> bool:
        """Whether the client asks the gateway, as which it knows the bridge, to end."""
        return _ENDING in self.methods

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be put to a next owner although the first may have done it."""
        return not self.methods & _UNREPEATABLE


class Reply(msgspec.Struct, frozen=True):
    """What matters of one line of an owner. Without ids it is a notification."""

    keys: tuple[str | bytes, ...]
    is_ours: bool
    """It answers what the bridge itself said, of which its client knows nothing."""
    is_greeting: bool
    is_unknown: bool
    """The owner has no such method: its release is older."""
    is_refusal: bool
    """The owner is about to end and did not do it."""


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
        calls = [one for one in _members(message) if isinstance(one, Call)]
        ids = tuple(call.id for call in calls if call.id is not None)
        methods = frozenset(name for call in calls for name in _methods_of(call))
        forwarded = Forwarded(line, ids, isinstance(message, Batch), methods)
        if ids:
            self._open[forwarded] = None
        for call in calls:
            self._note(call, line)
        return forwarded

    def find(self, reply: Reply) -> Forwarded | None:
        """The line that this answers. Of two with the same id the later one was refused."""
        for forwarded in reversed(self._open):
            if any(one.key in reply.keys for one in forwarded.ids):
                return forwarded
        return None

    def drop(self, forwarded: Forwarded) -> None:
        """Closes a line: it is answered."""
        self._open.pop(forwarded, None)

    def replay(self) -> Iterator[bytes]:
        """What a new owner has to be told: who the client is, then all that is not answered."""
        pending = self._open
        if not any(_HANDSHAKE in one.methods for one in pending):
            yield from self._handshake.values()
        for forwarded in tuple(pending):
            yield forwarded.line

    def _note(self, call: Call, line: bytes) -> None:
        if call.method == _HANDSHAKE:
            self._handshake = {_HANDSHAKE: _as_handshake(call)}
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
    method: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _ErrorData(msgspec.Struct, frozen=True):
    kind: str = ""


class _Error(msgspec.Struct, frozen=True):
    data: _ErrorData = _ErrorData()


_decoder: msgspec.json.Decoder[_Envelope | list[_Envelope]] = msgspec.json.Decoder(
    _Envelope | list[_Envelope]
)


def read_reply(frame: bytes) -> Reply:
    """Raises msgspec.DecodeError for what no owner sends."""
    read = _decoder.decode(frame)
    envelopes = [one for one in (read if isinstance(read, list) else [read]) if one.id is not UNSET]
    return Reply(
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
    except InvalidRequestError:  # null: the answer to what had no readable id
        return None


def _kind(envelope: _Envelope) -> str | None:
    if not isinstance(envelope.error, Raw):
        return None
    try:
        return msgspec.json.decode(envelope.error, type=_Error).data.kind
    except msgspec.ValidationError:
        return None


def greeting(terms: Terms) -> bytes:
    """What a bridge says first: under which terms its client is to be answered."""
    params = msgspec.json.encode(terms)
    return b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (
        _GREETING_ID,
        GREETING.encode(),
        params,
    )


class _Tool(msgspec.Struct):
    name: str = ""


def _methods_of(call: Call) -> Iterator[str]:
    """The method, and what must not be done twice where it is called as a tool."""
    yield call.method
    if call.method == "tools/call" and call.params:
        try:
            name = msgspec.json.decode(call.params, type=_Tool).name
        except msgspec.DecodeError:
            return
        if name in _UNREPEATABLE:
            yield name


def _members(message: Message | Batch) -> tuple[Message, ...]:
    return message.members if isinstance(message, Batch) else (message,)


def _as_handshake(call: Call) -> bytes:
    params = call.params or b"{}"
    return b'{"jsonrpc":"2.0","id":%b,"method":"initialize","params":%b}' % (_HANDSHAKE_ID, params)
