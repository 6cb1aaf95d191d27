"""What notes say of themselves, in the index: title, aliases and tags; and where their links lead.

Owns the rows of `note_facts` and the meaning of a wiki link: a file of that name, else a note with that
alias or title; of several the one with the shortest path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import apsw

from backends.builtin.store.port import FileReads
from backends.files.encodings import BROKEN, UTF8
from backends.files.roots import MARKDOWN_SUFFIX
from backends.text.frontmatter import FrontMatter

MAX_LINKS: Final = 100
"""Of one text."""
_SEPARATOR: Final = "\x1f"
_LINK: Final = re.compile(
    r"\[\[([^\[\]|#\n]{1,300})(?:#[^\[\]|\n]{0,300})?(?:\|[^\[\]\n]{0,300})?\]\]"
)


def remember_facts(
    connection: apsw.Connection, file_id: int, facts: FrontMatter, encoding: str
) -> None:
    connection.execute("DELETE FROM note_facts WHERE file_id = ?", (file_id,))
    encoding = "" if encoding == UTF8 else encoding
    if facts.words or encoding:
        aliases, tags = _SEPARATOR.join(facts.aliases), _SEPARATOR.join(facts.tags)
        connection.execute(
            "INSERT INTO note_facts (file_id, title, aliases, tags, encoding)"
            " VALUES (?, ?, ?, ?, ?)",
            (file_id, facts.title, aliases, tags, encoding),
        )


def odd_encodings(connection: apsw.Connection) -> tuple[str, ...]:
    """A sentence for each encoding but UTF-8 that notes are in."""
    rows = connection.execute(
        "SELECT n.encoding, count(*), min(f.path) FROM note_facts AS n"
        " JOIN files AS f ON f.id = n.file_id WHERE n.encoding != '' GROUP BY n.encoding"
    ).fetchall()
    return tuple(_oddity(str(encoding), count, path) for encoding, count, path in rows)


def _oddity(encoding: str, count: object, path: object) -> str:
    if encoding == BROKEN:
        return (
            f"Notes that are neither UTF-8 nor UTF-16 nor Windows-1252: {count} ({path}); what cannot "
            "be read in them is shown as U+FFFD. Save them as UTF-8."
        )
    return f"Notes that are {encoding}, not UTF-8, and are read as such: {count} ({path})."


def links_in(text: str) -> tuple[str, ...]:
    """The names that wiki links of a text lead to, without headings and shown names."""
    names = (match[1].strip() for match in _LINK.finditer(text))
    return tuple(dict.fromkeys(filter(None, names)))[:MAX_LINKS]


def resolve_links(files: FileReads, names: Iterable[str]) -> dict[str, str]:
    """The paths of those that lead to a note; nothing about the others."""
    wanted = {name: _key(name) for name in names}
    if not wanted:
        return {}
    by_key: dict[str, str] = {}
    notes = files.names()
    for note in notes:
        parts = _key(note.path).split("/")
        for start in range(len(parts)):
            by_key.setdefault("/".join(parts[start:]), note.path)
    for note in notes:
        for name in (*note.aliases, note.title):
            by_key.setdefault(_key(name), note.path)
    return {name: by_key[key] for name, key in wanted.items() if key in by_key}


def _key(name: str) -> str:
    return name.strip().removesuffix(MARKDOWN_SUFFIX).removeprefix("./").casefold()
