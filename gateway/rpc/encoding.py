"""Turns outcomes into frames: one line of compact UTF-8 JSON each, without its newline. Pure.

Owns what may stand on the wire. Besides the newline, U+2028, U+2029 and U+0085 are escaped: line
readers of Node and Python split at them, and a memory may hold any of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gateway.rpc.errors import WireError
from gateway.rpc.messages import RequestId
from gateway.rpc.surrogates import replace_lone_surrogates

_encoder = msgspec.json.Encoder()

_LINE_BREAKS = (
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
    ("\u0085".encode(), rb"\u0085"),
)


def encode_result(request_id: RequestId, result: object) -> bytes:
    """Answer a request with any value msgspec can encode.

    Raises:
        TypeError: `result` holds a value that has no JSON form.
    """
    return _frame(b'{"jsonrpc":"2.0","id":%b,"result":%b}', request_id.raw, _json(result))


def encode_error(request_id: RequestId | None, error: WireError) -> bytes:
    """Answer a request with an error; None when its id could not be read, which JSON-RPC spells null."""
    raw_id = request_id.raw if request_id else b"null"
    return _frame(b'{"jsonrpc":"2.0","id":%b,"error":%b}', raw_id, _json(error))


def encode_notification(method: str, params: object) -> bytes:
    return _frame(b'{"jsonrpc":"2.0","method":%b,"params":%b}', _json(method), _json(params))


def encode_batch(replies: Iterable[bytes]) -> bytes:
    """Join the frames of one batch into the array that answers it."""
    return b"[" + b",".join(replies) + b"]"


def _json(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(replace_lone_surrogates(msgspec.to_builtins(value)))


def _frame(template: bytes, *parts: bytes) -> bytes:
    frame = template % parts
    for raw, escaped in _LINE_BREAKS:
        if raw in frame:
            frame = frame.replace(raw, escaped)
    return frame
