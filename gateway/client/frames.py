"""What travels between a client and the gateway, and the errors that come of it. Pure.

Owns the encoding of requests, the decoding of replies and notifications, and the exception that an
error reply becomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from config.errors import ErrorKind, MemoryGatewayError

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
