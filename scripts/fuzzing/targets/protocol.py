"""What a client writes: bytes into lines, lines into messages. Nothing may raise."""

from __future__ import annotations

from gateway.rpc.errors import RpcError
from gateway.rpc.framing import LineSplitter
from gateway.rpc.messages import Batch, Call, ClientReply, Malformed, decode_line

_LIMIT = 1 << 12
_MEMBERS = 16


def run(data: bytes) -> None:
    lines = _lines(data, len(data) or 1)
    assert list(map(str, _lines(data, 1 + len(data) % 7))) == list(map(str, lines))
    for line in lines:
        if isinstance(line, RpcError):
            continue
        message = decode_line(line, batch_members=_MEMBERS)
        for member in message.members if isinstance(message, Batch) else (message,):
            _check(member)


def _lines(data: bytes, piece: int) -> list[bytes | RpcError]:
    splitter = LineSplitter(_LIMIT)
    found: list[bytes | RpcError] = []
    for start in range(0, len(data), piece):
        found += splitter.feed(data[start : start + piece])
    return found + splitter.finish()


def _check(message: object) -> None:
    assert isinstance(message, Call | Malformed | ClientReply)
    if isinstance(message, Call):
        assert message.method
        assert message.params is None or message.params[:1] in b"{["
    if isinstance(message, Malformed):
        assert message.error.message
