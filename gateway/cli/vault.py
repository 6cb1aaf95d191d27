"""The contents of the notes on the disk: names, tags, days and links of each, and an overview of all. Blocking.

The index is not used: these lists are complete and agree with the files, whether anything is indexed or not. Each
command reads the notes anew.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from difflib import get_close_matches
from typing import Final
from urllib.parse import unquote

import msgspec

from backends.builtin.links import links_in, resolve_links
from backends.builtin.store.port import NoteNames
from backends.chunking import document_title
from backends.files.reading import FileContent, FileUnreadable, read_for_index
from backends.files.roots import MemoryRoots
from backends.files.scan import scan
from backends.interface import LanguageCount
from backends.text.analyser import UNSPACED, guess_latin_language, script_language, stop_words_of
from backends.text.frontmatter import INLINE_CODE, has_tag, read_front_matter, without_noise
from backends.text.times import date_in, date_of, mentions_time
from config.settings import Settings
from gateway.cli.options import PROGRAM
from gateway.escaping import visible_line
from gateway.tools.search import WHERE_NOTES

_SLIP, _NEAR, _FAR = 0.85, 0.75, 0.6
"""The least similarity of two names: one is the other with a typo, may be meant, or is at least worth showing."""


_PLACEHOLDER = re.compile(r"\{\{.*\}\}|<%.*%>")
"""The placeholder for the title in a template."""


class Note(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    path: str
    title: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    day: date | None
    modified: datetime
    leads_to: tuple[str, ...]
    """The targets of its wiki links, and of its Markdown links to notes, as they are written."""

    @property
    def newest(self) -> tuple[date, datetime]:
        """The key by which notes are sorted: their day, or that of their last change where they have none or a later
        one (a plan for next year is not the newest note for a year), and the time of that change.
        """
        return min(self.shown_day, self._changed), self.modified

    @property
    def shown_day(self) -> date:
        """The day of the note, else that of its last change."""
        return self.day or self._changed

    @property
    def _changed(self) -> date:
        return self.modified.astimezone().date()


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
        self.roots = roots = MemoryRoots.of(settings)
        self.notes: list[Note] = []
        self.texts: dict[str, str] = {}
        """The texts of the notes by path; empty unless they are asked for."""
        found = scan(roots)
        self.issues = found.issues
        """Problems with the places of the notes, a sentence each."""
        self.unread = [
            f"{roots.absolute(one.path)} cannot be read ({one.reason})" for one in found.failed_dirs
        ]
        """The directories and notes that cannot be read."""
        for one in found.files:
            content = read_for_index(roots, one)
            if isinstance(content, FileContent):
                self.notes.append(_note(content))
                if with_texts:
                    self.texts[content.found.path] = content.text
            elif isinstance(content, FileUnreadable):
                self.unread.append(f"{roots.absolute(one.path)} cannot be read")

    def newest(self, tags: Sequence[str] = ()) -> list[Note]:
        """Returns the notes with all of the tags, or tags below them, newest first."""
        chosen = [one for one in self.notes if all(has_tag(one.tags, tag) for tag in tags)]
        return sorted(chosen, key=lambda one: one.newest, reverse=True)

    def tags(self) -> list[TagCount]:
        """Returns each tag with the number of notes that have it or one below it, the most frequent first."""
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
        """Returns the path of the note with this path (absolute ones, and as it is shown, too), name, alias or title,
        else of the only note with a nearly identical one; else None and the paths of notes with similar ones.
        """
        if not name.strip():  # a note without a title has that one, too
            return None, []
        path = self.roots.index_path(self.roots.absolute(name))
        if any(one.path == path for one in self.notes):
            return path, []
        shown = [one.path for one in self.notes if visible_line(one.path) in (name, path)]
        if len(shown) == 1:
            return shown[0], []
        exact = resolve_links(self, [name])
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
        """Returns the links of each note, by its path."""
        resolved = resolve_links(self, {name for note in self.notes for name in note.leads_to})
        paths = {note.path for note in self.notes}
        leads: dict[str, tuple[str, ...]] = {}
        missing: dict[str, tuple[str, ...]] = {}
        back: defaultdict[str, list[str]] = defaultdict(list)
        for note in sorted(self.notes, key=lambda one: one.path):
            to = {name: _beside(note.path, name) for name in note.leads_to}
            to = {name: one if one in paths else resolved.get(name, "") for name, one in to.items()}
            missing[note.path] = tuple(name for name, one in to.items() if not one)
            leads[note.path] = tuple(
                dict.fromkeys(one for one in to.values() if one not in ("", note.path))
            )
            for one in leads[note.path]:
                back[one].append(note.path)
        return {
            note.path: Links(
                note.path,
                leads[note.path],
                tuple(back[note.path]),
                missing[note.path],
            )
            for note in self.notes
        }

    def names(self) -> list[NoteNames]:
        by_length = sorted(self.notes, key=lambda one: (len(one.path), one.path))
        return [NoteNames(one.path, one.title, one.aliases) for one in by_length]

    def why_missing(self) -> str:
        """Returns why there are no notes, or not all of them; empty if none is missing."""
        if self.unread:
            return self.why_not_all()
        if self.notes:
            return ""
        from gateway.cli.terminal import short_path

        nothing = f"There are no notes in {short_path(self.roots.base)}."
        return " ".join((nothing, *self.issues, WHERE_NOTES))

    def why_not_all(self) -> str:
        """Returns which notes cannot be read; there has to be one."""
        first, *more = self.unread
        others = f", nor can {len(more):,} more" if more else ""
        return f"Notes may be missing: {first}{others}. `{PROGRAM} status` says more."


def _note(content: FileContent) -> Note:
    facts = read_front_matter(content.text)
    title = facts.title or document_title(content.text) or ""
    if _PLACEHOLDER.search(title):
        title = ""
    return Note(
        path=content.found.path,
        title=title,
        aliases=facts.aliases,
        tags=facts.tags,
        day=date_of(content.found.path) or facts.day or date_in(title),
        modified=datetime.fromtimestamp(content.found.mtime_ns / 1e9, UTC),
        leads_to=tuple(
            dict.fromkeys((*links_in(content.text, most=None), *_notes_linked(content.text)))
        ),
    )


_MARKDOWN_LINK: Final = (
    r"(?i)(?<!!)\[[^\[\]\n]{1,300}\]\((?:<((?!\w+:)[^<>\n]{1,300}?\.md)(?:#[^<>\n]*)?>"
    r"|([^()<>\s:]{1,300}?\.md)(?:#[^()\s]*)?)"
    r"(?:\s[^()\n]*)?\)"
)


def _notes_linked(text: str) -> Iterator[str]:
    """Yields the targets of Markdown links to notes, as they are written, but with `%20` and the like decoded."""
    text = re.sub(INLINE_CODE, " ", text) if "`" in text and "](" in text else text
    return (unquote(match[1] or match[2]) for match in re.finditer(_MARKDOWN_LINK, text))


def _beside(path: str, name: str) -> str:
    """Returns the path of a name that is relative to a note."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))


def _digits(name: str) -> list[str]:
    """Returns the digits of a name. Names with other days or numbers are other names, however similar they are."""
    return re.findall(r"\d", name)


def _levels(tag: str) -> Iterator[str]:
    """Yields a tag and those above it: `house/heating` counts for `house`, too."""
    parts = tag.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts) + 1))


def _names(note: Note) -> Iterator[str]:
    yield note.path.rpartition("/")[2].removesuffix(".md")
    yield from filter(None, (note.title, *note.aliases))


# --- The overview for the report: names in prose, and languages ---

_NO_PROSE: Final = (
    r"(?ms)^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)|`[^`\n]*`|\bhttps?://\S+|\{\{[^{}\n]*\}\}"
)
_PIECE: Final = r"[^\W\d_]+(?:['’-](?!s\b)[^\W\d_]+)*|(?<=\w)['’]s\b|\d+|\n|[^\s\w]"
"""`Nora's` names Nora."""
_INSIDE: Final = frozenset(",'’@&%")
"""Signs after which a sentence goes on; after any other, and on a new line, any word may have a capital letter."""
_MOST_WORDS: Final = 3
_LEAST_NOTES: Final = 2
_MOST_NAMED: Final = 30
_MOST_UNSPACED: Final = 500
"""The most names in scripts without spaces: each is looked for in every note."""

_MOST_TEXT: Final = 20_000_000
"""The most characters of notes in one page; the oldest notes beyond that are only linked."""
_SAMPLE: Final = 3_000
"""The characters of a note by which its scripts are recognised."""
_LEAST_SHARE: Final = 0.1
"""The share of the letters of a note from which a script counts."""


class NameCount(msgspec.Struct, frozen=True):
    name: str
    notes: tuple[str, ...]
    """The paths of the notes that name it."""


def names_in(texts: Mapping[str, str], titles: Mapping[str, Sequence[str]]) -> list[NameCount]:
    """Returns the names in the most notes, at least two. `titles` has title, name and aliases of each note."""
    read = {path: _read(text) for path, text in texts.items()}
    small = frozenset[str]().union(*(one.small for one in read.values()))
    linked = {name.rpartition("/")[2] for text in texts.values() for name in links_in(text)}
    called = {one for own in titles.values() for one in own}
    known = {one for one in linked | called if _may_be_name(one)}
    known.update(*(one.surely for one in read.values()))
    known = {one for one in known if one.lower() not in small}
    places: defaultdict[str, list[str]] = defaultdict(list)
    unspaced = sorted(one for one in known if re.search(f"[{UNSPACED}]", one))[:_MOST_UNSPACED]
    for path, one in read.items():
        for name in (known & one.all) | {name for name in unspaced if name in texts[path]}:
            places[name].append(path)
    found = [NameCount(name, tuple(sorted(paths))) for name, paths in places.items()]
    found = [one for one in _without_parts(found) if len(one.notes) >= _LEAST_NOTES]
    return sorted(found, key=lambda one: (-len(one.notes), one.name))[:_MOST_NAMED]


class _Read(msgspec.Struct):
    all: set[str]
    """Every sequence of one to three words with capital letters."""
    surely: set[str]
    """Those within a sentence, where only names have a capital letter."""
    small: set[str]


def _read(text: str) -> _Read:
    prose = re.sub(_NO_PROSE, "\n", text)
    language = guess_latin_language(prose.lower())
    read = _Read(set(), set(), set())
    for run, begins in _runs(prose, stop_words_of("english") | stop_words_of(language), read.small):
        for start in range(len(run)):
            for end in range(start + 1, min(start + _MOST_WORDS, len(run)) + 1):
                name = " ".join(run[start:end])
                read.all.add(name)
                is_whole = end == len(run) and start == begins
                if is_whole and (end - start > 1 or language != "german"):
                    read.surely.add(name)
    read.surely = {one for one in read.surely if _may_be_name(one)}
    return read


def _runs(prose: str, stops: frozenset[str], small: set[str]) -> Iterator[tuple[list[str], int]]:
    """Yields sequences of words with capital letters, each with the index of the first one within a sentence."""
    run: list[str] = []
    begins, is_inside = 0, False
    for piece in re.findall(_PIECE, prose):
        is_name = piece[0].isupper() and piece.lower() not in stops
        if is_name:
            if not run:
                begins = 0 if is_inside else 1
            run.append(piece)
            is_inside = True
            continue
        if run:
            yield run, begins
            run = []
        if piece[0].isalpha():
            if piece[0].islower():
                small.add(piece)
            is_inside = True
        elif not piece[0].isdigit():
            is_inside = piece in _INSIDE and is_inside
    if run:
        yield run, begins


def _may_be_name(name: str) -> bool:
    words = name.split()
    return (
        0 < len(words) <= _MOST_WORDS
        and len(name) > 1
        and not any(map(str.isdigit, name))
        and not any(map(mentions_time, words))
        and not (name.isascii() and name.isupper() and len(name) < 3)
        and date_in(name) is None
    )


def _without_parts(found: Iterable[NameCount]) -> Iterator[NameCount]:
    """Leaves out `Anna` if every note that names it names `Anna Meyer`."""
    found = list(found)
    longer: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for one in found:
        words = one.name.split()
        for word in words if len(words) > 1 else ():
            longer[word].add(one.notes)
    return (one for one in found if one.notes not in longer[one.name])


class Known(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    notes: tuple[Note, ...]
    """The notes, newest first."""
    tags: tuple[TagCount, ...]
    named: tuple[NameCount, ...]
    links: Mapping[str, Links]
    """The links by the path of the note."""
    languages: tuple[LanguageCount, ...]
    texts: Mapping[str, str]
    """The texts by path, without front matter; empty unless they are asked for."""


def known_of(settings: Settings, *, with_text: bool) -> Known:
    vault = Vault(settings, with_texts=True)
    texts = {path: _prose(text) for path, text in vault.texts.items()}
    titles = {one.path: tuple(_names(one)) for one in vault.notes}
    languages = Counter(name for text in texts.values() for name in languages_of(text))
    newest = vault.newest()
    return Known(
        notes=tuple(newest),
        tags=tuple(vault.tags()),
        named=tuple(names_in(texts, titles)),
        links=vault.all_links(),
        languages=tuple(LanguageCount(name, files) for name, files in languages.most_common()),
        texts=dict(_fitting(newest, texts)) if with_text else {},
    )


def _prose(text: str) -> str:
    end = read_front_matter(text).end
    return without_noise(text[end:].lstrip("\n").partition("\n")[2] if end else text)


def _fitting(notes: list[Note], texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    left = _MOST_TEXT
    for note in notes:
        left -= len(texts[note.path])
        if left >= 0:
            yield note.path, texts[note.path]


_BY_SCRIPT: Final = {
    "HIRAGANA": "japanese", "KATAKANA": "japanese", "HANGUL": "korean", "CJK": "chinese"
}  # fmt: skip


def languages_of(text: str) -> set[str]:
    """Returns the languages in which much of a note is written; a script of several languages counts as one of them."""
    letters = list(filter(str.isalpha, text[:_SAMPLE]))
    scripts = Counter(map(_script, letters))
    if scripts["japanese"]:
        scripts["japanese"] += scripts.pop("chinese", 0)
    found = {name for name, number in scripts.items() if number >= _LEAST_SHARE * len(letters)}
    if "latin" in found:
        found.remove("latin")
        found.add(guess_latin_language(text.lower()))
    return found


def _script(letter: str) -> str:
    if letter.isascii():
        return "latin"
    name = unicodedata.name(letter, "?").partition(" ")[0]
    return _BY_SCRIPT.get(name) or script_language(letter) or name.lower()
