"""Everything that can be typed, put together for typer: commands, help, completion, `--version`.

Owns the list of commands. Mistakes in a command line become our own errors, so that they read and end
like all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from gateway.cli.commands.asking import get, remember, search
from gateway.cli.commands.indexing import (
    cancel_batch,
    index,
    list_batches,
    list_models,
    pull,
    qmd,
    remove,
)
from gateway.cli.commands.inspecting import config, doctor, health, metrics, status
from gateway.cli.commands.serving import demo, reload, serve, service
from gateway.cli.guard import Command, with_options
from gateway.cli.options import PROGRAM, SERVE_OPTIONS
from gateway.rpc.wire import InvalidParamsError

app = typer.Typer(
    help="Makes the plain-Markdown memory of an AI agent searchable.",
    epilog=f"New here? `{PROGRAM} demo` shows it at work.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(cls=Command)(with_options(serve, SERVE_OPTIONS))
for _command in (
    index,
    search,
    get,
    remember,
    status,
    health,
    doctor,
    reload,
    metrics,
    service,
    config,
    qmd,
    demo,
):
    app.command(cls=Command)(with_options(_command))

_models = typer.Typer(help="Show, download and remove the models of local embeddings.")
_models.command("list", cls=Command)(with_options(list_models))
_models.command(cls=Command)(with_options(pull))
_models.command(cls=Command)(with_options(remove))
app.add_typer(_models, name="models")

_batch = typer.Typer(help="Show and cancel the batch jobs that embed a large backlog.")
_batch.command("list", cls=Command)(with_options(list_batches))
_batch.command("cancel", cls=Command)(with_options(cancel_batch))
app.add_typer(_batch, name="batch")


def _print_version(asked: bool) -> None:
    if asked:
        from gateway.version import VERSION

        typer.echo(f"{PROGRAM} {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def run_app(arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit code. Raises InvalidParamsError for a wrong one."""
    command = typer.main.get_command(app)
    try:
        code = command.main(list(arguments) or ["--help"], PROGRAM, standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else PROGRAM
        raise InvalidParamsError(
            error.format_message(), remedy=f"`{path} --help` lists what there is."
        ) from error
    return int(code or 0)
