"""Standard error that never makes the work fail, and in a gateway never delays it.

Its reader may have gone or never read, its disk may be full or hang, it may have been closed at the start: text that
cannot be written is dropped and counted. A command writes at once, in turn with its output, and waits only so long for
a pipe that nobody reads; after `write_behind` a thread writes, which ends when there is nothing left to write.
"""

from __future__ import annotations

import _thread
import io
import os
import select
import stat
import sys
import threading
from collections import deque
from typing import Final

MOST_WAITING_BYTES: Final = 256 << 10
"""Text that waits for the thread; what comes beyond it is dropped."""
_PATIENCE_S: Final = 5.0
"""The wait for a pipe that a command finds full: a pager reads on when its user does."""


class StandardError(io.TextIOBase):
    """Replaces `sys.stderr`. Any thread may write, also one that is interrupted while it writes here."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, descriptor: int | None) -> None:
        self.dropped = 0
        """Lines that could not be written."""
        self._descriptor = descriptor
        self._is_behind = False
        self._is_pipe = descriptor is not None and stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        self._patience_s = _PATIENCE_S
        self._lock = threading.RLock()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._has_thread = False
        self._is_torn = False
        """True if the last line was written without its end."""
        self._idle = threading.Event()
        self._idle.set()

    def write_behind(self) -> None:
        self._is_behind = True

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._descriptor is None:
            raise io.UnsupportedOperation("standard error was closed at the start")
        return self._descriptor

    def isatty(self) -> bool:
        return self._descriptor is not None and os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        data = text.encode(self.encoding, self.errors)
        if not self._is_behind:
            self._put(data)
        elif data:
            self._queue(data)
        return len(text)

    def settle(self, patience_s: float) -> None:
        """Waits until all waiting text is written, or the time is over."""
        with self._lock:
            self._start_thread()
        self._idle.wait(patience_s)

    def _queue(self, data: bytes) -> None:
        with self._lock:
            if self._waiting_bytes + len(data) > MOST_WAITING_BYTES:
                self._drop(data)
            else:
                self._waiting.append(data)
                self._waiting_bytes += len(data)
            self._start_thread()

    def _start_thread(self) -> None:
        if self._has_thread or not self._waiting:
            return
        try:  # not `threading`, whose locks the interrupted code may hold
            _thread.start_new_thread(self._write_waiting, ())
        except RuntimeError:  # no further one may be started: the next line tries again
            return
        self._has_thread = True
        self._idle.clear()

    def _write_waiting(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._has_thread = False
                    self._idle.set()
                    return
                data = self._waiting.popleft()
            self._put(data)
            with self._lock:
                self._waiting_bytes -= len(data)

    def _put(self, data: bytes) -> None:
        """Writes as much as can be written; a torn line is ended before the next one."""
        rest = memoryview(b"\n" + data if self._is_torn else data)
        try:
            while rest:
                written = self._write_some(rest)
                self._is_torn = rest[written - 1] != ord("\n")
                rest = rest[written:]
            self._is_torn = False
        except OSError:
            self._drop(data)

    def _write_some(self, data: memoryview) -> int:
        if self._descriptor is None:
            raise BrokenPipeError
        if self._is_pipe and not self._is_behind:
            self._wait_for_room(self._descriptor)
            data = data[: select.PIPE_BUF]  # as much as it takes at once when it has room
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:  # the parent chose O_NONBLOCK
                self._poll(self._descriptor, None)

    def _wait_for_room(self, descriptor: int) -> None:
        """Raises TimeoutError if nobody reads; after that, only text that the pipe takes at once is written."""
        if not self._poll(descriptor, self._patience_s):
            self._patience_s = 0.0
            raise TimeoutError
        self._patience_s = _PATIENCE_S

    @staticmethod
    def _poll(descriptor: int, patience_s: float | None) -> bool:
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        return bool(poll.poll(None if patience_s is None else patience_s * 1000))

    def _drop(self, data: bytes) -> None:
        with self._lock:
            self.dropped += data.count(b"\n")


def claim_standard_error() -> StandardError:
    """Replaces `sys.stderr`, if that is not done yet."""
    if not isinstance(sys.stderr, StandardError):
        closed = sys.stderr is None
        sys.stderr = StandardError(None if closed else sys.stderr.fileno())
    return sys.stderr


def dropped_lines() -> int:
    """Returns the number of lines of the log that could not be written."""
    return sys.stderr.dropped if isinstance(sys.stderr, StandardError) else 0
