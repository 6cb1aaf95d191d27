"""The real files behind QMD's rows, read and analysed, and remembered while they stay the same.

Owns the cache: a warm search must not read and stem the same notes again. Blocks; for worker threads.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from backends.chunking import chunk_markdown
from backends.errors import FileUnreadableError, PathNotAllowedError
from backends.files.reading import decode
from backends.files.roots import Location
from backends.files.safe_open import opened
from backends.text.analyser import Analyser
from backends.text.languages import guess_latin_language
from backends.text.units import split_units

MAX_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
"""Of a longer file only the beginning is looked at for a snippet."""
MAX_CACHED_CHARS: Final = 16 * 1024 * 1024


class Piece(NamedTuple):
    """One chunk of a file."""

    start: int
    start_line: int
    text: str
    terms: str
    """One line a unit of `split_units(text)`."""
    counts: dict[str, int]
    length: int
    """Terms in it, with repetitions."""


class Document(NamedTuple):
    stamp: tuple[int, int, int, int]
    pieces: tuple[Piece, ...]
    languages: frozenset[str]
    size: int
    """Characters."""


class Documents:
    """Analysed files by location, the least recently used dropped first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Location, Document] = OrderedDict()
        self._chars = 0

    def get(self, location: Location) -> Document | None:
        """The file as it is now; None when it is gone, refused or unreadable."""
        try:
            with opened(location) as descriptor:
                stamp = _stamp(os.fstat(descriptor))
                with self._lock:
                    known = self._known.get(location)
                    if known is not None and known.stamp == stamp:
                        self._known.move_to_end(location)
                        return known
                with open(descriptor, "rb", closefd=False) as file:
                    data = file.read(MAX_DOCUMENT_BYTES)
        except (OSError, FileUnreadableError, PathNotAllowedError):
            return None
        document = analyse(decode(data)[0], stamp)
        self._remember(location, document)
        return document

    def _remember(self, location: Location, document: Document) -> None:
        with self._lock:
            replaced = self._known.pop(location, None)
            self._chars += document.size - (replaced.size if replaced else 0)
            self._known[location] = document
            while self._chars > MAX_CACHED_CHARS and len(self._known) > 1:
                self._chars -= self._known.popitem(last=False)[1].size


def analyse(text: str, stamp: tuple[int, int, int, int] = (0, 0, 0, 0)) -> Document:
    """Chunks of a text with the terms that a query may ask for. Pure."""
    language = guess_latin_language(text)
    analyser = Analyser(language)
    return Document(stamp, tuple(_pieces(text, analyser)), frozenset({language}), len(text))


def _pieces(text: str, analyser: Analyser) -> Iterator[Piece]:
    for chunk in chunk_markdown(text):
        body = text[chunk.start : chunk.end]
        if not body.strip():
            continue
        terms = "\n".join(analyser.terms(body[unit.start : unit.end]) for unit in split_units(body))
        words = terms.split()
        counts: dict[str, int] = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        yield Piece(chunk.start, chunk.start_line, body, terms, counts, len(words))


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev
