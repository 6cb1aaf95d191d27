"""`metrics`: what the gateway counts, for a monitoring system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import output
from gateway.cli.options import Options

if TYPE_CHECKING:
    from config.settings import Settings
    from gateway.tools.metrics import MetricsResult


def metrics(
    options: Options,
    textfile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write it there, for the textfile collector of the node exporter."
        ),
    ] = None,
) -> int:
    """Print what the running gateway counts, as OpenMetrics text."""
    import anyio

    from gateway.cli.loading import load

    result = anyio.run(_metrics, load(options))
    if options.json:
        output.write_json(result)
        return os.EX_OK
    from gateway.metrics.openmetrics import openmetrics_text, write_textfile

    if textfile is None:
        output.write_text(openmetrics_text(result.families))
        return os.EX_OK
    try:
        write_textfile(textfile, result.families)
    except OSError as error:
        output.note(f"{textfile} cannot be written: {error.strerror}.")
        return os.EX_CANTCREAT
    return os.EX_OK


async def _metrics(settings: Settings) -> MetricsResult:
    from gateway.cli.access import reach_memory

    async with reach_memory(settings) as memory:
        return await memory.metrics()
