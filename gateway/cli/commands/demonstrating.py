"""`demo`: a real gateway, a sample workspace, and questions to it."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from gateway.cli import output
from gateway.cli.options import Options

if TYPE_CHECKING:
    from gateway.sample.demo import Event, Exchange


def demo(options: Options) -> int:
    """Show it at work: a real gateway answers questions about a sample."""
    import anyio

    from gateway.sample.demo import run_demo

    if options.json:
        exchanges: list[Exchange] = []
        complete = anyio.run(run_demo, partial(_record, exchanges), options.log_level)
        output.write_json({"complete": complete, "exchanges": exchanges})
    else:
        complete = anyio.run(run_demo, _show, options.log_level)
    return os.EX_OK if complete else os.EX_SOFTWARE


def _record(exchanges: list[Exchange], event: Event) -> None:
    exchange = getattr(event, "exchange", None)
    if exchange is not None:
        exchanges.append(exchange)


def _show(event: Event) -> None:
    from gateway.cli.rendering.conversation import event_lines
    from gateway.cli.terminal import print_lines

    print_lines(event_lines(event))
