"""The common part of the fake hosts: a server on this machine, one thread per connection.

The servers are started and ended here, also while clients are still connected, and their next faults are set here.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, Self, TypeVar

F = TypeVar("F")


class LoopbackServer(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, handler: type[LoopbackHandler], port: int = 0) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), handler)

    def close_connections(self) -> None:
        """Ends the handler threads that wait for a next request, and breaks off the others' answers."""
        for connection in tuple(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that hang up, which is part of the tests."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class LoopbackHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LoopbackServer

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.connection)

    def finish(self) -> None:
        self.server.open.discard(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


class LoopbackHost(Generic[F]):
    """A fake host as a context manager. `F` is the type of its faults."""

    def serve(self, server: LoopbackServer) -> None:
        """Prepares the host. Call it once, before the context is entered."""
        self._faults: deque[F] = deque()
        self._always: F | None = None
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.02,))

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.close_connections()
        self._server.server_close()

    def misbehave_as(self, fault: F, times: int | None) -> None:
        """Applies the fault to the next `times` requests, or to all from now on."""
        with self._changed:
            if times is None:
                self._always = fault
            else:
                self._faults.extend([fault] * times)

    def heal(self) -> None:
        with self._changed:
            self._faults.clear()
            self._always = None

    def next_fault(self) -> F | None:
        """Returns the fault of this request, for the handlers."""
        with self._changed:
            return self._faults.popleft() if self._faults else self._always

    def wait_until(self, condition: Callable[[Self], bool], timeout_s: float = 60.0) -> None:
        """Blocks until the condition holds; raises TimeoutError. Call it in a worker thread."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout_s):
                raise TimeoutError
