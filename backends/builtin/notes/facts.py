"""Where wiki links lead: to a file of that name, else to a note with that alias or title.

Of several the one with the shortest path. And what is said of notes that are not UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from backends.builtin.store.port import FileReads
from backends.files.encodings import BROKEN, UNKNOWN
from backends.files.roots import MARKDOWN_SUFFIX

MAX_LINKS: Final = 100
"""Of one text."""
_LINK: Final = re.compile(
    r"\[\[([^\[\]|#\n]{1,300})(?:#[^\[\]|\n]{0,300})?(?:\|[^\[\]\n]{0,300})?\]\]"
)


def odd_encodings(files: FileReads) -> tuple[str, ...]:
    """A sentence for each encoding but UTF-8 that notes are in."""
    return tuple(_oddity(*one) for one in files.odd_encodings())


def _oddity(encoding: str, count: int, path: str) -> str:
    notes = f"{path}" if count == 1 else f"{count:,} notes, such as {path},"
    is_or_are = "is" if count == 1 else "are"
    if encoding == UNKNOWN:
        return (
            f"{notes} {is_or_are} not searched: no text in UTF-8, UTF-16 or Windows-1252. "
            "If it is text, save it as UTF-8."
        )
    if encoding == BROKEN:
        return (
            f"{notes} {is_or_are} not quite UTF-8; what cannot be read is shown as U+FFFD. "
            "Save it as UTF-8."
        )
    return f"{notes} {is_or_are} read as {encoding}, which takes guessing. Save it as UTF-8."


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
