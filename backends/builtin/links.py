"""Where wiki links lead: to a file of that name, else to a note with that alias or title.

Where there are several, it is the one with the shortest path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from backends.builtin.store.port import FileReads
from backends.files.roots import MARKDOWN_SUFFIX

MAX_LINKS: Final = 100
"""The most links that are taken from one text."""
_LINK: Final = re.compile(
    r"\[\[([^\[\]|#\n]{1,300})(?:#[^\[\]|\n]{0,300})?(?:\|[^\[\]\n]{0,300})?\]\]"
)


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
