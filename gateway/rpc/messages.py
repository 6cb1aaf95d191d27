"""Reads JSON-RPC 2.0 messages out of lines. Pure.

Owns what counts as a request, a notification, a batch or a client's reply, and echoes ids byte for byte.
Where the specification leaves room: an id of null is refused (it cannot be told from "no id known"),
`params: null` counts as absent, members of the envelope that we do not know are ignored, of duplicate
keys the last one counts. Whether a method exists and what its parameters mean is decided later.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.rpc.arrays import split_array
from gateway.rpc.errors import InvalidRequestError, ParseError, RpcError
from gateway.rpc.surrogates import replace_lone_escapes


class RequestId(msgspec.Struct, frozen=True):
    """The id of a request: `raw` is its JSON as sent, `key` tells equal ids apart from others."""

    raw: bytes
    key: str | bytes

    @classmethod
    def parse(cls, raw: Raw) -> RequestId:
        """Accept a string or a number of any size.

        Raises:
            InvalidRequestError: it is null, a boolean, an array or an object.
        """
        text = bytes(raw)
        if text.startswith(b'"'):
            return cls(text, msgspec.json.decode(text, type=str))
        if text[:1] in b"-0123456789":
            return cls(text, text)
        raise InvalidRequestError("The id of a request must be a string or a number.")

    def __str__(self) -> str:
        return self.raw[:64].decode(errors="replace")


class Call(msgspec.Struct, frozen=True):
    """A request, or a notification when it has no id. `params` is its JSON, unread."""

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


_LAST_BYTES = 32
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_raw_decoder = msgspec.json.Decoder(Raw)


def decode_line(line: bytes, *, batch_members: int) -> Message | Batch:
    """Read one line of valid UTF-8; never raises. A batch may have `batch_members` at most."""
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
    """Check the syntax of the whole line, so that later failures can only be about its shape."""
    try:
        return bytes(_raw_decoder.decode(line))
    except msgspec.DecodeError as error:
        if not _may_be_repaired(line, str(error)):
            raise ParseError(f"{error}.") from error
        repaired = replace_lone_escapes(line)
        if repaired == line:
            raise ParseError(f"{error}.") from error
    try:
        return bytes(_raw_decoder.decode(repaired))
    except msgspec.DecodeError as error:
        raise ParseError(f"{error}.") from error


def _may_be_repaired(line: bytes, cause: str) -> bool:
    """Whether a lone surrogate may be to blame. The decoder takes the line for cut off where that is the
    last thing in it; to look for one in every line that is cut off would cost more than all valid ones.
    """
    return "surrogate" in cause or ("truncated" in cause and rb"\u" in line[-_LAST_BYTES:])


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
