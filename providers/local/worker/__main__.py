"""The worker process: opens one model and answers requests until its pipe ends.

Descriptors 0 and 1 become private before anything else is loaded, so that nothing llama.cpp or a
library prints can tear a frame.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from providers.local.protocol import (
    Cancel,
    Embed,
    FrameReader,
    Open,
    Opened,
    Ping,
    Pong,
    Refused,
    Reply,
    Request,
    frame,
)

_PIECE_BYTES: Final = 1 << 16
_PR_SET_PDEATHSIG: Final = 1
_KILLED_FIRST: Final = "500"


def main() -> None:
    requests, replies = _claim_pipe()
    _be_expendable()
    messages = _messages(requests)
    first = next(messages, None)
    if isinstance(first, Open):
        _serve(first, messages, _sender(replies))
    # At once, even while a lane is computing: nobody waits for its result any more.
    os._exit(0)


def _serve(order: Open, messages: Iterator[Request], send: Callable[[Reply], None]) -> None:
    from providers.local.worker.llama import (  # noqa: PLC0415 - after the pipe
        Lanes,
        LlamaError,
        LoadedModel,
    )

    try:
        model = LoadedModel(order)
        lanes = Lanes(model, send)
        lanes.warm_up()
    except LlamaError as error:
        send(Refused(str(error)))
        return
    lanes.start()
    send(Opened(order.dimensions or model.width))
    for message in messages:
        match message:
            case Embed():
                lanes.put(message)
            case Cancel(number):
                lanes.cancel(number)
            case Ping():
                send(Pong())


def _claim_pipe() -> tuple[BinaryIO, BinaryIO]:
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb", buffering=0), os.fdopen(replies, "wb", buffering=0)


def _be_expendable() -> None:
    """Ends together with the gateway, is killed before it when memory is short, and leaves no core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        # This works even while the worker is stopped and cannot see the end of its pipe.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_KILLED_FIRST, encoding="ascii")


def _messages(pipe: BinaryIO) -> Iterator[Request]:
    reader = FrameReader(Request)
    while piece := pipe.read(_PIECE_BYTES):
        yield from reader.feed(piece)


def _sender(pipe: BinaryIO) -> Callable[[Reply], None]:
    turn = threading.Lock()

    def send(reply: Reply) -> None:
        data = memoryview(frame(reply))
        with turn:
            while data:
                data = data[pipe.write(data) or 0 :]

    return send


if __name__ == "__main__":
    main()
