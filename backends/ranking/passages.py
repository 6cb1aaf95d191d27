"""Passages: selected lines of a file as text and as a snippet that names the headings above them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from operator import or_

import msgspec

from backends.chunking import parse_heading
from backends.interface import GAP, Stretch
from backends.ranking.evidence import NO_EVIDENCE
from backends.ranking.layout import RULE, breadcrumb_of, is_row
from backends.ranking.lines import Candidate, Unit, units_by_file
from backends.ranking.names import is_heading
from backends.ranking.query import Concept, Weights
from backends.ranking.selection import File, Selection
from backends.text.units import utf16_length


class Passage(msgspec.Struct, frozen=True, gc=False):
    """A result. `text` is as in the file, with `GAP` where lines are left out; it begins at character `start` of the
    file. Lines count from 1, ends included, and enclose all stretches.
    """

    file_id: int
    chunk_id: int
    start: int
    start_line: int
    end_line: int
    text: str
    snippet: str
    """The text with lines that name the headings above its stretches."""
    stretches: tuple[Stretch, ...]
    headings: tuple[str, ...]
    """The path of headings above its best line, outermost first."""
    matched: tuple[Concept, ...]
    coverage: float
    """The share of the query's information content in the passage: 0..1."""


def passage_near(
    line: int, candidates: Iterable[Candidate], weights: Weights, *, max_chars: int
) -> Passage:
    """Returns the passage of one file that begins nearest to a line, whatever it contains of the query."""
    (((file_id, path, _), units),) = units_by_file(candidates, weights).items()
    nothing = [NO_EVIDENCE] * len(units)
    file = File(file_id, path, units, nothing, [1.0] * len(units), max_chars)
    first = min(range(len(units)), key=lambda at: abs(units[at].line - line))
    last, room = first + 1, max_chars - units[first].length
    while (
        last < len(units)
        and units[last].start - units[last - 1].end <= 1
        and (room := room - units[last].length - 1) >= 0
    ):
        last += 1
    return to_passage(file.selection(range(first, last)), weights)


def to_passage(selection: Selection, weights: Weights) -> Passage:
    """Returns the selection as a result, without blank ends of stretches and headings at its end."""
    file = selection.file
    stretches = _stretches(selection.units(), file.layout.heads_of_tables(selection.at))
    units = [unit for stretch in stretches for unit in stretch]
    matched = reduce(or_, (unit.concepts for unit in units))
    return Passage(
        file_id=file.file_id,
        chunk_id=max(units, key=lambda unit: unit.chunk_score).chunk_id,
        start=units[0].start,
        start_line=units[0].line,
        end_line=units[-1].line,
        text=GAP.join(map(_text, stretches)),
        snippet=_snippet(file, stretches, {file.units[one].start: one for one in selection.at}),
        stretches=tuple(
            Stretch(start_line=one[0].line, end_line=one[-1].line) for one in stretches
        ),
        headings=file.layout.headings(selection.best()),
        matched=weights.members(matched),
        coverage=min(1.0, weights.coverage(matched)),
    )


def _snippet(file: File, stretches: Sequence[Sequence[Unit]], at: Mapping[int, int]) -> str:
    """Returns the stretches, each under a line with the headings that it does not show itself, if their path differs
    from that of the one before and there is room. `at`: the numbers of units by where they begin.
    """
    texts = [_text(stretch) for stretch in stretches]
    room = file.max_chars - utf16_length(GAP.join(texts))
    before: tuple[str, ...] = ()
    parts = []
    for stretch, text in zip(stretches, texts, strict=True):
        path = file.layout.headings(at[stretch[0].start])
        shown = {heading[1] for unit in stretch if (heading := parse_heading(unit.text))}
        line = "" if path == before else breadcrumb_of([one for one in path if one not in shown])
        if (length := utf16_length(line)) > room:
            line, length = "", 0
        room -= length
        parts.append(line + text)
        before = file.layout.headings(at[stretch[-1].start])
    return GAP.join(parts)


def _stretches(units: Sequence[Unit], heads: Container[int]) -> list[list[Unit]]:
    """Returns the contiguous runs of units, none of them blank; at least one. `heads`: the offsets of the header rows
    of tables of which other rows are shown.
    """
    runs = [[units[0]]]
    for before, unit in pairwise(units):
        if 0 <= unit.start - before.end <= 1:
            runs[-1].append(unit)
        else:
            runs.append([unit])
    stretches = [run for run in (_trim(run, heads) for run in runs) if run[0].text.strip()]
    while len(stretches) > 1 and all(map(_names_only, stretches[-1])):
        stretches.pop()
    return stretches or runs[:1]


def _text(units: Sequence[Unit]) -> str:
    parts = [units[0].text]
    for before, unit in pairwise(units):
        parts.append("\n" if unit.start > before.end else "")
        parts.append(unit.text)
    return "".join(parts)


def _names_only(unit: Unit) -> bool:
    """Returns whether the unit is a heading that was not asked for."""
    return not unit.concepts and is_heading(unit.text)


def _says_nothing(units: Sequence[Unit], heads: Container[int]) -> int:
    """Returns how many units at the end say nothing: a blank one, a heading, the head of a table without rows."""
    last = units[-1]
    if not last.text.strip() or _names_only(last):
        return 1
    is_head = len(units) > 1 and is_row(units[-2].text) and not units[-2].concepts
    is_first = len(units) < 3 or not is_row(units[-3].text)
    is_alone = is_head and is_first and units[-2].start not in heads
    return 2 if is_alone and re.fullmatch(RULE, last.text) else 0


def _trim(units: list[Unit], heads: Container[int]) -> list[Unit]:
    """Returns the units without blank ones at either end and without headings that nothing follows."""
    first, last = 0, len(units)
    while last > first + 1 and (below := _says_nothing(units[first:last], heads)):
        last = max(first + 1, last - below)
    while first < last - 1 and not units[first].text.strip():
        first += 1
    return units[first:last]
