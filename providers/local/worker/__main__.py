"""The worker process: opens one model and answers requests until its pipe ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from config.runtime.worker import be_expendable, claim_pipe, messages_of, sender
from providers.local.worker import (
    Cancel,
    Embed,
    Open,
    Opened,
    Ping,
    Pong,
    Refused,
    Reply,
    Request,
)

if TYPE_CHECKING:
    from providers.local.worker.lanes import LoadedEngine


def main() -> None:
    requests, replies = claim_pipe()
    be_expendable()
    messages = messages_of(requests, Request)
    first = next(messages, None)
    if isinstance(first, Open):
        _serve(first, messages, sender(replies))
    # At once, even while a lane is computing: nobody waits for its result any more.
    os._exit(0)


def _serve(order: Open, messages: Iterator[Request], send: Callable[[Reply], None]) -> None:
    from providers.local.worker.lanes import EngineError, WorkerLanes  # noqa: PLC0415 - after the pipe

    try:
        engine = loaded(order)
        if (order.dimensions or 0) > engine.width:
            raise EngineError(f"it gives {engine.width} dimensions, not {order.dimensions}")
        lanes = WorkerLanes(engine, send)
        lanes.warm_up()
    except EngineError as error:
        send(Refused(str(error)))
        return
    except MemoryError:
        send(Refused("there is not enough memory to compute with the model"))
        return
    lanes.start()
    send(Opened(order.dimensions or engine.width))
    for message in messages:
        match message:
            case Embed():
                lanes.put(message)
            case Cancel(number):
                lanes.cancel(number)
            case Ping():
                send(Pong())


def loaded(order: Open) -> LoadedEngine:
    """Loads the model with its engine, which only a worker that needs it imports. Raises EngineError."""
    if order.engine == "onnxruntime":
        from providers.local.worker.onnx import OnnxModel  # noqa: PLC0415

        return OnnxModel(order)
    from providers.local.worker.llama import LlamaEngine  # noqa: PLC0415

    return LlamaEngine(order)


if __name__ == "__main__":
    main()
