"""`report`: everything about a memory on one page, for a person who wants to see it."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from config.errors import ErrorKind
from gateway.cli import output
from gateway.cli.guard import EXIT_CODES
from gateway.cli.options import CommandLineError, Options

if TYPE_CHECKING:
    from config.settings import Settings
    from gateway.cli.access import Access
    from gateway.cli.rendering.page import Report


_STANDARD_OUTPUT: Final = Path("-")


def report(
    options: Options,
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the page to this file; - prints it."
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option("--question", "-q", metavar="TEXT", help="Also search, and explain it."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is no report.")
    ] = False,
) -> int:
    """Write one HTML page that shows what is remembered, searched and wrong.

    It needs no network and no script. With --json the data is printed; --output is optional then.
    """
    from gateway.cli.access import with_memory
    from gateway.cli.options import load

    if file is None and not options.json:
        raise CommandLineError(
            "report needs a file to write to.",
            remedy="Name one: --output report.html; or --json prints the data.",
        )
    is_printed = file == _STANDARD_OUTPUT
    if is_printed and options.json:
        raise CommandLineError(
            "--output - and --json both print something else.", remedy="Leave one of them out."
        )
    settings = load(options)
    if file is not None and not is_printed:
        _check(file, force=force)
    gather = partial(_gather, settings, question)
    made = with_memory(settings, options, gather, patient=question is not None)
    if is_printed:
        from gateway.cli.rendering.page import page_of

        output.write_text(page_of(made))
    elif file is not None:
        _write(file, made)
    if options.json:
        output.write_json(made)
    elif file is not None and not is_printed:
        output.say(f"{file}: open it in any browser.")
    answer = made.answer
    failed = answer is not None and answer.disabled and made.status.enabled
    return EXIT_CODES[ErrorKind.INDEX_UNAVAILABLE] if failed else os.EX_OK


async def _gather(settings: Settings, question: str | None, memory: Access) -> Report:
    """The question is asked last, so that it is not among what was counted."""
    from gateway.cli.rendering.page import Report
    from gateway.session_start import agent_now
    from gateway.tools.search import SearchParams

    status = await memory.status()
    seen = await memory.overview()
    answer = None
    if question is not None:
        answer = await memory.search(SearchParams(query=question, explain=True))
    return Report(
        made_at=agent_now(settings.user_timezone).replace(microsecond=0),
        status=status,
        overview=seen.index,
        counted=seen.counted,
        question=question,
        answer=answer,
    )


def _check(file: Path, *, force: bool) -> None:
    """Before any work is done for it. Raises FileUnwritableError."""
    from backends.errors import FileUnwritableError
    from config.runtime.files import read_file
    from gateway.cli.rendering.page import BEGINNING

    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            raise FileUnwritableError(
                f"{file} is not a regular file.", remedy="Name a file that --output may replace."
            )
        is_ours = read_file(file, len(BEGINNING) - 1) == BEGINNING.encode()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unwritable(file, error) from error
    if not is_ours and not force:
        raise FileUnwritableError(
            f"{file} exists and is no report.",
            remedy="Name another file, or replace this one with --force.",
        )


def _write(file: Path, made: Report) -> None:
    from config.runtime.files import replace_file
    from gateway.cli.rendering.page import page_of

    page = page_of(made).encode()
    try:
        replace_file(file, page)
    except OSError as error:
        raise _unwritable(file, error) from error


def _unwritable(file: Path, error: OSError) -> Exception:
    from backends.errors import FileUnwritableError

    return FileUnwritableError(
        f"{file} cannot be written: {error.strerror}.",
        remedy="Name a file in a directory that exists and that you may write to.",
    )
