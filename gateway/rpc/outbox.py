"""The frames of one connection that are yet to be written, bounded, and the one task that writes them.

Owns order and back-pressure: replies wait for room; notifications never wait and never pile up, since
a newer one takes the place of an older one of the same key that is still queued. Frames arrive
without their newline. What the frames mean is not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

import anyio

from config.runtime.tasks import Wakeup
from gateway.rpc.streams import ByteWriter

_BURST_BYTES = 16 * 1024
"""What one write takes: small enough that a slow reader is seen to make progress."""


@dataclass(slots=True, eq=False)
class _Queued:
    frame: bytes
    key: Hashable = None


class Outbox:
    """`written` counts bytes the client's end has taken; `congested` tells that a reply waits."""

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
        """Wait until a reply has to wait for room."""
        while not self.congested:
            await self._blocked.wait()

    async def put(self, frame: bytes) -> None:
        """Queue a frame, once there is room. One frame may overshoot the limit, of any size."""
        while self._pending_bytes >= self._limit_bytes:
            self._waiting += 1
            self._blocked.fire()
            try:
                await self._moved.wait()
            finally:
                self._waiting -= 1
        self.put_now(frame)

    def put_now(self, frame: bytes) -> None:
        """Queue a frame whether or not there is room."""
        self._append(_Queued(frame))

    def notify(self, key: Hashable, frame: bytes) -> None:
        """Queue a frame, in place of one of the same key that is still unwritten."""
        queued = self._replaceable.get(key)
        if queued is None:
            self._replaceable[key] = queued = _Queued(frame, key)
            self._append(queued)
        else:
            self._pending_bytes += len(frame) - len(queued.frame)
            queued.frame = frame

    async def run(self, writer: ByteWriter) -> None:
        """Write frames for ever.

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
        """Wait until all is written, or until the client has taken nothing for `patience_s`."""
        while self._pending_bytes or self.congested:
            written = self.written
            with anyio.move_on_after(patience_s):
                await self._moved.wait()
            if self.written == written:
                return

    def _append(self, queued: _Queued) -> None:
        self._queue.append(queued)
        self._pending_bytes += len(queued.frame) + 1
        self._filled.fire()

    def _take_burst(self) -> bytes:
        burst = bytearray()
        while self._queue and len(burst) < _BURST_BYTES:
            queued = self._queue.popleft()
            self._replaceable.pop(queued.key, None)
            burst += queued.frame
            burst += b"\n"
        return bytes(burst)
