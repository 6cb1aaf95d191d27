"""`recent`, `tags`, `links` and `open`: the notes themselves, without a question."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gateway.cli import output
from gateway.cli.guard import NOTHING_FOUND, NotThereError
from gateway.cli.options import PROGRAM, Options, load

if TYPE_CHECKING:
    from config.settings import Settings
    from gateway.cli import arguments as typed
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
