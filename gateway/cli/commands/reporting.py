"""`report`: everything about a memory on one page, for a person who wants to see it."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from config.errors import ErrorKind
from config.runtime.files import read_file, replace_file
from gateway.cli import output
from gateway.cli.guard import EXIT_CODES
from gateway.cli.options import CommandLineError, Options, load

if TYPE_CHECKING:
    from config.settings import Settings
    from gateway.cli import arguments as typed
    from gateway.cli.access import Access
    from gateway.cli.rendering.page import Report


_STANDARD_OUTPUT: Final = Path("-")
_NAME: Final = "memory-report.html"
"""The page in the home directory: browsers in a sandbox (snap, Flatpak) may not read hidden directories or /tmp."""


def report(
    options: Options,
    *,
    file: typed.PageFile = None,
    question: typed.Question = None,
    with_text: typed.WithText = False,
    opens: typed.Opens = False,
    force: typed.ReplaceOther = False,
) -> int:
    """Write one HTML page to browse: what the notes know, and the figures of the index.

    It needs no network and no server. With --json the data is printed; --output is optional then.
    """
    from gateway.cli.access import with_memory

    file = _place(file, options, opens=opens)
    is_printed = file == _STANDARD_OUTPUT
    settings = load(options)
    if file is not None and not is_printed:
        _check(file, force=force)
    gather = partial(_gather, settings, question, with_text)
    made = with_memory(settings, options, gather, patient=question is not None)
    if file is not None:
        _write(file, made)
    if options.json:
        output.write_json(made)
    elif not is_printed:
        output.say(f"{file}" if opens else f"{file}: open it in any browser.")
    if opens and file is not None:
        _open(file)
    answer = made.answer
    failed = answer is not None and answer.disabled and made.status.enabled
    return EXIT_CODES[ErrorKind.INDEX_UNAVAILABLE] if failed else os.EX_OK


def _place(file: Path | None, options: Options, *, opens: bool) -> Path | None:
    """Returns the file for the page; None if only data is printed. Raises CommandLineError."""
    if file is None and opens:
        return Path.home() / _NAME
    if file is None and not options.json:
        raise CommandLineError(
            "report needs a file to write to.",
            remedy="Name one: --output report.html; --open shows it at once, and --json prints the data.",
        )
    other = "--open" if opens else "--json" if options.json else ""
    if file == _STANDARD_OUTPUT and other:
        reason = "needs a file" if opens else "prints something else"
        raise CommandLineError(
            f"--output - prints the page, and {other} {reason}.", remedy="Leave one of them out."
        )
    return file


async def _gather(
    settings: Settings, question: str | None, with_text: bool, memory: Access
) -> Report:
    """Gathers the report, after a sync if nothing is indexed. The question comes last, so that it is not counted."""
    from backends.interface import SyncRequest
    from gateway.cli.progress import sync_progress
    from gateway.cli.rendering.page import Report
    from gateway.cli.vault import known_of
    from gateway.tools.search import SearchParams, agent_now

    status = await memory.status()
    if status.enabled and not status.files:
        with sync_progress() as progress:
            await memory.sync(SyncRequest(reason="report"), progress)
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
        known=known_of(settings, with_text=with_text) if status.enabled else None,
    )


def _open(file: Path) -> None:
    """Opens the page in a browser. That there is none is no failure: the page is written."""
    import webbrowser

    if not webbrowser.open(file.absolute().as_uri()):
        output.note(f"There is no browser to open it with: open {file} yourself.")


def _check(file: Path, *, force: bool) -> None:
    """Checks the file before any work is done for it. Raises FileUnwritableError."""
    from backends.backend_errors import FileUnwritableError, unwritable
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
        raise unwritable(file, error) from error
    if not is_ours and not force:
        raise FileUnwritableError(
            f"{file} exists and is no report.",
            remedy="Name another file, or replace this one with --force.",
        )


def _write(file: Path, made: Report) -> None:
    from backends.backend_errors import unwritable
    from gateway.cli.rendering.page import page_of

    page = page_of(made)
    if file == _STANDARD_OUTPUT:
        output.write_text(page)
        return
    try:
        replace_file(file, page.encode())
    except OSError as error:
        raise unwritable(file, error) from error
