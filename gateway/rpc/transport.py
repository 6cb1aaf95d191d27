"""Bytes in and out of descriptors and sockets without blocking the event loop, and the queue of frames to write."""

from __future__ import annotations

import os
import select
import socket
import stat
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from typing import Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec
from anyio.abc import SocketAttribute, SocketStream

from config.runtime.tasks import Wakeup

_READ_BYTES = 65_536
"""The size of one read: the capacity of a Linux pipe."""

_SLICE_BYTES = select.PIPE_BUF
"""POSIX: a pipe that polls writable takes this many bytes without blocking."""


class ByteReader(Protocol):
    """The source of the lines of one connection."""

    async def receive(self) -> bytes:
        """Returns the next bytes; `b""` once the input has ended, for whatever reason."""

    def hung_up(self) -> bool:
        """Returns whether the peer will send nothing more, although bytes may still be unread."""


class ByteWriter(Protocol):
    """The destination of the frames of one connection."""

    async def send(self, data: bytes) -> None:
        """Writes all of `data`.

        Raises:
            anyio.BrokenResourceError: the peer is gone.
        """

    async def aclose(self) -> None: ...


class DescriptorReader:
    """Reads a pipe, socket, terminal or file by its descriptor, which stays the caller's."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pollable = _is_pollable(descriptor)

    async def receive(self) -> bytes:
        if not self._pollable:
            return await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True) or b""
        while True:
            await anyio.wait_readable(self._descriptor)
            data = self._read()
            if data is not None:
                return data

    def hung_up(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, getattr(select, "POLLRDHUP", 0))
        return bool(poll.poll(0))

    def _read(self) -> bytes | None:
        try:
            return os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:  # the parent chose O_NONBLOCK, and readiness was spurious
            return None
        except OSError:  # a reset socket, a hung-up terminal, a directory: the input has ended
            return b""


class DescriptorWriter:
    """Writes to a pipe, socket, terminal or file by its descriptor; `aclose` closes it."""

    def __init__(self, descriptor: int) -> None:
        self.sent = 0
        """The number of bytes written so far."""
        self._descriptor = descriptor
        self._pollable = _is_pollable(descriptor)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        rest = memoryview(data)
        try:
            while rest:
                written = await self._write(rest[:_SLICE_BYTES])
                self.sent += written
                rest = rest[written:]
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        os.close(self._descriptor)

    async def _write(self, data: memoryview) -> int:
        if not self._pollable:
            return await anyio.to_thread.run_sync(os.write, self._descriptor, data)
        if not self._poll.poll(0):  # asking first spares a round of the event loop for each slice
            await anyio.wait_writable(self._descriptor)
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # the parent chose O_NONBLOCK, and somebody else filled the pipe
            return 0


def _is_pollable(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


_STDIN, _STDOUT, _STDERR = 0, 1, 2


class ProtocolDescriptors(msgspec.Struct, frozen=True):
    """The private ends of the pipe: both close-on-exec, blocking mode left as the parent set it."""

    input: int
    output: int


def claim_stdio() -> ProtocolDescriptors:
    """Takes descriptors 0 and 1 away from the rest of the process; call it once, first thing.

    A descriptor that was closed at start counts as /dev/null: no input, output to nowhere.
    """
    _open_missing_descriptors()
    claimed = ProtocolDescriptors(input=os.dup(_STDIN), output=os.dup(_STDOUT))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, _STDIN)
    os.close(null)
    os.dup2(_STDERR, _STDOUT)
    return claimed


def _open_missing_descriptors() -> None:
    for descriptor in (_STDIN, _STDOUT, _STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            # open() takes the lowest free number: this one, since those below are open by now.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


class SocketChannel(DescriptorReader, DescriptorWriter):
    """Both byte ends of one accepted Unix socket: pass it as reader and as writer.

    The bytes go past the stream's own methods: those report an exception to the event loop when a
    wait is cancelled in the very moment in which the client closes.
    """

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        descriptor: int = stream.extra(attribute=SocketAttribute.raw_socket).fileno()
        DescriptorReader.__init__(self, descriptor)
        DescriptorWriter.__init__(self, descriptor)

    def hang_up(self) -> None:
        """Ends both directions: a task that waits to read or write here finds the peer gone."""
        with suppress(OSError):
            self._stream.extra(attribute=SocketAttribute.raw_socket).shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        await self._stream.aclose()


_BURST_BYTES = 16 * 1024
"""The size of one write: small enough to see that a slow reader makes progress."""


class _Queued(msgspec.Struct, eq=False):
    frame: bytes
    key: Hashable = None


class Outbox:
    """Frames to be written. `written` counts bytes that the client's end has taken; `congested`: a reply waits."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._queue: deque[_Queued] = deque()
        self._replaceable: dict[Hashable, _Queued] = {}
        self._pending_bytes = 0
        self._waiting = 0
        self._filled = Wakeup()
        self._moved = Wakeup()
        self._blocked = Wakeup()
        self.written = 0

    @property
    def congested(self) -> bool:
        return self._waiting > 0

    async def congestion(self) -> None:
        """Waits until a reply has to wait for room."""
        while not self.congested:
            await self._blocked.wait()

    async def put(self, frame: bytes) -> None:
        """Queues a frame, once there is room. One frame may overshoot the limit, of any size."""
        while self._pending_bytes >= self._limit_bytes:
            self._waiting += 1
            self._blocked.fire()
            try:
                await self._moved.wait()
            finally:
                self._waiting -= 1
        self.put_now(frame)

    def put_now(self, frame: bytes, key: Hashable = None) -> None:
        """Queues a frame whether or not there is room. One with a key may be replaced while it is unwritten."""
        queued = _Queued(frame, key)
        self._queue.append(queued)
        if key is not None:
            self._replaceable[key] = queued
        self._pending_bytes += len(frame) + 1
        self._filled.fire()

    def notify(self, key: Hashable, frame: bytes) -> None:
        """Queues a frame, in place of one of the same key that is still unwritten."""
        queued = self._replaceable.get(key)
        if queued is None:
            self.put_now(frame, key)
        else:
            self._pending_bytes += len(frame) - len(queued.frame)
            queued.frame = frame

    async def run(self, writer: ByteWriter) -> None:
        """Writes frames for ever.

        Raises:
            anyio.BrokenResourceError: the client no longer takes any.
        """
        while True:
            while not self._queue:
                await self._filled.wait()
            burst = self._take_burst()
            for start in range(0, len(burst), _BURST_BYTES):
                part = burst[start : start + _BURST_BYTES]
                await writer.send(part)
                self.written += len(part)
                self._pending_bytes -= len(part)
                self._moved.fire()

    async def flush(self, patience_s: float) -> None:
        """Waits until all is written, or until the client has taken nothing for `patience_s`."""
        while self._pending_bytes or self.congested:
            written = self.written
            with anyio.move_on_after(patience_s):
                await self._moved.wait()
            if self.written == written:
                return

    def _take_burst(self) -> bytes:
        burst = bytearray()
        while self._queue and len(burst) < _BURST_BYTES:
            queued = self._queue.popleft()
            self._replaceable.pop(queued.key, None)
            burst += queued.frame
            burst += b"\n"
        return bytes(burst)
