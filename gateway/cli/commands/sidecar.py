"""`qmd`: the QMD of an agent in the hands of a person."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gateway.cli import output
from gateway.cli.options import PROGRAM, Options


def qmd(
    options: Options,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[env | -- ARGS...]", help="`env`, or what QMD is to do."),
    ] = None,
) -> int:
    """Run QMD on the index that the gateway uses; `env` prints the variables for a shell."""
    from backends.qmd.operating import become_qmd, own_variables, shell_lines
    from gateway.cli.loading import load

    settings = load(options)
    if words != ["env"]:
        become_qmd(settings, words or ["--help"], _tell_waiting)
    if options.json:
        output.write_json(own_variables(settings))
        return os.EX_OK
    for line in shell_lines(settings):
        typer.echo(line)
    return os.EX_OK


def _tell_waiting() -> None:
    output.note(f"{PROGRAM}: waiting until the gateway's own upkeep of QMD is done ...")
