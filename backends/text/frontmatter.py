"""What a note says of itself between the two `---` at its beginning.

Only the few keys that memory needs are read: title, aliases, tags and the date. That is a small
part of YAML (scalars, lists in brackets and lists of dashes); whatever else stands there is passed
over, and nothing that stands there can fail a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

import msgspec

from backends.chunking.headings import shorten_title

FRONT_MATTER_VERSION: Final = 3
"""Goes up with every change of what is read: the notes of stored indexes are then prepared again."""
MAX_VALUES: Final = 100
"""The most values of one list; more say nothing about a note."""

# As text: a start reads no front matter, and `re` remembers what it compiled.
_KEY: Final = r"([A-Za-z]+)[ \t]*:(?:[ \t]+(.*))?$"
_ITEM: Final = r"[ \t]*-[ \t]+(.*)$"
_FLOW_ITEM: Final = r"\s*(\"[^\"]*\"|'[^']*'|[^,\[\]]+)"
_DAY: Final = r"(\d{4})-(\d{2})-(\d{2})(?!\d)"
_COMMENT: Final = r"[ \t]#.*$"
_DATES: Final = ("date", "created", "updated")
"""The first that holds one is the date of the note."""
_KEYS: Final = {"alias": "aliases", "name": "aliases", "tag": "tags"}
"""`name` is by what the notes of Claude Code link to each other."""


class FrontMatter(msgspec.Struct, frozen=True):
    title: str = ""
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Without `#`, as written."""
    day: date | None = None
    end: int = 0
    """How many characters of the note come before the line that closes it."""

    @property
    def words(self) -> str:
        """What it adds to the words by which the note is found."""
        return " ".join((self.title, *self.aliases, *self.tags)).strip()


def read_front_matter(text: str) -> FrontMatter:
    """Empty where there is none, or none that we understand."""
    # Not for the start, which cuts no note.
    from backends.chunking.chunker import front_matter  # noqa: PLC0415

    block = front_matter(text)
    if not block:
        return FrontMatter()
    values = dict[str, list[str]]()
    for name, value in _entries(block):
        held = values.setdefault(name, [])
        if len(held) < MAX_VALUES:
            held.append(shorten_title(value))
    tags = (tag.lstrip("#") for one in values.get("tags", ()) for tag in re.split(r"[,\s]+", one))
    return FrontMatter(
        title=next(iter(values.get("title", ())), ""),
        aliases=tuple(values.get("aliases", ())),
        tags=tuple(dict.fromkeys(filter(None, tags)))[:MAX_VALUES],
        day=next(filter(None, (_day(values.get(name)) for name in _DATES)), None),
        end=text.index(block) + len(block),
    )


def told_in(line: str) -> str:
    """What a line of front matter says without its key, which is a word of the form and not of the note."""
    entry = re.match(_KEY, line)
    return line if entry is None else entry[2] or ""


def has_tag(tags: tuple[str, ...], wanted: str) -> bool:
    """Whether one of the tags is the wanted one or lies below it (`project/garden` below `project`)."""
    sought = wanted.strip().lstrip("#").casefold()
    return any(tag == sought or tag.startswith(f"{sought}/") for tag in map(str.casefold, tags))


def _entries(block: str) -> Iterator[tuple[str, str]]:
    """Each key with each of its values, in order."""
    name = ""
    for line in block.split("\n"):
        item = re.match(_ITEM, line) if name else None
        key = re.match(_KEY, line.rstrip())
        if item:
            values = [item[1]]
        elif key:
            lowered = key[1].lower()
            name = _KEYS.get(lowered, lowered)
            values = _values(key[2] or "")
        elif line.strip() and not line[0].isspace():
            name, values = "", []
        else:
            continue
        yield from ((name, value) for value in map(_plain, values) if value)


def _values(written: str) -> list[str]:
    written = written.strip()
    if not written.startswith("["):
        return [written]
    return re.findall(_FLOW_ITEM, written)


def _plain(value: str) -> str:
    """Without quotes, or without a comment; one line."""
    value = value.strip()
    if len(value) > 1 and value[0] in "\"'":
        end = value.find(value[0], 1)
        value = value[1:end] if end > 0 else value[1:]
    else:
        value = re.sub(_COMMENT, "", value)
    return value.strip()


def _day(values: list[str] | None) -> date | None:
    match = re.match(_DAY, values[0]) if values else None
    if match is None:
        return None
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        return None
