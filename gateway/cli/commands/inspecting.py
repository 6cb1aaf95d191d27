"""`status`, `health` and `config`: what there is, how it is, and why it is so."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from config.errors import MemoryGatewayError
from gateway.cli import output
from gateway.cli.exit_codes import HEALTH_CODES
from gateway.cli.options import Options
from gateway.rpc.errors import InvalidParamsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from config.describe import Row
    from config.settings import Settings
    from gateway.tools.health import Health
    from gateway.tools.status import StatusResult


def status(
    options: Options,
    index: Annotated[
        bool, typer.Option("--index", help="Bring the index up to date first.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again and again, until you interrupt it.")
    ] = False,
) -> int:
    """Show what is indexed, from where, and what is wrong with it."""
    import anyio

    from gateway.cli.loading import load

    settings = load(options)
    if watch:
        from gateway.cli.watching import watch_status

        anyio.run(watch_status, _looks(settings, index), options.json)
        return os.EX_OK
    result = anyio.run(partial(_read_status, patient=True), settings, index)
    if options.json:
        output.write_json(result)
        return os.EX_OK
    from gateway.cli.rendering.report import status_lines
    from gateway.cli.terminal import print_lines

    print_lines(status_lines(result))
    return os.EX_OK


def _looks(settings: Settings, index: bool) -> Callable[[], Awaitable[StatusResult]]:
    """One look after the other; only the first brings the index up to date, if so asked."""
    first = iter((index,))
    return lambda: _read_status(settings, next(first, False))


async def _read_status(settings: Settings, index: bool, *, patient: bool = False) -> StatusResult:
    """With `index` after a sync. Raises IndexUnavailableError."""
    from backends.interface import SyncRequest
    from gateway.cli.access import reach_memory
    from gateway.cli.progress import sync_progress

    async with reach_memory(settings, patient=patient) as memory:
        if index:
            with sync_progress() as progress:
                await memory.sync(SyncRequest(reason="cli"), progress=progress)
        return await memory.status()


def health(
    options: Options,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Also try provider, vector engine and QMD; needs the network."),
    ] = False,
) -> int:
    """Say whether memory works; exit code 0 ok, 1 degraded, 2 failing."""
    from gateway.tools.health import judge_health

    try:
        result = _ask_health(options, deep)
    except MemoryGatewayError as error:
        result = judge_health(failure=str(error))
    if options.json:
        output.write_json(result)
        return HEALTH_CODES[result.status]
    from gateway.cli.rendering.report import health_lines
    from gateway.cli.terminal import print_lines

    print_lines(health_lines(result))
    return HEALTH_CODES[result.status]


def _ask_health(options: Options, deep: bool) -> Health:
    import anyio

    from config.groups import ungrouped
    from gateway.cli.loading import load

    with ungrouped():
        return anyio.run(_health, load(options), deep)


async def _health(settings: Settings, deep: bool) -> Health:
    from gateway.cli.access import reach_memory

    async with reach_memory(settings) as memory:
        return await (memory.deep_health() if deep else memory.health())


def config(
    options: Options,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY",
            help="Show only this setting, or those below it, such as memorySearch.query.",
        ),
    ] = None,
    *,
    migrate: Annotated[
        bool,
        typer.Option(
            "--migrate",
            help="Print the file with all that today's OpenClaw refuses moved to where it accepts it.",
        ),
    ] = False,
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="With --migrate: replace the file, and keep the old one beside it."
        ),
    ] = False,
) -> int:
    """Show every setting with its value and where it comes from."""
    if migrate:
        from gateway.cli.migrating import run_migration

        if key is not None:
            output.note("--migrate moves the whole file; leave KEY out.")
            return os.EX_USAGE
        return run_migration(options, write=write)
    if write:
        output.note("--write goes with --migrate.")
        return os.EX_USAGE
    from config.describe import describe_json, describe_rows
    from gateway.cli.loading import load

    settings = load(options)
    rows = describe_rows(settings)
    if key is not None:
        rows = _chosen(rows, key)
    if options.json:
        output.write_json(describe_json(settings, rows))
        return os.EX_OK
    from gateway.cli.rendering.report import config_lines
    from gateway.cli.terminal import print_lines

    print_lines(config_lines(rows))
    for warning in settings.warnings:
        line = f" (line {warning.line})" if warning.line else ""
        output.note(f"Warning: {warning.path}{line}: {warning.message}")
    return os.EX_OK


def _chosen(rows: Sequence[Row], key: str) -> tuple[Row, ...]:
    """Raises InvalidParamsError for what is no setting."""
    from config.describe import nearest_path, rows_of

    found = rows_of(rows, key)
    if found:
        return found
    near = nearest_path(rows, key)
    hint = f"Did you mean {near}? " if near else ""
    raise InvalidParamsError(
        f"There is no setting {key!r}.",
        remedy=f"{hint}`memory-gateway config` shows all of them.",
    )
