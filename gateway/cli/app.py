"""Everything that can be typed, put together for typer: commands, help, completion, `--version`.

Owns the list of commands. Mistakes in a command line become our own errors, so that they read and end
like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from gateway.cli.commands.asking import get, remember, search
from gateway.cli.commands.connecting import connect, disconnect
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
from gateway.cli.options import PROGRAM, SERVE_OPTIONS, SHARED_OPTIONS, SharedOption
from gateway.cli.shared import Command, with_options
from gateway.rpc.wire import InvalidParamsError

app = typer.Typer(
    help="Makes the plain-Markdown memory of an AI agent searchable.",
    epilog=f"`{PROGRAM} demo` shows it at work, `help COMMAND` how a command is used.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _add(
    group: typer.Typer,
    command: Callable[..., int],
    name: str | None = None,
    *,
    options: Sequence[SharedOption] = SHARED_OPTIONS,
) -> None:
    """With the first paragraph of its help in the list of commands, which typer would cut to one line."""
    summary = " ".join((command.__doc__ or "").split("\n\n")[0].split())
    group.command(name, short_help=summary, cls=Command)(with_options(command, options))


_add(app, serve, options=SERVE_OPTIONS)
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
    connect,
    disconnect,
    config,
    qmd,
    demo,
):
    _add(app, _command)

_MODELS = "Show, download and remove the models of local embeddings."
_models = typer.Typer(help=_MODELS, short_help=_MODELS)
_add(_models, list_models, "list")
_add(_models, pull)
_add(_models, remove)
app.add_typer(_models, name="models")

_BATCH = "Show and cancel the batch jobs that embed a large backlog."
_batch = typer.Typer(help=_BATCH, short_help=_BATCH)
_add(_batch, list_batches, "list")
_add(_batch, cancel_batch, "cancel")
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
    given = list(arguments) or ["--help"]
    if given[0] == "help":
        given = [*given[1:], "--help"]
    try:
        code = command.main(given, PROGRAM, standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else PROGRAM
        raise InvalidParamsError(
            error.format_message(), remedy=f"`{path} --help` lists what there is."
        ) from error
    return int(code or 0)
