"""A loopback hub of models: ranges, metadata, a redirect to another host, and every way to fail.

    with FakeHub({"org/repo/m.gguf": data}) as hub:
        hub.misbehave("drop", after=100_000)
        await obtain("hf:org/repo/m.gguf", cache, environment=hub.environment)
        assert hub.sent() == len(data)

The hub is called 127.0.0.1 and the other host, where the bodies come from, localhost.
"""

from __future__ import annotations

import hashlib
import random
import re
import socket
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote

from fakes.loopback import LoopbackHandler, LoopbackHost, LoopbackServer

Misbehaviour = Literal[
    "drop", "stall", "status", "html", "wrong-bytes", "wrong-size", "no-ranges", "circle", "endless"
]
REPOSITORY = "org/repo"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
_PATH = re.compile(r"/(?P<repository>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_STEP = 16 << 10


def model_bytes(size: int, seed: int = 1) -> bytes:
    """Returns bytes that begin as a GGUF file."""
    return b"GGUF" + random.Random(seed).randbytes(size - 4)


@dataclass
class Seen:
    """One request. Header names are in lower case."""

    method: str
    host: str
    path: str
    headers: dict[str, str]
    status: int = 0
    sent: int = 0
    """Bytes of the body."""


@dataclass(frozen=True)
class Fault:
    kind: Misbehaviour
    after: int = 0
    """Bytes of the body that are sent before the fault."""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class FakeHub(LoopbackHost[Fault]):
    """A hub. Its files are named `org/repo/file`; everything may be changed while it runs."""

    files: dict[str, bytes]
    token: str | None = None
    """The token that the hub requires; None for none."""
    redirects: bool = True
    """True if the bodies come from the other host."""
    metadata: bool = True
    """True if it sends a hub's headers; else it is a plain web server."""
    etags: bool = True
    bytes_per_s: int | None = None

    requests: list[Seen] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.serve(_Server(self))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make this the hub."""
        return {"HF_ENDPOINT": self.origin}

    def misbehave(
        self,
        kind: Misbehaviour,
        *,
        times: int | None = 1,
        after: int = 0,
        status: int = 0,
        **headers: str,
    ) -> None:
        """Applies the fault to the next `times` bodies, or to all from now on. `_` in header names means `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.misbehave_as(Fault(kind, after, status, named), times)

    def bodies(self) -> list[Seen]:
        """Returns the requests that were answered with a body or a refusal, not with a redirect."""
        return [seen for seen in self.requests if seen.status != 302]

    def sent(self) -> int:
        """Returns the bytes of all bodies together."""
        with self._changed:  # its lock is reentrant
            return sum(seen.sent for seen in self.requests)

    def wait_until_sent(self, size: int, timeout_s: float = 120.0) -> None:
        """Blocks until that many bytes have been sent; raises TimeoutError."""
        self.wait_until(lambda hub: hub.sent() >= size, timeout_s)

    def hang_up(self) -> None:
        """Breaks off every answer in progress."""
        self._server.close_connections()

    # For the handlers.

    def enter(self, seen: Seen) -> None:
        with self._changed:
            self.requests.append(seen)
            self._changed.notify_all()

    def count(self, seen: Seen, size: int) -> None:
        with self._changed:
            seen.sent += size
            self._changed.notify_all()

    def pause(self, seconds: float) -> bool:
        """Waits; returns whether this hub was stopped meanwhile."""
        return self._stopping.wait(seconds)


class _Server(LoopbackServer):
    def __init__(self, hub: FakeHub) -> None:
        self.hub = hub
        super().__init__(_Handler)


class _Handler(LoopbackHandler):
    server: _Server

    def setup(self) -> None:
        # Sent bytes are counted, so few of them may be buffered here for a client that is gone.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _STEP)
        super().setup()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub = self.server.hub
        headers = {name.lower(): value for name, value in self.headers.items()}
        host = headers["host"].partition(":")[0]
        self._seen = Seen(self.command, host, self.path, headers)
        hub.enter(self._seen)
        found = _PATH.fullmatch(self.path.partition("?")[0])
        name = unquote(f"{found['repository']}/{found['file']}") if found else ""
        if name not in hub.files:
            self._refuse(404, {"x-error-code": "EntryNotFound"})
        elif host == "localhost":
            self._body(hub.files[name])
        elif hub.token and headers.get("authorization") != f"Bearer {hub.token}":
            self._refuse(401, {"x-error-code": "GatedRepo"})
        elif hub.redirects:
            self._redirect(hub.files[name])
        else:
            self._body(hub.files[name])

    def _redirect(self, data: bytes) -> None:
        location = f"http://localhost:{self.server.hub.port}{self.path}?signature=hush"
        self._start(302, 0, {**self._linked(data), "location": location})

    def _linked(self, data: bytes) -> dict[str, str]:
        if not self.server.hub.metadata:
            return {}
        return {
            "x-repo-commit": COMMIT,
            "x-linked-etag": f'"{hashlib.sha256(data).hexdigest()}"',
            "x-linked-size": str(len(data)),
        }

    def _refuse(self, status: int, headers: dict[str, str]) -> None:
        self._start(status, 0, headers)

    def _body(self, data: bytes) -> None:
        fault = self.server.hub.next_fault()
        match fault.kind if fault else None:
            case "status" if fault:
                self._refuse(fault.status, fault.headers)
            case "html":
                page = b"<!doctype html><title>Sign in</title>"
                self._start(200, len(page), {"content-type": "text/html; charset=utf-8"})
                self.wfile.write(page)
            case "endless" if fault:
                self._pour_for_ever(data, fault)
            case "circle":
                self._start(302, 0, {"location": self.path})
            case "wrong-bytes":
                self._send(data[:-1] + bytes([data[-1] ^ 1]), data, fault)
            case "wrong-size":
                self._send(data[: fault.after] if fault else data, data, None)
            case _:
                self._send(data, data, fault)

    def _send(self, data: bytes, announced: bytes, fault: Fault | None) -> None:
        hub = self.server.hub
        start = self._range_start() if not fault or fault.kind != "no-ranges" else None
        headers = {} if hub.redirects else self._linked(announced)
        if hub.etags:
            headers["etag"] = f'"{hashlib.md5(announced).hexdigest()}"'
        if start is None:
            self._start(200, len(data), headers)
        elif start >= len(data):
            self._start(416, 0, {**headers, "content-range": f"bytes */{len(data)}"})
            return
        else:
            headers["content-range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            self._start(206, len(data) - start, headers)
        if self.command == "GET":
            self._pour(data[start or 0 :], fault)

    def _range_start(self) -> int | None:
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        return int(wanted[1]) if wanted else None

    def _pour(self, data: bytes, fault: Fault | None) -> None:
        hub = self.server.hub
        ends_early = fault is not None and fault.kind in ("drop", "stall")
        whole = fault.after if fault and ends_early else len(data)
        for at in range(0, whole, _STEP):
            piece = data[at : min(at + _STEP, whole)]
            try:
                self.wfile.write(piece)
            except OSError:
                self.close_connection = True
                return
            hub.count(self._seen, len(piece))
            if hub.bytes_per_s and hub.pause(len(piece) / hub.bytes_per_s):
                break
        if fault is not None and fault.kind == "stall":
            hub.pause(60)
        if ends_early:
            self.close_connection = True

    def _pour_for_ever(self, data: bytes, fault: Fault) -> None:
        """Sends a body without an announced length: the file's beginning again and again, until the client ends."""
        self.close_connection = True
        self._seen.status = 200
        self.send_response(200)
        for name, value in {"connection": "close", **fault.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        piece = data[:_STEP]
        try:
            while not self.server.hub.pause(0):
                self.wfile.write(piece)
                self.server.hub.count(self._seen, len(piece))
        except OSError:
            pass

    def _start(self, status: int, length: int, headers: dict[str, str]) -> None:
        self._seen.status = status
        self.send_response(status)
        for name, value in {"content-length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
