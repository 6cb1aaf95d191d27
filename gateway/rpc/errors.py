"""The one place where exceptions become errors on the wire, and the errors of the protocol itself.

Owns the table of codes. JSON-RPC's own codes serve its own cases; -32022 is MCP's for a version that is
not spoken; -32800 is what the Language Server Protocol answers to `$/cancelRequest`, so its client
libraries know it; all others are positive, clear of what JSON-RPC and MCP reserve (-32768 to -32000). Clients branch on `data.kind`, not on
codes or English. What is not a `MemoryGatewayError` tells the wire nothing but a reference to the log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec
import structlog

from config.errors import ErrorKind, MemoryGatewayError
from config.runtime.tasks import lacks_threads

_log = structlog.get_logger(__name__)

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
    ErrorKind.PROVIDER_AUTH: 1401,
    ErrorKind.PROVIDER_QUOTA: 1402,
    ErrorKind.PROVIDER_RATE_LIMITED: 1403,
    ErrorKind.PROVIDER_TRANSIENT: 1404,
    ErrorKind.PROVIDER_INPUT_TOO_LARGE: 1405,
    ErrorKind.PROVIDER_BAD_RESPONSE: 1406,
    ErrorKind.PROVIDER_UNAVAILABLE: 1407,
    ErrorKind.QMD_UNAVAILABLE: 1501,
}


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
    """The JSON is no JSON-RPC 2.0 request."""

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
    """The client took the request back, by a cancellation or by closing its end."""

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
    """Too much is open and none of it finishes, or the machine has nothing left to do it with."""

    kind = ErrorKind.OVERLOADED


class WireError(msgspec.Struct, frozen=True):
    """The `error` member of a reply."""

    code: int
    message: str
    data: Mapping[str, object]


def to_wire(error: BaseException) -> WireError:
    """Describe any exception to the client: one raised on purpose in full, any other by reference."""
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
