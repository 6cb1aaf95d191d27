"""JSON-RPC 2.0 by lines: cutting the stream, reading messages, writing answers, errors on the wire. Pure.

This is the one place where exceptions become wire errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from config.errors import ErrorKind, MemoryGatewayError
from config.runtime.logs import Log
from config.runtime.tasks import lacks_threads

_log = Log()
_ESCAPE = rb"(?s)\\(?:u(?i:d[89ab][\da-f]{2})\\u(?i:d[c-f][\da-f]{2})|(?P<lone>u(?i:d[89a-f][\da-f]{2}))|.)"
"""A pair of surrogates, a lone one, or any other escape. Its backslash is outside of the alternatives: so a long line
without one costs little.
"""
MOST_ESCAPES = 20_000
"""The most escapes in one line that is repaired; the event loop waits while it is."""
CODES: Mapping[ErrorKind, int] = {
    ErrorKind.PARSE_ERROR: -32700,
    ErrorKind.INVALID_REQUEST: -32600,
    ErrorKind.METHOD_NOT_FOUND: -32601,
    ErrorKind.INVALID_PARAMS: -32602,
    ErrorKind.INTERNAL: -32603,
    ErrorKind.UNSUPPORTED_PROTOCOL_VERSION: -32022,
    ErrorKind.CANCELLED: -32800,
    ErrorKind.LINE_TOO_LONG: 1001,
    ErrorKind.DEADLINE_EXCEEDED: 1002,
    ErrorKind.SHUTTING_DOWN: 1003,
    ErrorKind.OVERLOADED: 1004,
    ErrorKind.PATH_NOT_ALLOWED: 1101,
    ErrorKind.FILE_UNREADABLE: 1102,
    ErrorKind.FILE_UNWRITABLE: 1103,
    ErrorKind.CONFIG_INVALID: 1201,
    ErrorKind.CONFIG_NOT_FOUND: 1202,
    ErrorKind.INDEX_UNAVAILABLE: 1301,
    ErrorKind.DENIED: 1302,
    ErrorKind.DISABLED: 1303,
    ErrorKind.PROVIDER_AUTH: 1401,
    ErrorKind.PROVIDER_QUOTA: 1402,
    ErrorKind.PROVIDER_RATE_LIMITED: 1403,
    ErrorKind.PROVIDER_TRANSIENT: 1404,
    ErrorKind.PROVIDER_INPUT_TOO_LARGE: 1405,
    ErrorKind.PROVIDER_BAD_RESPONSE: 1406,
    ErrorKind.PROVIDER_UNAVAILABLE: 1407,
    ErrorKind.QMD_UNAVAILABLE: 1501,
}
_LAST_BYTES = 32
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SMALL_LINE_BYTES = 65_536
"""The bytes of an unfinished line that every client may have, whatever the others do."""
_LINE_BREAKS = (
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
    ("\u0085".encode(), rb"\u0085"),
)


def split_array(text: bytes, limit: int) -> list[bytes]:
    """Returns the members of a well-formed array.

    Raises:
        msgspec.ValidationError: it has more than `limit` members; found at the first one too many.
    """
    members = msgspec.json.decode(text, type=_array_type(limit))
    return [bytes(member) for member in msgspec.structs.astuple(members) if member is not UNSET]


@lru_cache(maxsize=32)
def _array_type(limit: int) -> type[msgspec.Struct]:
    slots = [(f"member_{index}", Raw | UnsetType, UNSET) for index in range(limit)]
    return msgspec.defstruct("_Array", slots, array_like=True, forbid_unknown_fields=True)


def replace_lone_escapes(line: bytes) -> bytes:
    """Rewrites the lone surrogate escapes of a JSON text; pairs stay.

    Linear in its length. A text with more than `MOST_ESCAPES` escapes of any kind stays as it is.
    """
    if line.count(b"\\") > MOST_ESCAPES:
        return line
    return re.sub(_ESCAPE, lambda found: rb"\ufffd" if found["lone"] else found[0], line)


def replace_lone_surrogates(value: object) -> object:
    """Returns plain data (`dict`, `list`, `str`, ...) with every string fit for UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {
            replace_lone_surrogates(key): replace_lone_surrogates(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [replace_lone_surrogates(item) for item in value]
    return value


class RpcError(MemoryGatewayError):
    """Base of the protocol's own errors; `details` joins `kind` and `remedy` in `error.data`."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.details = details or {}


class ParseError(RpcError):
    """The line is not JSON in UTF-8."""

    kind = ErrorKind.PARSE_ERROR


class InvalidRequestError(RpcError):
    """The JSON is not a JSON-RPC 2.0 request."""

    kind = ErrorKind.INVALID_REQUEST


class MethodNotFoundError(RpcError):
    """No method has this name."""

    kind = ErrorKind.METHOD_NOT_FOUND


class InvalidParamsError(RpcError):
    """A parameter is unknown, missing or of the wrong type."""

    kind = ErrorKind.INVALID_PARAMS


class LineTooLongError(RpcError):
    """A line is over the limit and was discarded."""

    kind = ErrorKind.LINE_TOO_LONG

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"The line is longer than {limit_bytes} bytes and was discarded.",
            remedy="Send a shorter line.",
            details={"limitBytes": limit_bytes},
        )


class RequestCancelledError(RpcError):
    """The client withdrew the request, by a cancellation or by closing its end."""

    kind = ErrorKind.CANCELLED


class DeadlineExceededError(RpcError):
    """The request took longer than its method may."""

    kind = ErrorKind.DEADLINE_EXCEEDED


class ShuttingDownError(RpcError):
    """The gateway is about to end."""

    kind = ErrorKind.SHUTTING_DOWN

    def __init__(self) -> None:
        super().__init__("The gateway is shutting down.", remedy="Start it again and retry.")


class OverloadedError(RpcError):
    """Too many requests are open and none finishes, or the machine has no resources left."""

    kind = ErrorKind.OVERLOADED


class WireError(msgspec.Struct, frozen=True):
    """The `error` member of a reply."""

    code: int
    message: str
    data: Mapping[str, object]


def to_wire(error: BaseException) -> WireError:
    """Describes any exception to the client: one raised on purpose in full, any other by reference."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if lacks_threads(error):
        error = OverloadedError(
            "No further thread may be started, so this could not be done.",
            remedy="Ask again; allow more threads: `ulimit -u` in the shell, TasksMax= in a service.",
        )
    if not isinstance(error, MemoryGatewayError):
        return _internal(error)
    data: dict[str, object] = {"kind": error.kind.value}
    if error.remedy:
        data["remedy"] = error.remedy
    if isinstance(error, RpcError):
        data.update(error.details)
    return WireError(CODES[error.kind], error.message, data)


def _internal(error: BaseException) -> WireError:
    reference = os.urandom(4).hex()
    _log.error("internal error", reference=reference, exc_info=error)
    return WireError(
        CODES[ErrorKind.INTERNAL],
        f"Internal error, reference {reference}.",
        {
            "kind": ErrorKind.INTERNAL.value,
            "remedy": f"Look for the reference {reference} in the gateway's log.",
            "reference": reference,
        },
    )


class RequestId(msgspec.Struct, frozen=True):
    """The id of a request: `raw` is its JSON as sent; equal ids have the same `key`."""

    raw: bytes
    key: str | bytes

    @classmethod
    def parse(cls, raw: Raw) -> RequestId:
        """Accepts a string or a number of any size.

        Raises:
            InvalidRequestError: it is null, a boolean, an array or an object.
        """
        text = bytes(raw)
        if text.startswith(b'"'):
            return cls(text, msgspec.json.decode(text, type=str))
        if text[:1] in b"-0123456789":
            return cls(text, text)
        raise InvalidRequestError("The id of a request must be a string or a number.")

    @property
    def value(self) -> Any:
        """The id as the client sent it; a number that is too large to decode is given as text."""
        try:
            return msgspec.json.decode(self.raw)
        except msgspec.DecodeError:
            return str(self)

    def __str__(self) -> str:
        return self.raw[:64].decode(errors="replace")


class Call(msgspec.Struct, frozen=True):
    """A request, or a notification when it has no id. `params` is its JSON, not decoded yet."""

    id: RequestId | None
    method: str
    params: bytes | None

    @property
    def size_bytes(self) -> int:
        return len(self.params or b"") + (len(self.id.raw) if self.id else 0)


class Malformed(msgspec.Struct, frozen=True):
    """Something to be answered with an error; `id` is None where none could be read."""

    id: RequestId | None
    error: RpcError


class ClientReply(msgspec.Struct, frozen=True):
    """A reply to a request of ours. We make none, so it means nothing to us."""


Message = Call | Malformed | ClientReply


class Batch(msgspec.Struct, frozen=True):
    members: tuple[Message, ...]


class _Envelope(msgspec.Struct):
    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_envelope_decoder = msgspec.json.Decoder(_Envelope)
_raw_decoder = msgspec.json.Decoder(Raw)


def decode_line(line: bytes, *, batch_members: int) -> Message | Batch:
    """Reads one line of valid UTF-8; never raises. A batch may have `batch_members` at most."""
    try:
        text = _well_formed(line)
        if text.startswith(b"["):
            return _decode_batch(text, batch_members)
        return _decode_message(text)
    except RecursionError:
        return Malformed(None, ParseError("The JSON is nested too deeply."))
    except RpcError as error:
        return Malformed(None, error)


def _well_formed(line: bytes) -> bytes:
    """Checks the syntax of the whole line, so that later failures can only be about its shape."""
    try:
        return bytes(_raw_decoder.decode(line))
    except msgspec.DecodeError as error:
        repaired = replace_lone_escapes(line) if _may_be_repaired(line, str(error)) else line
        if repaired == line:
            raise ParseError(f"{error}.") from error
    try:
        return bytes(_raw_decoder.decode(repaired))
    except msgspec.DecodeError as error:
        raise ParseError(f"{error}.") from error


def _may_be_repaired(line: bytes, cause: str) -> bool:
    """Returns whether a lone surrogate may be the cause. If one ends the line, the decoder calls the line truncated;
    searching every truncated line for one would cost more than decoding all valid lines.
    """
    return (
        "surrogate" in cause
        or "hex escape" in cause
        or ("truncated" in cause and rb"\u" in line[-_LAST_BYTES:])
    )


def _decode_batch(text: bytes, limit: int) -> Batch:
    try:
        members = split_array(text, limit)
    except msgspec.ValidationError as error:
        raise InvalidRequestError(
            f"A batch may have at most {limit} members.", remedy="Send several smaller batches."
        ) from error
    if not members:
        raise InvalidRequestError("A batch must have at least one member.")
    return Batch(tuple(_decode_message(member) for member in members))


def _decode_message(text: bytes) -> Message:
    try:
        envelope = _envelope_decoder.decode(text)
    except msgspec.ValidationError:
        return Malformed(None, InvalidRequestError("A request must be a JSON object."))
    if envelope.method is UNSET and (envelope.result, envelope.error) != (UNSET, UNSET):
        return ClientReply()
    request_id: RequestId | None = None
    try:
        if envelope.id is not UNSET:
            request_id = RequestId.parse(envelope.id)
        return Call(request_id, _method(envelope), _params(envelope))
    except InvalidRequestError as error:
        return Malformed(request_id, error)


def _method(envelope: _Envelope) -> str:
    if _text(envelope.jsonrpc) != "2.0":
        raise InvalidRequestError('A request must have "jsonrpc": "2.0".')
    method = _text(envelope.method)
    if not method:
        raise InvalidRequestError("A request must have a method, which is a string.")
    return method


def _params(envelope: _Envelope) -> bytes | None:
    if envelope.params is UNSET:
        return None
    params = bytes(envelope.params)
    if params == b"null":
        return None
    if params[:1] not in b"{[":
        raise InvalidRequestError("The params of a request must be an object or an array.")
    return params


def _text(raw: Raw | UnsetType) -> str | None:
    if raw is UNSET or not bytes(raw).startswith(b'"'):
        return None
    return msgspec.json.decode(raw, type=str)


class LineRoom:
    """The bytes that the unfinished lines of several clients may take together, and those that they take."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0


class LineSplitter:
    """Incremental: feed it what arrives, in pieces of any size; it holds at most one line.

    `close` it where the `room` is shared and goes on.
    """

    def __init__(self, limit: int, room: LineRoom | None = None) -> None:
        self._limit = limit
        self._room = room or LineRoom(limit + 1)
        self._line = bytearray()
        self._discarding = False
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes | RpcError]:
        """Takes the next bytes; returns the lines they complete, and errors for bad ones."""
        frames: list[bytes | RpcError] = []
        *ended, rest = data.split(b"\n")
        for piece in ended:
            frames += self._grow(piece)
            frames += self.finish()
        return frames + self._grow(rest)

    def finish(self) -> list[bytes | RpcError]:
        """Ends the line that has begun: at the end of the stream it counts also without a newline."""
        discarded, self._discarding = self._discarding, False
        line = bytes(self._line).removesuffix(b"\r")
        self.close()
        if self._is_first:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._is_first = False
        if discarded or not line or line.isspace():
            return []
        return [self._check(line)]

    def close(self) -> None:
        """Forgets the line that has begun."""
        self._room.used_bytes -= len(self._line)
        self._line.clear()

    def _grow(self, piece: bytes) -> list[bytes | RpcError]:
        if self._discarding:
            return []
        room_for_carriage_return = 1
        size = len(self._line) + len(piece)
        if size > self._limit + room_for_carriage_return:
            return [self._discard(LineTooLongError(self._limit))]
        if size > SMALL_LINE_BYTES and self._room.used_bytes + len(piece) > self._room.limit_bytes:
            return [self._discard(_no_room(self._room))]
        self._line += piece
        self._room.used_bytes += len(piece)
        return []

    def _discard(self, error: RpcError) -> RpcError:
        self.close()
        self._discarding = True
        return error

    def _check(self, line: bytes) -> bytes | RpcError:
        if len(line) > self._limit:
            return LineTooLongError(self._limit)
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return ParseError(f"The line is not valid UTF-8 (byte {error.start}).")
        return line


def _no_room(room: LineRoom) -> RpcError:
    return OverloadedError(
        f"The line was discarded: unfinished lines of all clients hold {room.limit_bytes} bytes.",
        remedy="Send it again, whole and at once.",
    )


_encoder = msgspec.json.Encoder()


def encode_result(request_id: RequestId, result: object) -> bytes:
    """Answers a request with any value msgspec can encode.

    Raises:
        TypeError: `result` contains a value that has no JSON form.
    """
    return _frame(b'{"jsonrpc":"2.0","id":%b,"result":%b}', request_id.raw, _json(result))


def encode_error(request_id: RequestId | None, error: WireError) -> bytes:
    """Answers a request with an error; None when its id could not be read, which JSON-RPC spells null."""
    raw_id = request_id.raw if request_id else b"null"
    return _frame(b'{"jsonrpc":"2.0","id":%b,"error":%b}', raw_id, _json(error))


def encode_notification(method: str, params: object) -> bytes:
    return _frame(b'{"jsonrpc":"2.0","method":%b,"params":%b}', _json(method), _json(params))


def encode_batch(replies: Iterable[bytes]) -> bytes:
    """Joins the frames of one batch into the array that answers it."""
    return b"[" + b",".join(replies) + b"]"


def _json(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(replace_lone_surrogates(msgspec.to_builtins(value)))


def _frame(template: bytes, *parts: bytes) -> bytes:
    frame = template % parts
    for raw, escaped in _LINE_BREAKS:
        frame = frame.replace(raw, escaped)
    return frame
