"""The lines of candidate chunks, each with its concepts of the query: the units that ranking chooses from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from backends.ranking.query import Weights
from backends.text.units import split_units, utf16_length

BM25_K1: Final = 1.2
"""The constant of FTS5's bm25(); a term's score is below `idf * (k1 + 1)`."""


class Excerpt(msgspec.Struct, frozen=True, gc=False):
    """The part of a chunk from character `start` to `end` of its text, and the cosine of its vector."""

    start: int
    end: int
    cosine: float


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """One chunk that the keyword or the vector lane proposes.

    `start` is the character offset of the chunk in its file, `terms` the stored terms: one line per unit of
    `split_units(text)`.
    """

    chunk_id: int
    file_id: int
    start: int
    start_line: int
    text: str
    terms: str
    bm25: float = 0.0
    """0 or more, larger is better; 0 for a chunk without a term of the query."""
    path: str = ""
    """Breaks ties, so that every index of the same files has the same order."""
    context: str = ""
    """The terms of its path, title, date and headings."""
    headings: str = ""
    """The headings that apply where its own text begins, with their marks, joined by `HEADING_SEPARATOR`."""
    names: tuple[str, ...] = ()
    """The names that its note gives itself: the title and the aliases of its front matter."""
    excerpts: tuple[Excerpt, ...] = ()
    """In order, without overlap; text outside them has no vector."""
    freshness: float = 1.0
    """The factor by which age reduces its odds: more than 0, at most 1."""


class Unit(msgspec.Struct, frozen=True, gc=False):
    """A line, or a sentence of a long one."""

    start: int
    end: int
    line: int
    text: str
    length: int
    """In UTF-16 units."""
    concepts: int
    """Those of the query that it contains, as a set of `Weights`."""
    is_labelled: bool
    """True if its label names what was asked for, or the person asking: see `Weights.is_label`."""
    context: int
    """The concepts in its chunk's path, title, date and headings."""
    chunk_id: int
    chunk_score: float
    """The chunk's BM25 score as a share of the most that the query could reach: 0..1."""
    cosine: float | None
    freshness: float
    headings: str
    """Those of its chunk."""


class FileKey(NamedTuple):
    """A file of candidates."""

    file_id: int
    path: str
    names: tuple[str, ...]
    """The names that it gives itself, see `Candidate`."""


def units_by_file(
    candidates: Iterable[Candidate], weights: Weights
) -> Mapping[FileKey, Sequence[Unit]]:
    """Returns the units of each file in its order; where chunks overlap, those of the better chunk."""
    chunks: dict[FileKey, list[list[Unit]]] = {}
    for candidate in candidates:
        key = FileKey(candidate.file_id, candidate.path, candidate.names)
        chunks.setdefault(key, []).append(_units(candidate, weights))
    return {key: _merged(found) for key, found in chunks.items()}


def _merged(chunks: Sequence[Sequence[Unit]]) -> Sequence[Unit]:
    if len(chunks) == 1:
        return chunks[0]
    units: dict[int, Unit] = {}
    for unit in chain.from_iterable(chunks):
        known = units.get(unit.start)
        units[unit.start] = unit if known is None else _better(known, unit)
    return [units[start] for start in sorted(units)]


def _better(one: Unit, other: Unit) -> Unit:
    best = max(one, other, key=lambda unit: unit.chunk_score)
    return replace(best, cosine=one.cosine if other.cosine is None else other.cosine)


_MOST_OF_LABEL: Final = 48
"""Characters, including marks of lists and of emphasis."""
_AFTER_LABEL: Final = (" ", "*", "_")
_MARKED_BEGINNING: Final = re.compile(
    rf"[ \t]*(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?:\*\*|__|`)([^*_`\n]{{1,{_MOST_OF_LABEL}}})(?:\*\*|__|`)"
)


_STAMP: Final = re.compile(
    r"[ \t\u200e]*(?:[-*+][ \t]+)?[\[(]?(?=\d)[\d./,: -]*\d:\d\d(?:[ \u202f]?[AaPp][Mm])?[\])]?(?:[ \t]+-)?[ \t]+(?=\D)"
)
"""The time before a speaker, as in exports of chats and in logs: `[08.02.26, 18:32:05] `, `2/8/26, 6:32 PM - `."""


def _units(candidate: Candidate, weights: Weights) -> list[Unit]:
    text, terms, excerpts = candidate.text, candidate.terms, candidate.excerpts
    context = weights.concepts_of(candidate.context)
    by_line = weights.concepts_by_line(terms)
    highest = weights.total * (BM25_K1 + 1)
    chunk_score = weights.limited(min(1.0, candidate.bm25 / highest), (context, *by_line))
    starts = [excerpt.start for excerpt in excerpts]
    chunk_id, offset, first_line = candidate.chunk_id, candidate.start, candidate.start_line
    freshness, headings, is_label = candidate.freshness, candidate.headings, weights.is_label
    ascii_only = text.isascii()
    units = []
    for number, (place, concepts) in enumerate(zip(split_units(text), by_line, strict=True)):
        start, end = place.start, place.end
        unit = text[start:end]
        label = label_of(unit) if concepts else ""
        # Positional arguments: with keywords a unit takes half as long again.
        units.append(
            Unit(
                offset + start,
                offset + end,
                first_line + place.line,
                unit,
                end - start if ascii_only else utf16_length(unit),
                concepts,
                bool(label) and is_label(label, terms, number),
                context,
                chunk_id,
                chunk_score,
                _cosine(excerpts, bisect_right(starts, start) - 1, start) if starts else None,
                freshness,
                headings,
            )
        )
    return units


def label_of(line: str) -> str:
    """Returns the subject or the speaker of a line, if it begins with a short label: the first cell of a row, words in
    bold or code, or what precedes a colon, after the time of a message. Empty otherwise.
    """
    if line[:1] == "|":
        cell = line[1:].partition("|")[0].strip()
        return cell if len(cell) <= _MOST_OF_LABEL else ""
    if marked := _MARKED_BEGINNING.match(line):
        return marked[1]
    if stamp := _STAMP.match(line):
        line = line[stamp.end() :]
    head, colon, rest = line.partition(":" if ":" in line else "：")
    is_label = len(head) <= _MOST_OF_LABEL and (colon == "：" or rest[:1] in _AFTER_LABEL)
    return head if colon and is_label else ""


_CUE: Final = re.compile(r"(?:\d+:)?\d\d:\d\d[.,]\d{3} --> ")


def is_cue(units: Sequence[Unit], at: int) -> bool:
    """Returns whether a unit is the timing of subtitles (WebVTT, SubRip), or the number above it."""
    line = units[at].text
    if line.isdigit() and at + 1 < len(units):
        line = units[at + 1].text
    return _CUE.match(line) is not None


def _cosine(excerpts: Sequence[Excerpt], number: int, start: int) -> float | None:
    if number < 0 or start >= excerpts[number].end:
        return None
    return excerpts[number].cosine
