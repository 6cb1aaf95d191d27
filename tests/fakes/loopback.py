"""What the fake hosts have in common: a server on this machine, one thread a connection.

It knows its open connections, so that it can end while clients still hold them.
"""

from __future__ import annotations

import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LoopbackServer(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, handler: type[LoopbackHandler]) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), handler)

    def close_connections(self) -> None:
        """Ends the handler threads that wait for a next request."""
        for connection in tuple(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests."""
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
        """Silence."""
