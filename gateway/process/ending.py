"""What ends the process: its parent's death, and a limit on how long an orderly end may take, whatever hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Final

import anyio
import structlog

from gateway.process.orphans import OUTSIDE, is_orphan
from gateway.rpc.transport import DescriptorWriter

_log = structlog.get_logger(__name__)

END_S: Final = 1.2
"""From the end of the input, or a signal, to the end of the process: 2 s are promised, on a busy machine, too."""
READING_S: Final = 0.6
"""How long a client that still reads its last answers may pause, and what is left to tidy up after it."""
_LOOK_S: Final = 0.1
_SIGNAL_S: Final = 0.3
"""How much later the signal comes: a busy machine lets the thread, which ends with code 0, wait a while."""


class Ending:
    """Ends the process with code 0 when its end takes too long, unless it is called off."""

    def __init__(self) -> None:
        self._deadline = 0.0
        self._off = threading.Event()
        self._has_thread = False

    async def limit(
        self, closing: anyio.Event, shutdown: anyio.Event, writer: DescriptorWriter
    ) -> None:
        """Works until cancelled. Once `closing` is set the process ends within `END_S`.

        Only a client that still reads what it asked for, after the end of its input, is let to its end.
        """
        await closing.wait()
        self._begin()
        sent, told = writer.sent, False
        while True:
            await anyio.sleep(_LOOK_S)
            if writer.sent != sent and not shutdown.is_set():
                self._not_before(READING_S)
            sent = writer.sent
            if self._left_s() < 2 * _LOOK_S and not told:
                told = True
                _log.warning("ending without waiting for work that hangs", threads=_names())
            if not self._has_thread:
                self._start_thread()
            if not self._has_thread and self._left_s() <= 0:
                os._exit(os.EX_OK)

    def call_off(self) -> None:
        self._off.set()
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _begin(self) -> None:
        self._not_before(END_S)
        self._start_thread()

    def _start_thread(self) -> None:
        """Not on the event loop alone, which may hang as well; where no thread can be had it is tried again."""
        with suppress(RuntimeError):
            threading.Thread(target=self._wait, name="last resort", daemon=True).start()
            self._has_thread = True

    def _not_before(self, seconds: float) -> None:
        self._deadline = max(self._deadline, time.monotonic() + seconds)
        # A library that hangs may hold the interpreter, and with it every thread: a signal that nobody
        # handles needs neither.
        signal.setitimer(signal.ITIMER_REAL, self._left_s() + _SIGNAL_S)

    def _wait(self) -> None:
        while (left_s := self._left_s()) > 0:
            if self._off.wait(left_s):
                return
        os._exit(os.EX_OK)

    def _left_s(self) -> float:
        return self._deadline - time.monotonic()


def _names() -> list[str]:
    return sorted({one.name for one in threading.enumerate()} - {threading.current_thread().name})


_POLL_S: Final = 0.5


async def end_with_parent(parent: int, shutdown: anyio.Event) -> None:
    """Sets `shutdown` once `parent`, as `os.getppid()` gave it first, is gone."""
    if parent == OUTSIDE:
        return
    if not is_orphan(parent):
        await _outlive(parent)
    _log.info("stopping", cause="the process that started this one is gone")
    shutdown.set()


async def _outlive(parent: int) -> None:
    with suppress(OSError, AttributeError):  # an older kernel, another system
        descriptor = os.pidfd_open(parent)
        try:
            if os.getppid() == parent:
                await anyio.wait_readable(descriptor)
        finally:
            os.close(descriptor)
        return
    while os.getppid() == parent:  # noqa: ASYNC110 - another process sets no event
        await anyio.sleep(_POLL_S)
