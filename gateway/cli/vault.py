"""What the notes on the disk say of themselves: names, tags, days and links. Read anew by each command that asks.

The index is not asked: these lists are complete, and as the files are now, whether anything is indexed or not.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, date, datetime
from difflib import get_close_matches

import msgspec

from backends.builtin.searching import links_in, resolve_links
from backends.builtin.store.port import NoteNames
from backends.chunking import document_title
from backends.files.reading import FileContent, read_for_index
from backends.files.roots import MemoryRoots
from backends.files.scan import scan
from backends.text.frontmatter import has_tag, read_front_matter
from backends.text.times import date_in, date_of
from config.settings import Settings

_SLIP, _NEAR, _FAR = 0.85, 0.75, 0.6
"""How alike two names are: one is the other with a slip, may be meant, or is at least worth showing."""


_PLACEHOLDER = re.compile(r"\{\{.*\}\}|<%.*%>")
"""What a template has where a note made of it has its title."""


class Note(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    path: str
    title: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    day: date | None
    modified: datetime
    leads_to: tuple[str, ...]
    """What its wiki links name."""

    @property
    def newest(self) -> tuple[date, datetime]:
        """The day of the note, where it has one that is not yet to come; within a day the last change."""
        changed = self.modified.astimezone().date()
        return min(self.day or changed, changed), self.modified


class TagCount(msgspec.Struct, frozen=True):
    tag: str
    notes: int


class Links(msgspec.Struct, frozen=True):
    path: str
    to: tuple[str, ...]
    """Notes that it leads to."""
    linked_from: tuple[str, ...] = msgspec.field(name="from")
    """Notes that lead to it."""
    missing: tuple[str, ...]
    """Names that no note has."""


class Vault:
    """All notes of a memory. Blocking."""

    def __init__(self, settings: Settings, *, with_texts: bool = False) -> None:
        roots = MemoryRoots.of(settings)
        self.notes: list[Note] = []
        self.texts: dict[str, str] = {}
        """By path; empty unless they are asked for."""
        for one in scan(roots).files:
            content = read_for_index(roots, one)
            if isinstance(content, FileContent):
                self.notes.append(_note(content))
                if with_texts:
                    self.texts[content.path] = content.text

    def newest(self, tags: Sequence[str] = ()) -> list[Note]:
        """Those with all of the tags, or tags below them."""
        chosen = [one for one in self.notes if all(has_tag(one.tags, tag) for tag in tags)]
        return sorted(chosen, key=lambda one: one.newest, reverse=True)

    def tags(self) -> list[TagCount]:
        """Each tag with the notes that have it or one below it, the most frequent first."""
        counts: Counter[str] = Counter()
        spellings: dict[str, str] = {}
        for note in self.notes:
            levels = {level for tag in note.tags for level in _levels(tag)}
            for level in sorted(levels):
                spellings.setdefault(level.casefold(), level)
            counts.update({level.casefold() for level in levels})
        found = [TagCount(spellings[key], number) for key, number in counts.items()]
        return sorted(found, key=lambda one: (-one.notes, one.tag))

    def find(self, name: str) -> tuple[str | None, list[str]]:
        """The path of the note that has this path, name, alias or title; else of the only one that nearly has it,
        else names that are near.
        """
        if not name.strip():  # a note without a title has that one, too
            return None, []
        exact = self._resolve([name])
        if name in exact:
            return exact[name], []
        by_name = {key.casefold(): note.path for note in self.notes for key in _names(note)}
        wanted = name.casefold().removesuffix(".md")
        same_numbers = [one for one in by_name if _digits(one) == _digits(wanted)]

        def like(names: Collection[str], cutoff: float) -> list[str]:
            near = get_close_matches(wanted, names, n=5, cutoff=cutoff)
            return list(dict.fromkeys(by_name[one] for one in near))

        slips = like(same_numbers, _SLIP)
        if len(slips) == 1:
            return slips[0], []
        return None, like(by_name, _NEAR) or like(by_name, _FAR)

    def links(self, path: str) -> Links:
        return self.all_links()[path]

    def all_links(self) -> dict[str, Links]:
        """Of each note, by its path."""
        resolved = self._resolve({name for note in self.notes for name in note.leads_to})
        leads: dict[str, tuple[str, ...]] = {}
        back: defaultdict[str, list[str]] = defaultdict(list)
        for note in sorted(self.notes, key=lambda one: one.path):
            to = dict.fromkeys(resolved[name] for name in note.leads_to if name in resolved)
            leads[note.path] = tuple(one for one in to if one != note.path)
            for one in leads[note.path]:
                back[one].append(note.path)
        return {
            note.path: Links(
                note.path,
                leads[note.path],
                tuple(back[note.path]),
                tuple(name for name in note.leads_to if name not in resolved),
            )
            for note in self.notes
        }

    def names(self) -> list[NoteNames]:
        return [NoteNames(one.path, one.title, one.aliases) for one in self._by_length]

    @property
    def _by_length(self) -> list[Note]:
        return sorted(self.notes, key=lambda one: (len(one.path), one.path))

    def _resolve(self, names: Collection[str]) -> dict[str, str]:
        return resolve_links(self, names)


def _note(content: FileContent) -> Note:
    facts = read_front_matter(content.text)
    title = facts.title or document_title(content.text) or ""
    if _PLACEHOLDER.search(title):
        title = ""
    return Note(
        path=content.path,
        title=title,
        aliases=facts.aliases,
        tags=facts.tags,
        day=date_of(content.path) or facts.day or date_in(title),
        modified=datetime.fromtimestamp(content.mtime_ns / 1e9, UTC),
        leads_to=links_in(content.text),
    )


def _digits(name: str) -> list[str]:
    """Names of other days or numbers are other names, however near they are."""
    return re.findall(r"\d", name)


def _levels(tag: str) -> Iterator[str]:
    """`house/heating` counts for `house`, too."""
    parts = tag.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts) + 1))


def _names(note: Note) -> Iterator[str]:
    yield note.path.rpartition("/")[2].removesuffix(".md")
    yield from filter(None, (note.title, *note.aliases))
