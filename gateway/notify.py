"""systemd's side of the process: readiness, watchdog, status line, sockets that were handed in."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

import anyio

from config.runtime.logs import Log
from config.runtime.tasks import background_tasks

if TYPE_CHECKING:
    from gateway.agent.memory import Memory
    from gateway.metrics import Metrics
    from gateway.tools.status import Health

_log = Log()

FIRST_DESCRIPTOR: Final = 3


def handed_in_sockets() -> tuple[socket.socket, ...]:
    """Returns the sockets that are meant for this process. Call it first, before anything opens a descriptor.

    A descriptor that is not a listening Unix stream socket is left alone and logged.
    """
    count = os.environ.get("LISTEN_FDS", "")
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or not count.isdecimal():
        return ()
    descriptors = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))
    return tuple(made for descriptor in descriptors if (made := _socket_of(descriptor)) is not None)


def _socket_of(descriptor: int) -> socket.socket | None:
    try:
        os.set_inheritable(descriptor, False)
        made = socket.socket(fileno=descriptor)
    except OSError as error:
        _log.warning("a descriptor that was handed in is no socket", error=str(error))
        return None
    listens = made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if made.family == socket.AF_UNIX and made.type == socket.SOCK_STREAM and listens:
        return made
    _log.warning("a socket that was handed in is no listening Unix socket", fd=descriptor)
    made.detach()
    return None


Send = Callable[[str], object]

STANDING_BY: Final = "Another process owns the index and answers; standing by to take over."

_PINGS_A_PERIOD: Final = 3
"""One may come late or get lost."""


class Notifier:
    """Reports to the service manager; without `send` there is none. After `watchdog_s` of silence it ends us."""

    def __init__(self, send: Send | None = None, *, watchdog_s: float = math.inf) -> None:
        self._send = send or (lambda _: None)
        self._watchdog_s = watchdog_s
        self._status = ""
        self.listens = send is not None
        """True if a service manager listens."""

    def ready(self, status: str) -> None:
        """Says that the process can do its work, also at the end of a reload."""
        self._send("READY=1")
        self.status(status)

    def status(self, status: str) -> None:
        """Sends a line for people, which `systemctl status` shows; the same one is not repeated."""
        line = " ".join(status.split())
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def reloading(self) -> None:
        """Says that the configuration is being read again; `ready` must follow."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
        self.status("Reading the configuration again.")

    def stopping(self) -> None:
        self._send("STOPPING=1")
        self.status("Answering what is still open.")

    async def keep_alive(self) -> None:
        """Sends signs of life until cancelled: a process whose event loop hangs sends none, and is restarted."""
        while self.listens and self._watchdog_s < math.inf:
            self._send("WATCHDOG=1")
            await anyio.sleep(self._watchdog_s / _PINGS_A_PERIOD)


@contextmanager
def notifying(environment: Mapping[str, str] = os.environ) -> Iterator[Notifier]:
    """Yields a notifier for the socket that `NOTIFY_SOCKET` names; without one it sends nothing."""
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


_RETRY_S: Final = 0.5
_PERIOD_S: Final = 10.0


@asynccontextmanager
async def supervised(notifier: Notifier, memory: Memory) -> AsyncIterator[None]:
    """Reports readiness as soon as the memory can answer, and its state for as long as the body runs."""
    if not notifier.listens:
        yield
        return
    async with background_tasks() as tasks:
        tasks.start_soon(_supervise, notifier, memory)
        yield


async def _supervise(notifier: Notifier, memory: Memory) -> None:
    while (health := await memory.health()).status == "failing":
        notifier.status(f"Cannot answer yet: {health.reasons[0]}")
        await anyio.sleep(_RETRY_S)
    notifier.ready(await status_line(memory))
    while True:
        await anyio.sleep(_PERIOD_S)
        notifier.status(await status_line(memory))


async def status_line(memory: Memory) -> str:
    """Returns such a line: `Agent main: ok. 48 files at the last sync (09:41, boot), 12 searches.`"""
    settings = memory.settings
    whose = "Notes" if settings.notes_folder else f"Agent {settings.agent_id}"
    return describe(whose, await memory.health(), memory.counts)


def describe(whose: str, health: Health, metrics: Metrics) -> str:
    state = health.status + (f" ({health.reasons[0].rstrip('.')})" if health.reasons else "")
    searches = sum(metrics.activity().searches.values())
    parts = [f"{searches:,} searches" if searches != 1 else "1 search"]
    if metrics.last_sync is not None:
        sync = metrics.last_sync
        at = time.strftime("%H:%M", time.localtime(metrics.last_sync_at))
        files = "1 file" if sync.scanned == 1 else f"{sync.scanned:,} files"
        parts.insert(0, f"{files} at the last sync ({at}, {sync.reason})")
    return f"{whose}: {state}. {', '.join(parts)}."
