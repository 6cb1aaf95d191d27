"""Wiki links: they lead to a file of that name, else to a note with that alias or title; if there are several, to the
one with the shortest path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from backends.builtin.store.port import NoteNames
from backends.files.roots import MARKDOWN_SUFFIX, composed
from backends.text.frontmatter import INLINE_CODE

MAX_LINKS: Final = 100
"""The most links of one text that an answer has."""
_LINK: Final = r"\[\[([^\[\]|#\n]{1,300})(?:#[^\[\]|\n]{0,300})?(?:\|[^\[\]\n]{0,300})?\]\]"


def links_in(text: str, most: int | None = MAX_LINKS) -> tuple[str, ...]:
    """Returns the names that wiki links lead to, without headings and shown names; links in code are left out."""
    text = re.sub(INLINE_CODE, " ", text) if "`" in text and "[[" in text else text
    names = (match[1].strip() for match in re.finditer(_LINK, text))
    return tuple(dict.fromkeys(filter(None, names)))[:most]


class NamedFiles(Protocol):
    def names(self) -> Sequence[NoteNames]:
        """Returns the names of all notes, those with short paths first."""


def resolve_links(files: NamedFiles, names: Iterable[str]) -> dict[str, str]:
    """Returns the paths of the notes that these names lead to; other names are left out."""
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
    return composed(name.strip()).removesuffix(MARKDOWN_SUFFIX).removeprefix("./").casefold()
