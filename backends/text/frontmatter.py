"""The metadata of a note: front matter between two `---` at its start, properties of Logseq, the fields that Joplin
appends to an export, and `#tags` in its text.

Only the few keys that memory needs are read: title, aliases, tags and the date. That is a small part of YAML (scalars,
flow sequences and block sequences); everything else is skipped, and nothing in it can make a note fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

import msgspec

from backends.chunking import Fence, fence_below, shorten_title
from backends.text.times import date_in

FRONT_MATTER_VERSION: Final = 8
"""Increases with every change of what is read: the notes of stored indexes are then prepared again."""
MAX_VALUES: Final = 100
"""The most values of one list; more say nothing about a note."""

# As strings: a start reads no front matter, and `re` remembers what it compiled.
_KEY: Final = r"([A-Za-z]+)[ \t]*:(?:[ \t]+(.*))?$"
_FIELD: Final = r"([^\W\d_][\w -]*?)[ \t]*:[ \t]+\S"
"""A field with a name in words, in any script, and a value."""
_ITEM: Final = r"[ \t]*-[ \t]+(.*)$"
_FLOW_ITEM: Final = r"\s*(\"[^\"]*\"|'[^']*'|[^,\[\]]+)"
_DAY: Final = r"(\d{4})([-/])(\d{2})\2(\d{2})(?!\d)"
_BLOCK: Final = r"[>|][+-]?[1-9]?[+-]?"
"""The header of a block scalar, whose value is the indented lines below; of a title the first of them counts."""
_COMMENT: Final = r"[ \t]#.*$"
_NULL: Final = ("~", "null", "Null", "NULL")
_WRITTEN_TAG: Final = r"\[\[([^\[\]\n]+)\]\]|[^,\s]+"
_DATES: Final = ("date", "created", "updated")
"""The first one with a date is the date of the note."""
_KEYS: Final = {"alias": "aliases", "name": "aliases", "tag": "tags"}
"""Notes of Claude Code link to each other by `name`."""


class FrontMatter(msgspec.Struct, frozen=True):
    title: str = ""
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Without `#`, as written."""
    day: date | None = None
    said_tags: tuple[str, ...] = ()
    """Those of the `tags` that are not in front matter but in the text: each is indexed only where it occurs."""
    end: int = 0
    """The number of characters before the line that closes the front matter."""

    @property
    def words(self) -> str:
        """The words that it adds to those by which the note is found."""
        tags = (tag for tag in self.tags if tag not in self.said_tags)
        return " ".join((self.title, *self.aliases, *tags)).strip()


def read_front_matter(text: str) -> FrontMatter:
    """Returns the metadata of a note: empty if there is none that we understand, and no tag in the text."""
    # Not imported at start, when no note is cut.
    from backends.chunking.chunker import front_matter  # noqa: PLC0415

    block = front_matter(text) or ""
    end = text.index(block) + len(block) if block else 0
    values = dict[str, list[str]]()
    for name, value in _entries(block) if block else _entries_outside(text):
        known = values.setdefault(name, [])
        if len(known) < MAX_VALUES:
            known.append(shorten_title(value))
    written = (
        (tag[1] or tag[0]).lstrip("#")
        for one in values.get("tags", ())
        for tag in re.finditer(_WRITTEN_TAG, one)
    )
    tags = tuple(dict.fromkeys(filter(None, written)))[:MAX_VALUES]
    said = tuple(tag for tag in tags_in(text[end:]) if tag not in tags)[: MAX_VALUES - len(tags)]
    return FrontMatter(
        title=next(iter(values.get("title", ())), ""),
        aliases=tuple(values.get("aliases", ())),
        tags=(*tags, *said),
        day=next(filter(None, (_day(values.get(name)) for name in _DATES)), None),
        said_tags=said,
        end=end,
    )


_PROPERTY: Final = r"(?:- )?([A-Za-z][\w-]*)::[ \t]+(.+)$"
"""A property of a page of Logseq: they are its first lines."""


def _entries_outside(text: str) -> Iterator[tuple[str, str]]:
    yield from _properties(text)
    exported = re.search(_EXPORTED, text) if "\ntype_: " in text[-_END_OF_EXPORT:] else None
    if exported is not None:
        yield "title", text.lstrip().partition("\n")[0]
        yield from re.findall(r"^(created)_time: (\S+)", exported[0], re.MULTILINE)


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for line in text[:_MOST_PROPERTIES].split("\n"):
        match = re.match(_PROPERTY, line.rstrip())
        if match is None:
            return
        name = _KEYS.get(lowered := match[1].lower(), lowered)
        for value in match[2].split(",") if name in _LISTS else [match[2]]:
            plain = value.strip().removeprefix("#")
            yield name, plain if name == "tags" else plain.strip("[]")


_LISTS: Final = ("tags", "aliases")
_END_OF_EXPORT: Final = 100
_MOST_PROPERTIES: Final = 10_000
"""Characters."""
_TAG: Final = r"(?<!\S)#(?:\[\[([^\[\]\n]{1,100})\]\]|([\w][\w/-]{0,99}))(?![\w/#-])"
INLINE_CODE: Final = r"(?<!`)(`++)(?!`).*?(?<!`)\1(?!`)"
"""A code span. Each run of backticks is tried once, from its start: a line of thousands is no slower than others."""
_COLOUR: Final = r"(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})"


def tags_in(text: str) -> tuple[str, ...]:
    """Returns the `#tags` and `#nested/tags` of a text, without `#`; none in code, and no colours or numbers."""
    if "#" not in text:
        return ()
    found: dict[str, None] = {}
    fence: Fence | None = None
    for line in text.split("\n"):
        above, fence = fence, fence_below(line, fence)
        if above is None and fence is None and "#" in line:
            for match in re.finditer(_TAG, re.sub(INLINE_CODE, " ", line)):
                tag = match[1] or match[2].strip("/-")
                if not _is_no_tag(tag):
                    found.setdefault(tag)
        if len(found) >= MAX_VALUES:
            break
    return tuple(found)


def _is_no_tag(tag: str) -> bool:
    """`#12` is an issue; `#fff` and `#1e90ff` are colours, `#cafe` is not."""
    if not any(map(str.isalpha, tag)):
        return True
    lowered = tag.lower()
    is_colour = re.fullmatch(_COLOUR, lowered) is not None
    return is_colour and (any(map(str.isdigit, lowered)) or len(set(lowered)) == 1)


_NOISE: Final = (
    r"^[ \t]*(?:- )?(?:id|collapsed|heading|created-at|updated-at|logseq\.[\w.-]+|hl-[\w-]+|ls-type|card-[\w-]+)::"
    r"[^\n]*$|^[ \t]*:LOGBOOK:[ \t]*$(?s:.{0,5000}?)^[ \t]*:END:[ \t]*$"
)
_BLOCK_ID: Final = r"[ \t]\^[0-9a-f]{6}(?=[ \t]*$)"
"""The id that Obsidian generates for a block that is linked to; an id with a name may be more than an id."""
_EXPORTED: Final = r"\n\nid: [0-9a-f]{32}\n(?:[a-z_]+:[^\n]*\n){3,60}type_: \d+\s*\Z"
"""The fields that Joplin appends to each note of a raw export."""


def without_noise(text: str) -> str:
    """Returns the text without what programs keep in it for themselves: ids of blocks, fold states, logbooks. Line
    numbers do not change.
    """
    if ":: " in text or ":LOGBOOK:" in text:
        text = re.sub(_NOISE, _blank, text, flags=re.MULTILINE)
    if "\ntype_: " in text[-_END_OF_EXPORT:]:
        text = re.sub(_EXPORTED, _blank, text)
    if " ^" in text:
        text = re.sub(_BLOCK_ID, "", text, flags=re.MULTILINE)
    return text


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def is_property(line: str) -> bool:
    """Returns whether a line is a property of a page of Logseq."""
    return ":: " in line and re.match(_PROPERTY, line) is not None


_OF_FORMS: Final = frozenset(
    """
    title name alias aliases tag tags date created updated modified lastmod edited published publish draft id uid uuid
    slug permalink url link type kind class cssclass cssclasses layout template category categories keyword keywords
    description summary abstract excerpt lang language locale weight order image cover banner icon color colour toc
    metadata
    """.split()
)
"""Keys that say what a value is to a program. All others are words of the note's author: `birthday`."""


def searchable_text(line: str) -> str:
    """Returns the text of a line of front matter, without a key that is for programs."""
    entry = re.match(_KEY, line)
    return line if entry is None or entry[1].lower() not in _OF_FORMS else entry[2] or ""


def is_field(line: str) -> bool:
    """Returns whether a line of front matter has a value, and a key that is a word of the note's author."""
    entry = re.match(_FIELD, line)
    return entry is not None and entry[1].lower() not in _OF_FORMS


def has_tag(tags: tuple[str, ...], wanted: str) -> bool:
    """Returns whether one of the tags is the wanted one or nested in it (`project/garden` in `project`)."""
    sought = wanted.strip().lstrip("#").casefold()
    return any(tag == sought or tag.startswith(f"{sought}/") for tag in map(str.casefold, tags))


def _entries(block: str) -> Iterator[tuple[str, str]]:
    """Yields each key with each of its values, in order."""
    name, is_in_block = "", False
    for line in block.split("\n"):
        if is_in_block and (line[:1].isspace() or not line):
            if line.strip():
                yield name, line.strip()
            continue
        is_in_block = False
        item = re.match(_ITEM, line) if name else None
        key = re.match(_KEY, line.rstrip())
        if item:
            values = [item[1]]
        elif key:
            lowered = key[1].lower()
            name = _KEYS.get(lowered, lowered)
            is_in_block = re.fullmatch(_BLOCK, key[2] or "") is not None
            values = [] if is_in_block else _values(key[2] or "")
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
    """Returns a value without quotes, or without a comment."""
    value = value.strip()
    if len(value) > 1 and value[0] in "\"'":
        end = value.find(value[0], 1)
        value = value[1:end] if end > 0 else value[1:]
    else:
        value = re.sub(_COMMENT, "", value).strip()
        return "" if value in _NULL else value
    return value.strip()


def _day(values: list[str] | None) -> date | None:
    if not values:
        return None
    match = re.match(_DAY, values[0])
    if match is None:
        return date_in(values[0])
    try:
        return date(int(match[1]), int(match[3]), int(match[4]))
    except ValueError:
        return None
