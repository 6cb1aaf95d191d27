"""The cancellation messages of the two protocol families, and whom they mean. Pure.

Owns their names and parameters: the Language Server Protocol's `$/cancelRequest {id}` and MCP's
`notifications/cancelled {requestId, reason?}`; either parameter is understood with either name.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.rpc.errors import InvalidParamsError, InvalidRequestError
from gateway.rpc.messages import RequestId

MCP_CANCEL_METHOD = "notifications/cancelled"
CANCEL_METHODS = frozenset({"$/cancelRequest", MCP_CANCEL_METHOD})


class _CancelParams(msgspec.Struct, rename="camel"):
    id: Raw | UnsetType = UNSET
    request_id: Raw | UnsetType = UNSET


def cancelled_id(params: bytes | None) -> RequestId:
    """Return the id of the request to cancel.

    Raises:
        InvalidParamsError: there is none, or it cannot be an id.
    """
    try:
        named = msgspec.json.decode(params or b"{}", type=_CancelParams)
        raw = named.id if named.request_id is UNSET else named.request_id
        if raw is not UNSET:
            return RequestId.parse(raw)
    except (msgspec.ValidationError, InvalidRequestError, RecursionError) as error:
        raise InvalidParamsError("A cancellation names no valid request id.") from error
    raise InvalidParamsError("A cancellation needs the `id` of a request.")
