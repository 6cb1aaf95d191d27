"""`forget`: what is kept of a note or a conversation that is gone, and removing it for good."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from gateway.cli import output
from gateway.cli.guard import NOT_FOUND
from gateway.cli.options import Options
from gateway.rpc.wire import InvalidParamsError

if TYPE_CHECKING:
    from backends.interface import ForgetReport


def forget(
    options: Options,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH", help="As results show it: memory/2026-02-08.md, sessions/..."
        ),
    ] = None,
    *,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="All that is dated so long ago: 90d, 12h."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Show what is kept of notes and conversations that are gone, and remove it from everything that is ours.

    Afterwards all files of the index are searched for their lines. Markdown is never touched: what is still there stays
    indexed. With --json nothing is removed without --yes.
    """
    from gateway.cli.access import with_memory
    from gateway.cli.options import load
    from gateway.tools.forget import ForgetParams

    settings = load(options)
    params = ForgetParams(path=path, older_than_ms=_age(older_than))
    params.request()
    report = with_memory(settings, options, lambda memory: memory.forget(params))
    if not options.json:
        _show(report)
    wanted = yes or (
        not options.json and any(not one.is_there for one in report.kept) and _agreed()
    )
    if wanted:
        params = replace(params, remove=True)
        report = with_memory(settings, options, lambda memory: memory.forget(params))
    if options.json:
        output.write_json(report)
    elif wanted:
        _tell(report)
    if report.found:
        return os.EX_UNAVAILABLE
    return os.EX_OK if report.kept or wanted else NOT_FOUND


def _age(text: str | None) -> int | None:
    from config.keys.kinds import parse_duration

    if text is None:
        return None
    try:
        return parse_duration(text, "d")
    except ValueError as error:
        raise InvalidParamsError(f"--older-than: {error}.", remedy="Say for example 90d.") from None


def _show(report: ForgetReport) -> None:
    from gateway.cli.rendering.words import counted

    if not report.kept:
        output.say("Nothing is kept of it.")
    for one in report.kept:
        fate = (
            "; the file is still there and stays indexed: delete it first" if one.is_there else ""
        )
        output.say(f"{one.path}: {counted(one.chunks, 'chunk')}{fate}")


def _agreed() -> bool:
    if not output.may_ask():
        raise InvalidParamsError(
            "Nothing was removed: nobody is there to be asked.", remedy="--yes removes it."
        )
    if output.ask("Remove what is kept of files that are gone?", default=False):
        return True
    output.note("Nothing was removed.")
    return False


def _tell(report: ForgetReport) -> None:
    from gateway.cli.rendering.words import counted

    output.say(f"Removed: {report.removed}. What was deleted before is erased, too.")
    if report.searched_for and report.files:
        lines, files = counted(report.searched_for, "line"), counted(len(report.files), "file")
        where = f"found in {', '.join(report.found)}" if report.found else "none was found"
        output.say(f"{lines} of it looked for in {files} of the index: {where}.")
    for remark in report.remarks:
        output.note(remark)
