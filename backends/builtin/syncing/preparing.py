"""From the text of one file to its rows in the index: chunks, their words, their excerpts.

Runs in worker threads. Reads no file, except for `chunk_limits`, which says how large chunks may be.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Final

from backends.builtin.store.port import PreparedChunk, PreparedExcerpt, PreparedFile
from backends.chunking import (
    CHUNKING_VERSION,
    HEADING_SEPARATOR,
    Chunk,
    ChunkLimits,
    chunk_markdown,
    document_title,
)
from backends.files.reading import DECODING_VERSION
from backends.text.analyser import ANALYSER_VERSION, Analyser, guess_latin_language
from backends.text.frontmatter import (
    FRONT_MATTER_VERSION,
    read_front_matter,
    searchable_text,
    without_noise,
)
from backends.text.times import date_in, date_of, date_words
from backends.text.units import EXCERPT_VERSION, TextUnit, cut_excerpts, split_units

if TYPE_CHECKING:
    from config.settings import Settings

MAX_LINES: Final = 500_000
"""The most lines of one note: a line costs memory of its own, however short it is."""
MAX_SECONDS: Final = 60.0
"""The most processor time for one note. Ordinary text takes a second for some megabytes."""
MOST_WORDS_BYTES: Final = 8 * 1024 * 1024
"""The memory for analysed words, of all languages together; one of them may take three quarters of it."""


class TooCostlyError(Exception):
    """The text would take too much memory or time; the message says which."""


class EndedError(Exception):
    """The result is not wanted any more."""


class Preparer:
    """Prepares files with one set of limits; keeps the analysers, which remember words. For any thread."""

    def __init__(
        self,
        limits: ChunkLimits,
        *,
        give_way: Callable[[], None] = lambda: None,
        words_bytes: int = MOST_WORDS_BYTES,
    ) -> None:
        """`give_way` is called repeatedly during the work. `words_bytes`: see `MOST_WORDS_BYTES`."""
        self.limits = limits
        self.give_way = give_way
        self.last_step = -math.inf
        """The time of the last step of any thread, on the monotonic clock."""
        self._words_bytes = words_bytes
        self._analysers: dict[str, Analyser] = {}
        self._choosing = threading.Lock()
        self.pipeline = (
            f"chunking {CHUNKING_VERSION} {limits.tokens}/{limits.overlap}, "
            f"analyser {ANALYSER_VERSION}, excerpts {EXCERPT_VERSION}"
        )
        """Names everything that decides which rows a text yields; stored with each transcript."""
        self.notes_pipeline = (
            f"{self.pipeline}, front matter {FRONT_MATTER_VERSION}, decoding {DECODING_VERSION}"
        )
        """The same for notes, stored with each."""

    def prepare(
        self, path: str, text: str, *, is_wanted: Callable[[], bool] = lambda: True
    ) -> PreparedFile:
        """Raises TooCostlyError, and EndedError soon after `is_wanted` returns False."""
        lines = text.count("\n")
        if lines > MAX_LINES:
            raise TooCostlyError(f"too many lines: {lines:,}, the limit is {MAX_LINES:,}")
        tick = self._ticking(is_wanted)
        facts = read_front_matter(text)
        text = without_noise(text)
        title = document_title(text) or ""
        note_date = date_of(path) or facts.day or date_in(title)
        file_language = guess_latin_language(text)
        languages = set()
        chunks = []
        end = 0
        # A line each: numbers of two of them are no large number written in groups.
        about_file = "\n".join((path, title, date_words(note_date), facts.words))
        file_terms: dict[str, str] = {}
        for chunk in chunk_markdown(text, self.limits, tick=tick):
            tick()
            chunk_text = text[chunk.start : chunk.end]
            if not chunk_text.strip():
                continue
            is_all = len(chunk_text) == len(text)
            language = file_language if is_all else guess_latin_language(chunk_text, file_language)
            languages.add(language)
            analyser = self._analyser(language)
            units = split_units(chunk_text)
            terms = _terms(analyser, chunk_text, units, facts.end - chunk.start)
            excerpts = _excerpts(chunk_text, max(0, end - chunk.start), units)
            end = chunk.end
            days = _days_of(chunk.headings, note_date)
            if language not in file_terms:
                file_terms[language] = analyser.terms(about_file)
            above = analyser.terms("\n".join((*chunk.headings, days)))
            context = " ".join(filter(None, (file_terms[language], above)))
            chunks.append(_prepared(chunk, chunk_text, terms, context, excerpts))
        return PreparedFile(
            tuple(chunks), note_date.isoformat() if note_date else None, frozenset(languages), facts
        )

    def _ticking(self, is_wanted: Callable[[], bool]) -> Callable[[], None]:
        """Returns a function that lets others go first, and ends work that is no longer wanted or takes too long."""
        deadline = time.thread_time() + MAX_SECONDS
        # Before this time the thread cannot have used so much processor time; its clock is cheap to read.
        earliest = time.monotonic() + MAX_SECONDS

        def tick() -> None:
            self.give_way()
            if not is_wanted():
                raise EndedError
            self.last_step = time.monotonic()
            if self.last_step > earliest and time.thread_time() > deadline:
                raise TooCostlyError(
                    f"it takes more than {MAX_SECONDS:g} s of a processor to index"
                )

        return tick

    @property
    def bytes_used(self) -> int:
        """The size of the words that are remembered."""
        with self._choosing:
            return self._sum()

    def _sum(self) -> int:
        return sum(one.bytes_used for one in self._analysers.values())

    def _analyser(self, language: str) -> Analyser:
        with self._choosing:
            analyser = self._analysers.pop(language, None) or Analyser(
                language, self._words_bytes * 3 // 4
            )
            self._analysers[language] = analyser  # the one used last at the end
            while self._sum() > self._words_bytes:
                del self._analysers[next(iter(self._analysers))]
            return analyser


def marked(level: int, title: str) -> str:
    """Returns a heading as a line of Markdown."""
    return f"{'#' * level} {title}"


def _prepared(
    chunk: Chunk, text: str, terms: str, context: str, excerpts: tuple[PreparedExcerpt, ...]
) -> PreparedChunk:
    headings = HEADING_SEPARATOR.join(map(marked, chunk.levels, chunk.headings))
    return PreparedChunk(
        start=chunk.start,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        identity=_digest(text, terms, context, headings, repr(excerpts), str(ANALYSER_VERSION)),
        headings=headings,
        text=text,
        terms=terms,
        context=context,
        excerpts=excerpts,
    )


def _terms(analyser: Analyser, text: str, units: Sequence[TextUnit], front_matter_end: int) -> str:
    """Returns the terms of each line; of front matter, which ends at `front_matter_end`, those of its values."""
    if front_matter_end <= 0 and len(units) <= units[-1].line + 1:  # each unit is a line
        return analyser.terms_by_line(text.removesuffix("\n"))
    return "\n".join(
        analyser.terms(searchable_text(line) if unit.start < front_matter_end else line)
        for unit in units
        for line in (text[unit.start : unit.end],)
    )


def _days_of(headings: Iterable[str], note_date: date | None) -> str:
    """Returns the days that headings name, in words, without the day of the note, which every chunk has already."""
    days = filter(None, map(date_in, headings))
    return " ".join(date_words(day) for day in dict.fromkeys(days) if day != note_date)


def _excerpts(text: str, start: int, units: Sequence[TextUnit]) -> tuple[PreparedExcerpt, ...]:
    return tuple(
        PreparedExcerpt(span.start, span.end, span.line, _digest(text[span.start : span.end]))
        for span in cut_excerpts(text, start, units)
    )


def _digest(*parts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.digest()


_READABLE: Final = 0.8
"""The share of a model's input that a chunk may fill. The rest is for prompts, and for texts with more tokens than
are estimated."""


def chunk_limits(settings: Settings) -> ChunkLimits:
    """Returns the limits of chunks. Blocks: reads the file of a local model."""
    search, chunking = settings.search, settings.search.chunking
    named = search.provider == "auto" and search.local.model_path is not None
    if search.provider != "local" and not named:
        return ChunkLimits(chunking.tokens, chunking.overlap)
    from providers.local.model import longest_text  # noqa: PLC0415 - not needed otherwise

    longest = longest_text(settings)
    readable = chunking.tokens if longest is None else max(1, int(longest * _READABLE))
    return ChunkLimits(min(chunking.tokens, readable), chunking.overlap)
