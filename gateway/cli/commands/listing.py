"""`recent`, `tags`, `links`, `open` and `report`: the notes themselves, and a page with everything about them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from config.errors import ErrorKind
from config.runtime.files import read_file, replace_file
from gateway.cli import output
from gateway.cli.guard import EXIT_CODES, NOTHING_FOUND, NotThereError
from gateway.cli.options import PROGRAM, CommandLineError, Options, load

if TYPE_CHECKING:
    from config.settings import Settings
    from gateway.cli import arguments as typed
    from gateway.cli.access import Access
    from gateway.cli.rendering.page import Report
    from gateway.cli.vault import Note, Vault


def recent(options: Options, *, most: typed.MostNotes = 20, tag: typed.OnlyTags = None) -> int:
    """List the notes, newest first: by their day, else by their last change."""
    return list_notes(load(options), options, tag or (), most)


def list_notes(settings: Settings, options: Options, tags: Sequence[str], most: int) -> int:
    """Lists the newest notes with these tags, also for `search --tag` without a query."""
    from gateway.cli.vault import Vault

    vault = Vault(settings)
    notes = vault.newest(tags)[:most]
    return _listed(
        options, vault, notes, map(_summary, notes), "No note has this tag.", len("2026-02-08  ")
    )


def _summary(note: Note) -> str:
    """Returns `2026-02-08  house/boiler.md  Boiler log  #house`."""
    tags = " ".join(f"#{tag}" for tag in note.tags)
    return "  ".join(filter(None, (note.shown_day.isoformat(), note.path, note.title, tags)))


def _listed(
    options: Options,
    vault: Vault,
    found: Sequence[object],
    lines: Iterable[str],
    nothing: str,
    last_cell: int,
) -> int:
    """Prints a list. `last_cell` is where in each line the part begins that wraps on a narrow terminal."""
    code = os.EX_OK if found else NOTHING_FOUND
    if vault.unread:  # then an empty list proves nothing
        output.note(vault.why_not_all())
    elif not found and not options.json:
        output.note(vault.why_missing() or nothing)
    if options.json or not output.is_terminal():
        return output.answer(options, found, *lines, code=code)
    from gateway.cli.terminal import print_lines, row_of

    print_lines(row_of(one, last_cell) for one in lines)
    return code


def tags(options: Options) -> int:
    """List the tags, each with how many notes have it or one below it."""
    from gateway.cli.vault import Vault

    vault = Vault(load(options))
    found = vault.tags()
    nothing = "No note has a tag: `#word` in its text, or `tags:` in its front matter."
    lines = (f"{one.notes:>6,}  #{one.tag}" for one in found)
    return _listed(options, vault, found, lines, nothing, len("     1  "))


def links(options: Options, note: typed.NoteName) -> int:
    """List the notes that a note links to, and those that link to it."""
    from gateway.cli.vault import Vault

    vault = Vault(load(options))
    path = find_note(vault, note)
    found = vault.links(path)
    return output.answer(
        options,
        found,
        f"{path} links to {len(found.to)}, and {len(found.linked_from)} link to it.",
        *(f"  → {one}" for one in found.to),
        *(f"  ← {one}" for one in found.linked_from),
        *(f"  → {_as_linked(name)}, which is no note yet" for name in found.missing),
    )


def _as_linked(name: str) -> str:
    """Returns the link as it is written: Markdown links have file names, wiki links names."""
    return name if name.lower().endswith(".md") else f"[[{name}]]"


def find_note(vault: Vault, name: str) -> str:
    """Returns the path of the note. Raises NotThereError, with similar names."""
    path, near = vault.find(name)
    if path is None:
        listed = f"`{PROGRAM} recent` lists notes, `{PROGRAM} search` looks into them."
        remedy = f"Do you mean {', '.join(near)}?" if near else listed
        if vault.unread:
            remedy = f"{vault.why_not_all()} {remedy}"
        elif not vault.notes:
            remedy = vault.why_missing()
        raise NotThereError(f"There is no note {name}.", remedy=remedy)
    return path


def open_note(
    options: Options,
    note: typed.NoteOrNumber,
    line: typed.AtLine = 1,
    *,
    editor: typed.Program = None,
) -> int:
    """Open a note in an editor: $VISUAL, $EDITOR or the one that is named."""
    from gateway.cli.places import absolute_path, last_hit, open_in_editor
    from gateway.cli.vault import Vault

    if note.isdecimal():
        place = last_hit(int(note))
        if place is None:
            raise NotThereError(
                f"The last search that was shown on a terminal had no hit {note}.",
                remedy=f"`{PROGRAM} search` numbers its hits.",
            )
        open_in_editor(*place, editor)
        return os.EX_OK
    settings = load(options)
    path = find_note(Vault(settings), note)
    open_in_editor(absolute_path(str(settings.workspace), path), line, editor)
    return os.EX_OK


# --- The report -----------------------------------------------------------------------------------

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
    from backends.interface import FileUnwritableError, unwritable
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
    from backends.interface import unwritable
    from gateway.cli.rendering.page import page_of

    page = page_of(made)
    if file == _STANDARD_OUTPUT:
        output.write_text(page)
        return
    try:
        replace_file(file, page.encode())
    except OSError as error:
        raise unwritable(file, error) from error
