"""What the notes on the disk say: names, tags, days and links of each, and what they know together. Blocking.

The index is not asked: these lists are complete, and as the files are now, whether anything is indexed or not. Each
command that asks reads them anew.
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

from backends.builtin.searching import links_in, resolve_links
from backends.builtin.store.port import NoteNames
from backends.chunking import document_title
from backends.files.reading import FileContent, FileUnreadable, read_for_index
from backends.files.roots import MemoryRoots
from backends.files.scan import scan
from backends.interface import LanguageCount
from backends.text.analyser import UNSPACED, guess_latin_language, script_language, stop_words_of
from backends.text.frontmatter import INLINE_CODE, has_tag, read_front_matter, without_noise
from backends.text.times import date_in, date_of, tells_time
from config.settings import Settings
from gateway.cli.options import PROGRAM

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
    """What its wiki links name, and the notes that its Markdown links lead to, as they are written."""

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
        self.roots = roots = MemoryRoots.of(settings)
        self.notes: list[Note] = []
        self.texts: dict[str, str] = {}
        """By path; empty unless they are asked for."""
        found = scan(roots)
        self.issues = found.issues
        """What is odd about the places of the notes: a sentence each."""
        self.unread = [
            f"{roots.absolute(one.path)} cannot be read ({one.reason})" for one in found.failed_dirs
        ]
        """The directories and notes of which nothing is known."""
        for one in found.files:
            content = read_for_index(roots, one)
            if isinstance(content, FileContent):
                self.notes.append(_note(content))
                if with_texts:
                    self.texts[content.found.path] = content.text
            elif isinstance(content, FileUnreadable):
                self.unread.append(f"{roots.absolute(one.path)} cannot be read")

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
        """The path of the note that has this path (absolute ones, too), name, alias or title; else of the only one
        that nearly has it, else names that are near.
        """
        if not name.strip():  # a note without a title has that one, too
            return None, []
        path = self.roots.index_path(self.roots.absolute(name))
        if any(one.path == path for one in self.notes):
            return path, []
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
        """Of each note, by its path."""
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
        """Why there are no notes, or not all; empty where there are."""
        if self.unread:
            return self.why_not_all()
        if self.notes:
            return ""
        from gateway.cli.terminal import short_path

        nothing = f"There are no notes in {short_path(self.roots.base)}."
        remedy = f"`{PROGRAM} setup` says once where your notes are; --notes DIR names any folder of Markdown."
        return " ".join((nothing, *self.issues, remedy))

    def why_not_all(self) -> str:
        """For where some cannot be read."""
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
    r"(?i)(?<!!)\[[^\[\]\n]{1,300}\]\((?:<((?!\w+:)[^<>\n]{1,300}?\.md)(?:#[^<>\n]*)?>|([^()<>\s:]{1,300}?\.md)(?:#[^()\s]*)?)"
    r"(?:\s[^()\n]*)?\)"
)


def _notes_linked(text: str) -> Iterator[str]:
    """What Markdown links to notes lead to, as it is written but for `%20` and the like."""
    text = re.sub(INLINE_CODE, " ", text) if "`" in text and "](" in text else text
    return (unquote(match[1] or match[2]) for match in re.finditer(_MARKDOWN_LINK, text))


def _beside(path: str, name: str) -> str:
    """The path that a name has for a note."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))


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


# --- What they know, for the report: the names in their prose, and their languages ---

_NO_PROSE: Final = (
    r"(?ms)^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)|`[^`\n]*`|\bhttps?://\S+|\{\{[^{}\n]*\}\}"
)
_PIECE: Final = r"[^\W\d_]+(?:['’-](?!s\b)[^\W\d_]+)*|(?<=\w)['’]s\b|\d+|\n|[^\s\w]"
"""`Nora's` names Nora."""
_INSIDE: Final = frozenset(",'’@&%")
"""Signs after which a sentence goes on; after any other, and in a new line, any word may have a capital letter."""
_MOST_WORDS: Final = 3
_LEAST_NOTES: Final = 2
_MOST_NAMED: Final = 30
_MOST_UNSPACED: Final = 500
"""Each of these is looked for in every note."""

_MOST_TEXT: Final = 20_000_000
"""Characters of all notes in one page; the oldest of what is more are only linked."""
_SAMPLE: Final = 3_000
"""Characters of a note by which its languages are recognised."""
_LEAST_SHARE: Final = 0.1
"""Of the letters of a note, for one of its scripts to count."""


class NameCount(msgspec.Struct, frozen=True):
    name: str
    notes: tuple[str, ...]
    """The paths of those that name it."""


def names_in(texts: Mapping[str, str], titles: Mapping[str, Sequence[str]]) -> list[NameCount]:
    """What most notes name, two at least. `titles` has title, name and aliases of each note."""
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
    """Every row of one to three words with capital letters."""
    surely: set[str]
    """Those that stand within a sentence, where only names have a capital letter."""
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
    """Words with capital letters beside each other, and from which of them on they stand within a sentence."""
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
        and not any(map(tells_time, words))
        and not (name.isascii() and name.isupper() and len(name) < 3)
        and date_in(name) is None
    )


def _without_parts(found: Iterable[NameCount]) -> Iterator[NameCount]:
    """Without `Anna` where every note that has it says `Anna Meyer`."""
    found = list(found)
    longer: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for one in found:
        words = one.name.split()
        for word in words if len(words) > 1 else ():
            longer[word].add(one.notes)
    return (one for one in found if one.notes not in longer[one.name])


class Known(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    notes: tuple[Note, ...]
    """Newest first."""
    tags: tuple[TagCount, ...]
    named: tuple[NameCount, ...]
    links: Mapping[str, Links]
    """By the path of the note."""
    languages: tuple[LanguageCount, ...]
    texts: Mapping[str, str]
    """By path, without front matter; empty unless they are asked for."""


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
    """Those in which much of a note is written; a script that several languages share stands for one of them."""
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
