"""`index`: bring the index up to date now, and wait for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import output
from gateway.cli.options import Options

if TYPE_CHECKING:
    from backends.interface import SyncReport
    from config.settings import Settings


def index(
    options: Options,
    force: Annotated[
        bool, typer.Option("--force", help="Index every file again, also unchanged ones.")
    ] = False,
) -> int:
    """Bring the index up to date and wait for it."""
    import anyio

    from gateway.cli.loading import load
    from gateway.cli.rendering.sync import sync_remarks, sync_summary

    report, disabled = anyio.run(_index, load(options), force)
    if report is None:
        if options.json:
            output.write_json({"disabled": True, "reason": disabled})
        else:
            output.note(disabled)
        return os.EX_OK
    if options.json:
        output.write_json(report)
    else:
        output.say(sync_summary(report))
        for remark in sync_remarks(report):
            output.note(remark)
    return os.EX_OK if report.complete and not report.error else os.EX_TEMPFAIL


async def _index(settings: Settings, force: bool) -> tuple[SyncReport | None, str]:
    from backends.interface import SyncRequest
    from gateway.cli.access import reach_memory
    from gateway.cli.progress import sync_progress

    async with reach_memory(settings) as memory:
        with sync_progress() as progress:
            report = await memory.sync(SyncRequest(reason="cli", force=force), progress=progress)
        disabled = "" if report else (await memory.status()).disabled or ""
        return report, disabled
