"""`status --watch`: the same picture drawn again in place on a terminal, a line each time elsewhere.

Owns the pace and the two ways of showing. Every look finds its own way to the memory, so that a gateway
may start or end meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import anyio
from rich.live import Live
from rich.text import Text

from config.errors import MemoryGatewayError
from config.groups import lone_error
from gateway.cli import output
from gateway.cli.rendering.report import status_line, status_lines
from gateway.cli.terminal import console
from gateway.tools.status import StatusResult

_EVERY_S: Final = 2.0

Look = Callable[[], Awaitable[StatusResult]]
Show = Callable[[StatusResult | MemoryGatewayError], None]


async def watch_status(look: Look, as_json: bool) -> None:
    """Until it is interrupted."""
    out = console()
    if as_json:
        await _watch(look, _show_json)
    elif out.is_terminal and not out.is_dumb_terminal:
        with Live(console=out, auto_refresh=False) as live:
            await _watch(look, lambda seen: live.update(_picture(seen), refresh=True))
    else:
        await _watch(look, lambda seen: output.write_line(_line(seen)))


async def _watch(look: Look, show: Show) -> None:
    while True:
        show(await _seen(look))
        await anyio.sleep(_EVERY_S)


async def _seen(look: Look) -> StatusResult | MemoryGatewayError:
    """An index that cannot be read now may be readable at the next look."""
    try:
        return await look()
    except Exception as error:
        cause = lone_error(error)
        if isinstance(cause, MemoryGatewayError):
            return cause
        raise


def _show_json(seen: StatusResult | MemoryGatewayError) -> None:
    if isinstance(seen, StatusResult):
        output.write_json_line(seen)
    else:
        told = {"kind": seen.kind, "message": seen.message, "remedy": seen.remedy}
        output.write_json_line({"error": told})


def _picture(seen: StatusResult | MemoryGatewayError) -> Text:
    lines = [Text(str(seen))]
    if isinstance(seen, StatusResult):
        lines = list(status_lines(seen))
    return Text("\n").join([Text(_now(), style="dim"), *lines])


def _line(seen: StatusResult | MemoryGatewayError) -> str:
    text = status_line(seen) if isinstance(seen, StatusResult) else str(seen)
    return f"{_now()} {text}"


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
