"""A service manager's socket for notifications."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Self


class NotifyReceiver:
    """Receives the messages of a service; `address` is for its `NOTIFY_SOCKET`."""

    def __init__(self, path: Path | None = None) -> None:
        """Without a path the socket is an abstract one, as some managers use."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        name = f"memory-gateway-test-{os.getpid()}-{id(self)}"
        self.address = str(path) if path else f"@{name}"
        self._socket.bind(self.address if path else f"\0{name}")
        self.heard: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def wait_for(self, start: str, timeout_s: float = 60.0) -> str:
        """Returns the next message that begins with `start`. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            message = self._socket.recv(65_536).decode()
            self.heard.append(message)
            if message.startswith(start):
                return message
