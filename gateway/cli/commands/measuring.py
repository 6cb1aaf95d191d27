"""`metrics`: what the gateway counts, for a monitoring system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli import output
from gateway.cli.options import Options


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

    from gateway.cli.access import owner_metrics
    from gateway.cli.loading import load

    result = anyio.run(owner_metrics, load(options))
    if options.json:
        output.write_json(result)
        return os.EX_OK
    from backends.errors import FileUnwritableError
    from gateway.metrics.openmetrics import openmetrics_text, write_textfile

    if textfile is None:
        output.write_text(openmetrics_text(result.families))
        return os.EX_OK
    try:
        write_textfile(textfile, result.families)
    except OSError as error:
        raise FileUnwritableError(
            f"{textfile} cannot be written: {error.strerror}.",
            remedy="Name a file in a directory that exists and that you may write to.",
        ) from error
    return os.EX_OK
