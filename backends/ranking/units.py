"""The lines of candidate chunks, at their places in their files, with what each holds of the query.

Owns the joining of overlapping chunks into one run of lines a file. What a line is worth is decided in
`evidence`, which lines become a result in `passages`. A search makes some hundred of these values, so they
are structs, without a look of the collector: none is in a cycle.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec
from msgspec.structs import replace

from backends.ranking.weights import Weights
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

    `start` is the character offset of the chunk in its file, `terms` the stored terms: one line a
    unit of `split_units(text)`.
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
    """Puts equal scores in an order that every index of the same files agrees on."""
    context: str = ""
    """The terms of its path, title, date and headings."""
    excerpts: tuple[Excerpt, ...] = ()
    """In order, without overlap; what none of them holds has no vector."""
    freshness: float = 1.0
    """What age leaves of its odds: more than 0, to 1."""


class Unit(msgspec.Struct, frozen=True, gc=False):
    """A line, or a sentence of a long one."""

    start: int
    end: int
    line: int
    text: str
    length: int
    """UTF-16 units."""
    concepts: int
    """Those of the query that it holds, as `Weights` writes a set."""
    context: int
    """Those that its chunk's path, title, date and headings hold."""
    chunk_id: int
    chunk_score: float
    """The chunk's BM25 as a share of what the query could reach: 0..1."""
    is_named: bool
    """Whether the chunk was found by its title, path or date alone: any of its lines may answer."""
    cosine: float | None
    freshness: float


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A candidate with what it holds of the query: all that is known of it before it is cut up."""

    candidate: Candidate
    score: float
    """Its BM25 as a share of what the query could reach: 0..1."""
    held: list[int]
    """Of each unit the concepts, as `Weights` writes a set."""
    context: int
    """Those of path, title, date and headings."""


FileKey = tuple[int, str]
"""(file id, path)"""


def chunks_by_file(
    candidates: Iterable[Candidate], weights: Weights
) -> Mapping[FileKey, list[Chunk]]:
    files: dict[FileKey, list[Chunk]] = {}
    highest = weights.total * (BM25_K1 + 1)
    for candidate in candidates:
        score = min(1.0, candidate.bm25 / highest)
        context = weights.concepts_in(candidate.context.split())
        chunk = Chunk(candidate, score, weights.concepts_by_line(candidate.terms), context)
        files.setdefault((candidate.file_id, candidate.path), []).append(chunk)
    return files


def units_of(chunks: Sequence[Chunk]) -> Sequence[Unit]:
    """The units of one file in its order; where chunks overlap the better chunk's unit."""
    if len(chunks) == 1:
        return _units(chunks[0])
    units: dict[int, Unit] = {}
    for unit in chain.from_iterable(map(_units, chunks)):
        known = units.get(unit.start)
        units[unit.start] = unit if known is None else _better(known, unit)
    return [units[start] for start in sorted(units)]


def units_by_file(
    candidates: Iterable[Candidate], weights: Weights
) -> Mapping[FileKey, Sequence[Unit]]:
    files = chunks_by_file(candidates, weights)
    return {file: units_of(chunks) for file, chunks in files.items()}


def _better(one: Unit, other: Unit) -> Unit:
    best = max(one, other, key=lambda unit: unit.chunk_score)
    return replace(best, cosine=one.cosine if other.cosine is None else other.cosine)


def _units(chunk: Chunk) -> list[Unit]:
    candidate, chunk_score, context = chunk.candidate, chunk.score, chunk.context
    text, excerpts = candidate.text, candidate.excerpts
    ascii_only = text.isascii()
    is_named = chunk_score > 0 and not any(chunk.held)
    starts = [excerpt.start for excerpt in excerpts]
    chunk_id, offset, first_line = candidate.chunk_id, candidate.start, candidate.start_line
    freshness = candidate.freshness
    units = []
    for place, concepts in zip(split_units(text), chunk.held, strict=True):
        start, end = place.start, place.end
        unit = text[start:end]
        units.append(
            Unit(
                start=offset + start,
                end=offset + end,
                line=first_line + place.line,
                text=unit,
                length=end - start if ascii_only else utf16_length(unit),
                concepts=concepts,
                context=context,
                chunk_id=chunk_id,
                chunk_score=chunk_score,
                is_named=is_named,
                cosine=_cosine(excerpts, bisect_right(starts, start) - 1, start)
                if starts
                else None,
                freshness=freshness,
            )
        )
    return units


def _cosine(excerpts: Sequence[Excerpt], number: int, start: int) -> float | None:
    if number < 0 or start >= excerpts[number].end:
        return None
    return excerpts[number].cosine
