"""Worker processes: their life beside the gateway, and the frames that the two send to each other.

A frame is the length of a message (four bytes, big-endian), then the message in MessagePack. Loaded at both ends
of the pipe, so it imports hardly anything else of this project.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Final

import msgspec

from config.runtime import IS_LINUX, PROC
from config.runtime.decoding import prepared

MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
_LENGTH: Final = struct.Struct(">I")
_PIECE_BYTES: Final = 1 << 16
_PR_SET_PDEATHSIG: Final = 1
_KILLED_FIRST: Final = "500"


class ProtocolError(Exception):
    """The data from the pipe is not a frame of this protocol."""


def frame(message: object) -> bytes:
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Assembles frames from the pieces that a pipe gives. `kind` is the type to decode."""

    def __init__(self, kind: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(prepared(kind))
        self._data = bytearray()

    def feed(self, piece: bytes) -> Iterator[Any]:
        """Yields the messages that this piece completes. Raises `ProtocolError`."""
        self._data += piece
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            if length > MAX_FRAME_BYTES:
                raise ProtocolError(f"a frame of {length} bytes")
            end = _LENGTH.size + length
            if len(self._data) < end:
                return
            body = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            try:
                yield self._decoder.decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise ProtocolError(str(error)) from None


def claim_pipe() -> tuple[BinaryIO, BinaryIO]:
    """Makes descriptors 0 and 1 private, so that nothing that a library prints can break a frame. For a worker, before
    anything else is loaded.
    """
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb", buffering=0), os.fdopen(replies, "wb", buffering=0)


def be_expendable() -> None:
    """Makes a worker end together with the gateway, be killed before it when memory is short, and leave no core file.
    The gateway has to start it from its main thread.
    """
    import ctypes  # noqa: PLC0415 - a gateway does not need them
    import resource  # noqa: PLC0415
    import signal  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if IS_LINUX:
        # This works even while the worker is stopped and cannot see the end of its pipe.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with suppress(OSError):
            Path(f"{PROC}/self/oom_score_adj").write_text(_KILLED_FIRST, encoding="ascii")


def messages_of(pipe: BinaryIO, kind: object) -> Iterator[Any]:
    """Yields the messages to a worker, until the gateway ends or closes its end."""
    reader = FrameReader(kind)
    while piece := pipe.read(_PIECE_BYTES):
        yield from reader.feed(piece)


def sender(pipe: BinaryIO) -> Callable[[object], None]:
    """Returns a function by which a worker sends a message, from any thread."""
    turn = threading.Lock()

    def send(message: object) -> None:
        data = memoryview(frame(message))
        with turn:
            while data:
                data = data[pipe.write(data) or 0 :]

    return send
