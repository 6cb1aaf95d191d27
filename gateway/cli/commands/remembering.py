"""`remember`: an entry for today's log, or for `MEMORY.md`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gateway.cli import output
from gateway.cli.options import Options

if TYPE_CHECKING:
    from config.settings import Settings
    from gateway.tools.append import AppendParams, AppendResult

_MARKED: Final = re.compile(r"([-*+>]|#{1,6}|\d{1,9}[.)])\s|```|\|")


def remember(
    options: Options,
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="What to write down.")],
    *,
    longterm: Annotated[
        bool, typer.Option("--longterm", help="Append it to MEMORY.md instead.")
    ] = False,
) -> int:
    """Append an entry to today's log; the next search finds it."""
    import anyio

    from gateway.cli.loading import load
    from gateway.tools.append import AppendParams

    params = AppendParams(text=_as_item(" ".join(text)), target="longterm" if longterm else "daily")
    result = anyio.run(_append, load(options), params)
    if options.json:
        output.write_json(result)
    elif result.error:
        output.note(result.error)
    else:
        output.say(f"{result.path}:{result.start_line}-{result.end_line}")
    return os.EX_UNAVAILABLE if result.error else os.EX_OK


def _as_item(text: str) -> str:
    """A line becomes an item, lest it runs on the one before it; what is Markdown already stays so."""
    is_one_line = text.strip() and "\n" not in text.strip()
    return f"- {text.strip()}" if is_one_line and not _MARKED.match(text.strip()) else text


async def _append(settings: Settings, params: AppendParams) -> AppendResult:
    from gateway.cli.access import reach_memory

    async with reach_memory(settings) as memory:
        return await memory.append(params)
