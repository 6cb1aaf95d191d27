"""The wire side of a fake vendor: one handler per connection, in a thread of its own.

The handlers share the `FakeVendor` of `fakes.vendors`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fakes.checks import Request, parse, refusal, wrong_key
from fakes.faults import Fault, bomb
from fakes.loopback import LoopbackHandler, LoopbackServer

if TYPE_CHECKING:
    from fakes.batches import FakeBatches
    from fakes.vendors import FakeVendor

_WORD = re.compile(r"\w+")
_GZIP = {"content-encoding": "gzip"}
_LENGTH = 3.0
"""The length of the vectors that are sent, so that tests find a client that does not normalise."""


@dataclass
class Seen:
    """One request as it arrived. Header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    texts: tuple[str, ...]
    answered: int = 0
    """The status that was sent; 0 if none was."""
    arrived_at: float = field(default_factory=time.monotonic)
    answered_at: float = 0.0


def embedding(text: str, dimensions: int) -> list[float]:
    """Returns a bag of hashed words: texts that share words are near each other."""
    vector = [0.0] * dimensions
    for word in _WORD.findall(text.lower()) or [text]:
        digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
        at, sign = divmod(int.from_bytes(digest, "little"), 2)
        vector[at % dimensions] += 1.0 if sign else -1.0
    length = math.sqrt(sum(value * value for value in vector))
    if length == 0:
        vector[0], length = 1.0, 1.0
    return [value / length * _LENGTH for value in vector]


class Server(LoopbackServer):
    def __init__(self, host: FakeVendor) -> None:
        self.host = host
        super().__init__(Handler, host.at_port)


class Handler(LoopbackHandler):
    server: Server

    def do_POST(self) -> None:
        host = self.server.host
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body, texts = parse(host.vendor, raw)
        request = Request(self.command, self.path, self.headers, raw, body, texts)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._seen = Seen(self.command, self.path, headers, body, texts)
        self._hung_up = False
        host.enter(self._seen)
        try:
            self._respond(request)
        except OSError:
            self._hung_up = True
        finally:
            host.leave(hung_up=self._hung_up)

    def do_GET(self) -> None:
        self.do_POST()

    def do_DELETE(self) -> None:
        self.do_POST()

    def _respond(self, request: Request) -> None:
        host = self.server.host
        fault = host.next_fault()
        if fault is not None and fault.before_checks:
            self._misbehave(fault)
            return
        if host.batches is not None and host.batches.concerns(self.path):
            self._answer_about_batches(host.batches, request)
            return
        refused = refusal(host, request)
        if refused is not None:
            code, message, fields = refused
            self._send(code, self._error(code, message, fields))
        elif host.delay_s and host.pause(host.delay_s, self.connection):
            self._hung_up = True
            self._hang_up()
        else:
            self._answer(fault, request)

    def _answer_about_batches(self, batches: FakeBatches, request: Request) -> None:
        refused = batches.refusal or wrong_key(self.server.host, request)
        if refused is not None:
            self._send(refused[0], self._error(*refused))
            return
        refused = batches.refused_creation(request)
        if refused is not None:
            self._send(refused[0], self._error(*refused))
            return
        asked, code, body, headers = batches.answer(request)
        if asked == batches.stalls:
            batches.stalled += 1
            self._hung_up = self.server.host.pause(60, self.connection)
            self._hang_up()
        elif asked in batches.loses:
            batches.loses.remove(asked)
            self._hang_up()
        else:
            self._send(code, body, headers)

    def _error(self, code: int, message: str, fields: Mapping[str, Any]) -> Any:
        if self.server.host.vendor == "voyage":
            return {"detail": message}
        return {"error": {"code": code, "message": message, "type": "error", **fields}}

    def _send(self, code: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._seen.answered, self._seen.answered_at = code, time.monotonic()
        self._start(code, len(data), headers or {})
        self.wfile.write(data)

    def _start(self, code: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(length))
        self.end_headers()

    def _hang_up(self) -> None:
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            self._hung_up = True

    def _misbehave(self, fault: Fault) -> None:
        match fault.kind:
            case "status":
                message = f"As commanded. The headers were {dict(self.headers)}"
                default = self._error(fault.status, message, {})
                self._send(fault.status, fault.body or default, fault.headers)
            case "redirect":
                self._send(fault.status, b"", {"location": fault.location})
            case "hang":
                self._hung_up = self.server.host.pause(60, self.connection)
                self._hang_up()
            case "reset":
                self._start(200, 1000, {})
                self.wfile.write(b'{"data": [')
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True
            case _:
                self._drip()

    def _drip(self) -> None:
        self._start(200, 10_000, {})
        while not self._hung_up:
            self.wfile.write(b" ")
            self._hung_up = self.server.host.pause(0.02, self.connection)
        self._hang_up()

    def _answer(self, fault: Fault | None, request: Request) -> None:
        match fault.kind if fault else None:
            case "invalid-json":
                self._send(200, b'{"data": [{"embedding": [0.1, 0.2')
            case "html":
                page = b"<!doctype html><title>Sign in</title>"
                self._send(200, page, {"content-type": "text/html; charset=utf-8"})
            case "huge":
                self._send(200, b" " * (65 << 20))
            case "gzip":
                body = self._body(self._vectors(fault, request), fault, request)
                self._send(200, gzip.compress(json.dumps(body).encode()), _GZIP)
            case "bomb":
                self._send(200, bomb(1), _GZIP)
            case "nested-bomb":
                self._send(200, bomb(3), {"content-encoding": "gzip, gzip, gzip"})
            case "rows":
                self._send(200, self._list_of(b"{}", 12_000_000))
            case "values":
                row = (
                    b'{"values":[%b]}'
                    if self.server.host.vendor == "gemini"
                    else b'{"embedding":[%b]}'
                )
                self._send(200, self._list_of(row % b",".join([b"1"] * 16_000_000), 1))
            case _:
                self._send(200, self._body(self._vectors(fault, request), fault, request))

    def _list_of(self, row: bytes, times: int) -> bytes:
        """Returns an answer of that many rows, which takes not much longer to make than to send."""
        name = b"embeddings" if self.server.host.vendor == "gemini" else b"data"
        return b'{"' + name + b'":[' + (row + b",") * (times - 1) + row + b"]}"

    def _vectors(self, fault: Fault | None, request: Request) -> list[list[float]]:
        part = request.body["requests"][0] if "requests" in request.body else request.body
        names = ("dimensions", "outputDimensionality", "output_dimension")
        asked = next((part[name] for name in names if part.get(name)), None)
        dimensions = asked or self.server.host.dimensions
        vectors = [embedding(text, dimensions) for text in request.texts]
        at = fault.position if fault else 0
        match fault.kind if fault else None:
            case "wrong-dimension":
                vectors[at].append(0.5)
            case "nan":
                vectors[at][0] = math.nan
            case "zero":
                vectors[at] = [0.0] * dimensions
        return vectors

    def _body(self, vectors: list[list[float]], fault: Fault | None, request: Request) -> Any:
        kind = fault.kind if fault else None
        for vector, text in zip(vectors, request.texts, strict=True):
            if self.server.host.loses(text):
                vector.clear()
        if self.server.host.vendor == "gemini":
            rows = [{"values": vector} for vector in vectors]
            return {"embeddings": rows[:-1] if kind == "short" else rows}
        encoded = self._encoded(vectors, request.body.get("encoding_format", "float"))
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(encoded)
        ]
        if kind == "short":
            data.pop()
        if kind == "reordered":
            data.reverse()
        tokens = sum(len(text) // 4 + 1 for text in request.texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": request.body["model"], "usage": usage}

    def _encoded(self, vectors: list[list[float]], asked: str) -> list[Any]:
        always = self.server.host.encoding
        if (asked if always == "asked" else always) != "base64":
            return list(vectors)
        packed = [struct.pack(f"<{len(vector)}f", *vector) for vector in vectors]
        return [base64.b64encode(data).decode() for data in packed]
