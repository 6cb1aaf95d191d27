"""Tells the service manager that the process is ready, alive, reloading or about to stop.

Owns the messages of sd_notify(3), their way and their pace. Where no service manager listens nothing is
sent. No library: those that there are block, lose what is not Latin-1, or know half of the messages.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import anyio

Send = Callable[[str], object]

STANDING_BY: Final = "Another process owns the index and answers; standing by to take over."

_PINGS_A_PERIOD: Final = 3
"""One may come late or get lost."""


def _ignore(_message: str) -> None:
    """Stand in where nobody listens."""


class Notifier:
    """Give it no `send` where no service manager listens. `watchdog_s`: silence that ends us."""

    def __init__(self, send: Send | None = None, *, watchdog_s: float = math.inf) -> None:
        self._send = send or _ignore
        self._watchdog_s = watchdog_s
        self._status = ""
        self.listens = send is not None
        """Whether anybody does."""

    def ready(self, status: str) -> None:
        """The process can do its work; also said at the end of a reload."""
        self._send("READY=1")
        self.status(status)

    def status(self, status: str) -> None:
        """One line for people, as `systemctl status` shows it; the same one is not repeated."""
        line = " ".join(status.split())
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def reloading(self) -> None:
        """The configuration is being read again; `ready` must follow."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
        self.status("Reading the configuration again.")

    def stopping(self) -> None:
        self._send("STOPPING=1")
        self.status("Answering what is still open.")

    async def keep_alive(self) -> None:
        """Until cancelled: a process whose event loop hangs sends nothing, and is restarted."""
        while self.listens and self._watchdog_s < math.inf:
            self._send("WATCHDOG=1")
            await anyio.sleep(self._watchdog_s / _PINGS_A_PERIOD)


@contextmanager
def notifying(environment: Mapping[str, str] = os.environ) -> Iterator[Notifier]:
    """A notifier to whom `NOTIFY_SOCKET` names, silent where it names nobody."""
    address = environment.get("NOTIFY_SOCKET", "")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.setblocking(False)  # a manager that does not listen must not hold us up
        try:
            manager.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        except OSError:
            yield Notifier()
            return

        def send(message: str) -> None:
            with suppress(OSError):
                manager.send(message.encode())

        yield Notifier(send, watchdog_s=_watchdog_s(environment))


def _watchdog_s(environment: Mapping[str, str]) -> float:
    microseconds = environment.get("WATCHDOG_USEC", "")
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return math.inf
    return int(microseconds) / 1e6 if microseconds.isdecimal() and int(microseconds) else math.inf
