"""Cuts a stream of bytes into lines, in bounded memory. Pure: no I/O.

Owns what a line is: bytes up to a newline, of at most `limit` bytes, valid UTF-8; a trailing carriage
return, a byte order mark at the start of the stream and blank lines are dropped. A line that breaks a
rule comes out as the error to answer it with, and the stream goes on after it.
"""

from __future__ import annotations

from gateway.rpc.errors import LineTooLongError, OverloadedError, ParseError, RpcError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


SMALL_LINE_BYTES = 65_536
"""Every client may hold so much of a line, whatever the others do."""


class LineRoom:
    """What the unfinished lines of several clients may hold together."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0


class LineSplitter:
    """Incremental: feed it what arrives, in pieces of any size; it holds at most one line.

    `close` it where the `room` is shared and goes on.
    """

    def __init__(self, limit: int, room: LineRoom | None = None) -> None:
        self._limit = limit
        self._room = room or LineRoom(limit + 1)
        self._line = bytearray()
        self._discarding = False
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes | RpcError]:
        """Take the next bytes; return the lines they complete, and errors for bad ones."""
        frames: list[bytes | RpcError] = []
        *ended, rest = data.split(b"\n")
        for piece in ended:
            frames += self._grow(piece)
            frames += self._end_line()
        return frames + self._grow(rest)

    def finish(self) -> list[bytes | RpcError]:
        """End the stream: the last line counts also without a newline."""
        return self._end_line()

    def close(self) -> None:
        """Forget the line that has begun."""
        self._forget()

    def _grow(self, piece: bytes) -> list[bytes | RpcError]:
        if self._discarding:
            return []
        room_for_carriage_return = 1
        size = len(self._line) + len(piece)
        if size > self._limit + room_for_carriage_return:
            return [self._discard(LineTooLongError(self._limit))]
        if size > SMALL_LINE_BYTES and self._room.held_bytes + len(piece) > self._room.limit_bytes:
            return [self._discard(_no_room(self._room))]
        self._line += piece
        self._room.held_bytes += len(piece)
        return []

    def _discard(self, error: RpcError) -> RpcError:
        self._forget()
        self._discarding = True
        return error

    def _forget(self) -> None:
        self._room.held_bytes -= len(self._line)
        self._line.clear()

    def _end_line(self) -> list[bytes | RpcError]:
        discarded, self._discarding = self._discarding, False
        line = bytes(self._line).removesuffix(b"\r")
        self._forget()
        if self._is_first:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._is_first = False
        if discarded or not line or line.isspace():
            return []
        return [self._check(line)]

    def _check(self, line: bytes) -> bytes | RpcError:
        if len(line) > self._limit:
            return LineTooLongError(self._limit)
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return ParseError(f"The line is not valid UTF-8 (byte {error.start}).")
        return line


def _no_room(room: LineRoom) -> RpcError:
    return OverloadedError(
        f"The line was discarded: unfinished lines of all clients hold {room.limit_bytes} bytes.",
        remedy="Send it again, whole and at once.",
    )
