"""Bytes in and out of raw descriptors without ever blocking the event loop.

Owns the two small protocols that a connection is served over, and their twins for descriptors. The
descriptors of a pipe are shared with the parent process, and O_NONBLOCK belongs to what is shared: it
is never changed here. Instead a descriptor is touched only when it is reported ready, and written in
slices that a ready pipe always takes whole; what cannot be polled (files) goes to a worker thread.
"""

from __future__ import annotations

import os
import select
import stat
from typing import Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread

_READ_BYTES = 65_536
"""What one read asks for: the capacity of a Linux pipe."""

_SLICE_BYTES = select.PIPE_BUF
"""POSIX: a pipe that polls writable takes this many bytes without blocking."""


class ByteReader(Protocol):
    """Where the lines of one connection come from."""

    async def receive(self) -> bytes:
        """Return the next bytes; `b""` once the input has ended, for whatever reason."""
        ...

    def hung_up(self) -> bool:
        """Tell whether the peer will send nothing more, although bytes may still be unread."""
        ...


class ByteWriter(Protocol):
    """Where the frames of one connection go."""

    async def send(self, data: bytes) -> None:
        """Write all of `data`.

        Raises:
            anyio.BrokenResourceError: the peer is gone.
        """
        ...

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
        """Bytes that were taken so far."""
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
