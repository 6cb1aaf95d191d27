"""What the notes know, for the report: notes, tags, names, links and languages, read from the files. Blocking."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from backends.interface import LanguageCount
from backends.text.analyser import guess_latin_language, script_language
from backends.text.frontmatter import read_front_matter, without_noise
from config.settings import Settings
from gateway.cli.naming import NameCount, names_in
from gateway.cli.vault import Links, Note, TagCount, Vault

_MOST_TEXT: Final = 20_000_000
"""Characters of all notes in one page; the oldest of what is more are only linked."""
_SAMPLE: Final = 3_000
"""Characters of a note by which its languages are recognised."""
_LEAST_SHARE: Final = 0.1
"""Of the letters of a note, for one of its scripts to count."""


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
    titles = {one.path: (_stem(one.path), one.title, *one.aliases) for one in vault.notes}
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


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")


def _fitting(notes: list[Note], texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    left = _MOST_TEXT
    for note in notes:
        left -= len(texts[note.path])
        if left >= 0:
            yield note.path, texts[note.path]


_BY_SCRIPT: Final = {
    "HIRAGANA": "japanese",
    "KATAKANA": "japanese",
    "HANGUL": "korean",
    "CJK": "chinese",
}


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
