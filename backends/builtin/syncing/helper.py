"""A process that prepares notes for this one while a large backlog is indexed.

Python runs one thread of a process at a time: work in another process does not slow down searches. The helper
gets texts and returns rows; it opens no file, knows no secret and ends with the sync. What it does not do,
for whatever reason, is left to its caller; a helper that ended is not replaced.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
from anyio.abc import Process

from backends.builtin.store.port import PreparedFile
from backends.builtin.syncing.preparing import Preparer
from backends.chunking import ChunkLimits
from config.runtime.children import end_child, start_child
from config.runtime.logs import Log
from config.runtime.start import command_of
from config.runtime.tasks import lacks_threads
from config.runtime.worker import (
    FrameReader,
    ProtocolError,
    be_expendable,
    claim_pipe,
    frame,
    messages_of,
    sender,
)

WORTH_BYTES: Final = 1_000_000
"""The bytes of notes that are worth a helper: fewer are indexed before the process would have started."""
MOST_BYTES: Final = 1_000_000
"""The most bytes of one note: more would take memory twice, and long work belongs where its time is limited."""
PATIENCE_S: Final = 30.0
"""The time to wait for the rows of some notes, which take hundredths of that on an idle machine."""
_WORDS_BYTES: Final = 16 * 1024 * 1024
"""Twice what the gateway has for them, for a short time: a backlog has more different words than notes of a day."""
_NICER: Final = 5
_PIECE_BYTES: Final = 1 << 18

COMMAND: Final = command_of("backends.builtin.syncing.helper")
_PASSED: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

_log = Log()


class _Order(msgspec.Struct, frozen=True):
    limits: ChunkLimits
    pipeline: str
    """The pipeline of the caller: the program may have been replaced since the caller started."""
    notes: Sequence[tuple[str, str]]
    """Paths and texts."""


_Rows = list[PreparedFile | None]


class Helper:
    """The helper process, for one thread at a time. No failure of it is raised."""

    def __init__(self, channel: socket.socket, preparer: Preparer) -> None:
        channel.settimeout(PATIENCE_S)
        self._channel = channel
        self._preparer = preparer
        self._reader = FrameReader(_Rows)
        self._found: list[_Rows] = []
        self._is_gone = False
        # Closed only when no thread can be reading from it any more: one that was left behind may be.
        weakref.finalize(self, channel.close)

    def send(self, notes: Sequence[tuple[str, str]]) -> None:
        """Asks for the rows of these notes: paths and texts."""
        if self._is_gone:
            return
        order = _Order(self._preparer.limits, self._preparer.notes_pipeline, notes)
        try:
            self._channel.sendall(frame(order))
        except (OSError, UnicodeEncodeError) as error:
            self._give_up(error)

    def receive(self, count: int) -> Sequence[PreparedFile | None]:
        """Returns the rows of the first notes that were sent and not received yet; `count` is their number.

        None for a note that the helper did not prepare: the cause shows when this process prepares it.
        """
        while not self._found and not self._is_gone:
            try:
                piece = self._channel.recv(_PIECE_BYTES)
                self._found.extend(self._reader.feed(piece))
                if not piece:
                    raise BrokenPipeError
            except (OSError, ProtocolError) as error:
                self._give_up(error)
        rows = self._found.pop(0) if self._found else []
        return rows if len(rows) == count else [None] * count

    def end(self) -> None:
        """Ends the exchange; a thread that waits for the helper stops waiting."""
        self._is_gone = True
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)

    def _give_up(self, error: Exception) -> None:
        if not self._is_gone:
            cause = "it ended" if isinstance(error, ConnectionError) else str(error)
            _log.warning("notes are prepared without the helper process", cause=cause)
        self.end()


def is_worth(sizes: Sequence[int]) -> bool:
    """Returns whether notes of so many bytes keep a process busy, and there is a processor for it."""
    return sum(size for size in sizes if size <= MOST_BYTES) >= WORTH_BYTES and _processors() > 1


def _processors() -> int:
    """Returns how many this process may use. A limit of their time matters less: the work is the same."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@asynccontextmanager
async def helped(preparer: Preparer, sizes: Sequence[int]) -> AsyncIterator[Helper | None]:
    """Yields a helper for the time of the block, if it `is_worth` that and can be started; otherwise None.

    Call it on the main thread: the helper ends together with the thread that started it.
    """
    started = await _started(preparer) if is_worth(sizes) else None
    if started is None:
        yield None
        return
    helper, child = started
    try:
        yield helper
    finally:
        helper.end()
        await end_child(child)


async def _started(preparer: Preparer) -> tuple[Helper, Process] | None:
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    try:
        ours, theirs = socket.socketpair()
        helper = Helper(ours, preparer)
        with theirs:
            channel = theirs.fileno()
            return helper, await start_child(COMMAND, environment, directory="/", channel=channel)
    except (OSError, RuntimeError) as error:
        if not (isinstance(error, OSError) or lacks_threads(error)):
            raise
        _log.warning("the helper process cannot be started", cause=str(error))
        return None


def main() -> None:
    """Runs the helper process."""
    requests, replies = claim_pipe()
    be_expendable()
    with suppress(OSError):  # a sandbox may forbid it
        os.nice(_NICER)
    orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()

    def read() -> None:
        """Reads all the time: the sender must not wait for rows to be made, nor this process for them to be read."""
        try:
            for order in messages_of(requests, _Order):
                orders.put(order)
        finally:
            os._exit(0)  # nobody waits for what is being prepared

    threading.Thread(target=read, daemon=True).start()
    send, order = sender(replies), orders.get()
    preparer = Preparer(order.limits, words_bytes=_WORDS_BYTES)
    while True:
        is_same = order.pipeline == preparer.notes_pipeline
        send([_prepared(preparer, *note) if is_same else None for note in order.notes])
        order = orders.get()


def _prepared(preparer: Preparer, path: str, text: str) -> PreparedFile | None:
    try:
        return preparer.prepare(path, text)
    except Exception:  # noqa: BLE001 - the caller meets it again, and reports it
        return None


if __name__ == "__main__":
    main()
