"""What notes say of themselves, in the index: title, aliases and tags; and where their links lead.

Owns the rows of `note_facts` and the meaning of a wiki link: a file of that name, else a note with that
alias or title; of several the one with the shortest path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import apsw

from backends.files.encodings import BROKEN, UNKNOWN, UTF8
from backends.files.roots import MARKDOWN_SUFFIX
from backends.text.frontmatter import FrontMatter

MAX_LINKS: Final = 100
"""Of one text."""
_SEPARATOR: Final = "\x1f"
_LINK: Final = re.compile(
    r"\[\[([^\[\]|#\n]{1,300})(?:#[^\[\]|\n]{0,300})?(?:\|[^\[\]\n]{0,300})?\]\]"
)


class Facts(NamedTuple):
    title: str = ""
    tags: tuple[str, ...] = ()


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
    return tuple(_oddity(*row) for row in rows)


def _oddity(encoding: Any, count: Any, path: Any) -> str:
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


def facts_of(connection: apsw.Connection, file_id: int) -> Facts:
    row = connection.execute(
        "SELECT title, tags FROM note_facts WHERE file_id = ?", (file_id,)
    ).fetchone()
    return Facts(row[0], _split(row[1])) if row else Facts()


def all_tags(connection: apsw.Connection) -> Mapping[int, tuple[str, ...]]:
    """By file, of those that have any."""
    rows = connection.execute("SELECT file_id, tags FROM note_facts WHERE tags != ''")
    return {file_id: _split(tags) for file_id, tags in rows}


def links_in(text: str) -> tuple[str, ...]:
    """The names that wiki links of a text lead to, without headings and shown names."""
    names = (match[1].strip() for match in _LINK.finditer(text))
    return tuple(dict.fromkeys(filter(None, names)))[:MAX_LINKS]


def resolve_links(connection: apsw.Connection, names: Iterable[str]) -> dict[str, str]:
    """The paths of those that lead to a note; nothing about the others."""
    wanted = {name: _key(name) for name in names}
    if not wanted:
        return {}
    by_key: dict[str, str] = {}
    rows = [
        (str(path), str(title), str(aliases))
        for path, title, aliases in connection.execute(
            "SELECT f.path, ifnull(n.title, ''), ifnull(n.aliases, '') FROM files AS f"
            " LEFT JOIN note_facts AS n ON n.file_id = f.id WHERE f.source = 'memory'"
            " ORDER BY length(f.path), f.path"
        )
    ]
    for path, _, _ in rows:
        parts = _key(path).split("/")
        for start in range(len(parts)):
            by_key.setdefault("/".join(parts[start:]), path)
    for path, title, aliases in rows:
        for name in (*_split(aliases), title):
            by_key.setdefault(_key(name), path)
    return {name: by_key[key] for name, key in wanted.items() if key in by_key}


def _key(name: str) -> str:
    return name.strip().removesuffix(MARKDOWN_SUFFIX).removeprefix("./").casefold()


def _split(joined: str) -> tuple[str, ...]:
    return tuple(joined.split(_SEPARATOR)) if joined else ()
