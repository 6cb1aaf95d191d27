"""A host on this machine that answers every request with the bytes that it was given last."""

from __future__ import annotations

import threading

from fakes.loopback import LoopbackHandler, LoopbackServer


class Host(LoopbackServer):
    daemon_threads = True  # a client may keep its connection until the process ends

    def __init__(self) -> None:
        self.status = 200
        self.body = b""
        self.raw: bytes | None = None
        """Sent as it is, without a status line of ours; the connection ends then."""
        super().__init__(_Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.close_connections()
        self.server_close()


class _Handler(LoopbackHandler):
    server: Host

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        host = self.server
        if host.raw is not None:
            self.wfile.write(host.raw)
            self.close_connection = True
            return
        self.send_response(host.status)
        self.send_header("content-type", "application/json")
        if host.status == 302:
            self.send_header("location", "http://127.0.0.1:9/elsewhere")
        self.send_header("content-length", str(len(host.body)))
        self.end_headers()
        if host.status != 204:
            self.wfile.write(host.body)
