"""The worker process: opens one model and answers requests until its pipe ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from config.runtime.worker import be_expendable, claim_pipe, messages_of, sender
from providers.local.protocol import (
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


if __name__ == "__main__":
    main()
