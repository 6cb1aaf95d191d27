"""How much a line speaks for being the answer: its words, its surroundings, its vector."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain, islice
from operator import or_
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from backends.chunking import HEADING_SEPARATOR, parse_heading
from backends.ranking import learnt
from backends.ranking.query import LEAST_NAMED, Weights
from backends.text.frontmatter import is_property
from backends.text.times import tells_time
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
    headings: str = ""
    """The headings in force where its own text begins, with their marks, joined by `HEADING_SEPARATOR`."""
    names: tuple[str, ...] = ()
    """What its note calls itself: the title and the aliases of its front matter."""
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
    is_labelled: bool
    """Whether its label names what was asked for, or whoever asks: see `Weights.is_label`."""
    context: int
    """Those that its chunk's path, title, date and headings hold."""
    chunk_id: int
    chunk_score: float
    """The chunk's BM25 as a share of what the query could reach: 0..1."""
    cosine: float | None
    freshness: float
    headings: str
    """Those of its chunk."""


class FileKey(NamedTuple):
    """A file of candidates."""

    file_id: int
    path: str
    names: tuple[str, ...]
    """What it calls itself, see `Candidate`."""


def units_by_file(
    candidates: Iterable[Candidate], weights: Weights
) -> Mapping[FileKey, Sequence[Unit]]:
    """The units of each file in its order; where chunks overlap the better chunk's unit."""
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
"""Characters, marks of lists and of emphasis included."""
_AFTER_LABEL: Final = (" ", "*", "_")
_MARKED_BEGINNING: Final = re.compile(
    rf"[ \t]*(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?:\*\*|__|`)([^*_`\n]{{1,{_MOST_OF_LABEL}}})(?:\*\*|__|`)"
)


def _units(candidate: Candidate, weights: Weights) -> list[Unit]:
    text, terms, excerpts = candidate.text, candidate.terms, candidate.excerpts
    context = weights.concepts_of(candidate.context)
    held = weights.concepts_by_line(terms)
    highest = weights.total * (BM25_K1 + 1)
    chunk_score = weights.limited(min(1.0, candidate.bm25 / highest), (context, *held))
    starts = [excerpt.start for excerpt in excerpts]
    chunk_id, offset, first_line = candidate.chunk_id, candidate.start, candidate.start_line
    freshness, headings, is_label = candidate.freshness, candidate.headings, weights.is_label
    ascii_only = text.isascii()
    units = []
    for number, (place, concepts) in enumerate(zip(split_units(text), held, strict=True)):
        start, end = place.start, place.end
        unit = text[start:end]
        label = label_of(unit) if concepts else ""
        # By position: with names a unit costs half as much again.
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
    """What a line is about, or who speaks, if it says so at its beginning and that is short: the first cell of a row,
    words in bold or code, or what stands before a colon.
    """
    if line[:1] == "|":
        cell = line[1:].partition("|")[0].strip()
        return cell if len(cell) <= _MOST_OF_LABEL else ""
    if marked := _MARKED_BEGINNING.match(line):
        return marked[1]
    head, colon, rest = line.partition(":" if ":" in line else "：")
    is_label = len(head) <= _MOST_OF_LABEL and (colon == "：" or rest[:1] in _AFTER_LABEL)
    return head if colon and is_label else ""


def _cosine(excerpts: Sequence[Excerpt], number: int, start: int) -> float | None:
    if number < 0 or start >= excerpts[number].end:
        return None
    return excerpts[number].cosine


NOISE: Final = 2.0
"""The variance of cosines, in units of what random directions have, up to which a model tells nothing;
that texts share words widens it a little even for hashed words."""
LEAST_TRUST: Final = 0.001
"""What a model gets that tells nothing: enough to show its finds where words find none, too little to
change the order of what words find."""

NEAR: Final = 3.7
"""How many times as far from texts at large as from the query a text is that means the same as often as not."""
MOST_DEVIATIONS: Final = 100.0
"""No model that tells anything apart comes near. Where nearly all texts have one vector, the distance of
another one would be beyond floats once it is an exponent."""


class Background(msgspec.Struct, frozen=True, dict=True):
    """The cosines that a query has to texts at large: what is high for this query and this model."""

    mean: float
    deviation: float
    dimensions: int

    @cached_property
    def trust(self) -> float:
        """`LEAST_TRUST` to 1: the share of the variance that is no noise.

        The cosine of independent random directions has the variance 1/dimensions. A model that tells
        meanings apart spreads its cosines wider; hashed words hardly do.
        """
        noise, variance = NOISE / self.dimensions, self.deviation**2
        return max(LEAST_TRUST, 1.0 - noise / variance) if variance > noise else LEAST_TRUST

    def place(self, cosine: float | None) -> float:
        """In standard deviations above the mean, trusted as far as the model is; 0 if unknown.

        At most `MOST_DEVIATIONS`.
        """
        if cosine is None or not self.deviation:
            return 0.0
        return min(MOST_DEVIATIONS, self.trust * (cosine - self.mean) / self.deviation)

    def nearness(self, cosine: float | None) -> float:
        """Odds of meaning the same, from how much of the way from texts at large to the query is covered: next to
        nothing at half of it, even at four fifths; 0 if unknown.
        """
        if cosine is None or cosine <= self.mean:
            return 0.0
        left = max(1e-3, 1 - cosine)
        return self.trust * ((cosine - self.mean) / left / NEAR) ** 3


class Lanes(msgspec.Struct, frozen=True, gc=False):
    """How much each lane counts; the stronger one counts whole."""

    text: float
    vector: float

    @classmethod
    def of(cls, text_weight: float, vector_weight: float) -> Lanes:
        """From the documented weights, whose defaults 0.3 and 0.7 give the measured balance."""
        text, vector = text_weight / 0.3, vector_weight / 0.7
        highest = max(text, vector)
        return cls(text / highest, vector / highest) if highest else cls(1.0, 0.0)


KEYWORDS_ONLY: Final = Lanes(1.0, 0.0)


FULL_COVERAGE: Final = 1.0 - 1e-9
USUAL_INFORMATION: Final = 20.0
"""Nats that a question asks for. One that asks for less, or more, counts as its geometric mean with that: a long
prompt, and the pairs of characters of a script without word spaces, say much beside what is asked.
"""
LEAST_INFORMATION: Final = 9.0
"""Nats: a single word that is found counts more than a vector that stands out."""
AROUND_LINES: Final = 1
"""Lines before, and after, that are around one."""
SHORTEST: Final = 16
LONGEST: Final = 700
_USUAL: Final = 80
"""UTF-16 units: the lengths between which length counts, and that of a line that it leaves as it is."""


@cache
def _of_length(power: float) -> Sequence[float]:
    """What the length of a line tells, up to `LONGEST`."""
    return [power * math.log(max(length, SHORTEST) / _USUAL) for length in range(LONGEST + 1)]


RRF_K: Final = 2
"""Constant of reciprocal rank fusion (Cormack et al., 2009); small, since only the top counts."""

Strategy = Literal["weighted", "rrf"]


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """What speaks for one unit."""

    text: float
    """The share of what words could tell at most: 0..1."""
    vector: float
    """What vectors tell, in nats."""
    prior: float = 0.0
    """What the line itself tells whatever was asked, in nats, if anything above does."""
    is_full: bool = False
    """Whether the line and those around it hold everything that was asked for: age does not touch it."""


NO_EVIDENCE: Final = Evidence(0.0, 0.0)


QUESTION_MARKS: Final = ("?", "？", "؟")


def weigh_units(
    units: Sequence[Unit],
    weights: Weights,
    background: Background | None,
    *,
    names: Sequence[str] = (),
    asks_when: bool = False,
) -> list[Evidence]:
    """The evidence of each unit of the file with these names, in order; what says nothing has none, nor neighbours."""
    found = [NO_EVIDENCE] * len(units)
    lines = [at for at, unit in enumerate(units) if unit.text.strip(_SIGNS).strip()]
    held = [units[at].concepts for at in lines]
    told = _meanings(units, background)
    coverage = weights.coverage
    of_file = learnt.FILE * max([unit.chunk_score for unit in units], default=0.0)
    of_line, of_around, of_chunk = learnt.LINE, learnt.AROUND, learnt.CHUNK
    of_length, most = _of_length(learnt.LENGTH), learnt.text()
    # A model that is trusted tells the same by itself.
    of_concept = learnt.HELD * (1 - background.trust if background else 1)
    below_front_matter = text_start(units)
    named = _Names(weights, names, units[0].context if units else 0)
    for number, (at, own, near) in enumerate(zip(lines, held, _around(held), strict=True)):
        unit = units[at]
        line = unit.text
        begins = not number or unit.start - units[at - 1].end > 1
        is_named = (begins or line.lstrip()[0] in _NAMING) and named.read(unit, own, begins=begins)
        meaning = told[unit.cosine]
        if not (near or unit.context or meaning > 0):
            continue
        names_subject = at < below_front_matter or is_named
        names_subject = names_subject or (
            "[[" in line and re.fullmatch(_LINKS_ONLY, line) is not None
        )
        # Below a heading, or front matter, that says nothing of what was asked, lines answer; the heading does not.
        around = own and own | unit.context if names_subject else near | unit.context
        if not (around or meaning > 0):
            continue
        text = covered = 0.0
        if around:
            covered = coverage(around)
            words = of_line * coverage(own) + of_around * covered + of_chunk * unit.chunk_score
            text = (words + of_file) / most
        prior = of_length[min(unit.length, LONGEST)] + of_concept * own.bit_count()
        prior += learnt.HEADING if names_subject else learnt.NAMED * named.fit
        if unit.is_labelled:
            prior += learnt.LABEL
        if number and units[lines[number - 1]].text.rstrip().endswith(QUESTION_MARKS):
            prior += learnt.REPLY
        if asks_when and tells_time(line):
            prior += learnt.TIME
        found[at] = Evidence(text, meaning, prior, near > 0 and covered >= FULL_COVERAGE)
    return found


_SIGNS: Final = " \t\r-=*_+>|:."
"""A line of these alone says nothing."""


class _Names:
    """How well the names that a line stands below fit what is asked: of its note, and of the headings above it."""

    def __init__(self, weights: Weights, names: Iterable[str], context: int) -> None:
        """`names`: of the note; `context`: the concepts of any of its chunks' contexts, which hold them."""
        self._weights = weights
        fits = map(weights.fit, names) if self._may_fit(context) else ()
        self._of_note = max(fits, default=0.0)
        self._above: list[tuple[int, float]] = []
        """Of the headings in force, their levels, which rise, and how well each fits."""
        self._is_in_code = False
        self.fit = 0.0

    def read(self, unit: Unit, held: int, *, begins: bool) -> bool:
        """Goes on to a line that holds these concepts; whether it is a heading. `begins`: none before it is known."""
        line = unit.text
        if begins:
            self._begin(unit)
        if line.lstrip().startswith(FENCES):
            self._is_in_code = not self._is_in_code
        if self._is_in_code or not is_heading(line):
            return False
        level, title = parse_heading(line) or (1, "")
        self._above = [one for one in self._above if one[0] < level]
        self._above.append((level, self._weights.fit(title, held)))
        self._stand()
        return True

    def _begin(self, unit: Unit) -> None:
        headings = stored_headings(unit.headings) if self._may_fit(unit.context) else ()
        self._above = [(level, self._weights.fit(title)) for level, title in headings]
        self._is_in_code = False
        self._stand()

    def _may_fit(self, context: int) -> bool:
        return self._weights.coverage(context) >= LEAST_NAMED

    def _stand(self) -> None:
        fits = [fit for _, fit in self._above]
        nearest = fits.pop() if fits else self._of_note
        if [level for level, _ in self._above] == [1]:  # below its title the note has two names
            nearest = max(nearest, self._of_note)
        self.fit = max(nearest, max(self._of_note, *fits, 0.0) / 2)


@lru_cache(maxsize=256)
def stored_headings(headings: str) -> tuple[tuple[int, str], ...]:
    """The level and title of each of those that are in force where a chunk begins."""
    return tuple(filter(None, map(parse_heading, headings.split(HEADING_SEPARATOR))))


_HEADING: Final = re.compile(r"#{1,6}(\s|\Z)")


def is_heading(line: str) -> bool:
    return line.startswith("#") and _HEADING.match(line) is not None


_LINKS_ONLY: Final = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:[^\[\]:\n]{1,40}:[ \t]+)?(?:!?\[\[[^\[\]\n]*\]\][\s,·|]*)+"
"""A line of a contents page: it names notes, and these answer."""
_FRONT_MATTER: Final = "---"
FENCES: Final = ("```", "~~~")
_NAMING: Final = frozenset("#`~")
"""What headings and fences begin with."""


def text_start(units: Sequence[Unit]) -> int:
    """The number of the first unit below what a note says of itself: front matter, or the properties that a page of
    Logseq begins with. Nought without that.
    """
    if not units or units[0].start:
        return 0
    if units[0].text.rstrip() != _FRONT_MATTER:
        return next((at for at, unit in enumerate(units) if not is_property(unit.text)), 0)
    for at in range(1, len(units)):
        if units[at].start - units[at - 1].end > 1:
            return 0
        if units[at].text.rstrip() == _FRONT_MATTER:
            return at + 1
    return 0


def _around(held: Sequence[int]) -> list[int]:
    """What each line holds together with the `AROUND_LINES` before and after it."""
    padding = [0] * AROUND_LINES
    padded = [*padding, *held, *padding]
    found = list(held)
    for shift in range(2 * AROUND_LINES + 1):
        found = list(map(or_, found, islice(padded, shift, None)))
    return found


def _meanings(units: Sequence[Unit], background: Background | None) -> dict[float | None, float]:
    """By cosine, of which many lines have the same, what it tells in nats."""
    cosines = {unit.cosine for unit in units if unit.cosine is not None}
    if background is None or not cosines:
        return {unit.cosine: 0.0 for unit in units}
    best = background.place(max(cosines))
    return {one: learnt.MEANING * (background.place(one) + best) for one in (None, *cosines)}


def weighted_odds(evidence: Sequence[Evidence], lanes: Lanes, *, information: float) -> list[float]:
    """The odds of each line above those of an unrelated one; 0 where nothing speaks for it.

    `information`: how much the query asks for, in nats: `Weights.total`. A question that says more is answered by
    what holds more of it.
    """
    nats = (
        lanes.text
        * learnt.text()
        * math.sqrt(USUAL_INFORMATION * max(LEAST_INFORMATION, information))
    )
    return [
        math.expm1(told) * math.exp(one.prior)
        if (told := nats * one.text + lanes.vector * one.vector) > 0
        else 0.0
        for one in evidence
    ]


def ranked_odds(files: Sequence[Sequence[Evidence]], lanes: Lanes) -> list[list[float]]:
    """The same from the units' ranks in either lane, over all files: reciprocal rank fusion."""
    every = [one for file in files for one in file]
    text = _reciprocal_ranks([one.text for one in every])
    vector = _reciprocal_ranks([one.vector for one in every])
    return [
        [lanes.text * text[one.text] + lanes.vector * vector[one.vector] for one in file]
        for file in files
    ]


def aged_odds(
    units: Sequence[Unit], evidence: Sequence[Evidence], odds: Sequence[float]
) -> Sequence[float]:
    """What age leaves of the odds; all of them where everything that was asked for is found."""
    if {unit.freshness for unit in units} <= {1.0}:
        return odds
    return [
        value if one.is_full else value * unit.freshness
        for unit, one, value in zip(units, evidence, odds, strict=True)
    ]


def _reciprocal_ranks(scores: Sequence[float]) -> dict[float, float]:
    """`(k + 1) / (k + rank)` by score, equal scores share a rank; nothing for a score of 0 or less."""
    ordered = sorted(set(scores), reverse=True)
    return {
        score: (RRF_K + 1) / (RRF_K + rank) if score > 0 else 0.0
        for rank, score in enumerate(ordered, 1)
    }
