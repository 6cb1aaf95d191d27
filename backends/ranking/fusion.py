"""Putting passages in order: the keyword lane and the vector lane become one list with one score.

What a file can offer at most is known before it is cut into lines and weighed, so that few files are. A poor vector
model can do bounded harm: what keywords alone would show first stays among the first. `explain` tells what a result
owes to each lane.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from itertools import compress, islice
from operator import or_
from typing import Final, TypedDict

import msgspec
from msgspec.structs import replace

from backends.ranking.evidence import (
    CHUNK_WEIGHT,
    KEYWORDS_ONLY,
    LABEL_WEIGHT,
    LEAST_TOLD,
    LINE_WEIGHT,
    MOST_INFORMATION,
    NEIGHBOUR_WEIGHT,
    NOTE_SHARE,
    QUESTION_MARKS,
    REPLY_WEIGHT,
    TEXT_WEIGHT,
    TIME_WEIGHT,
    VECTOR_WEIGHT,
    Background,
    Candidate,
    Chunk,
    Evidence,
    FileKey,
    Lanes,
    Strategy,
    Unit,
    aged_odds,
    around,
    chunks_by_file,
    ranked_odds,
    text_weight,
    units_of,
    weigh_units,
    weighted_odds,
)
from backends.ranking.passages import (
    BARE_SHARE,
    LEAST_ALONE,
    File,
    Offer,
    Passage,
    Repeats,
    Selection,
    best_selections,
    to_passage,
)
from backends.ranking.query import Weights
from backends.text.analyser import fold, normalise

ASSURED: Final = 3
WITHIN: Final = 6
"""The default number of results."""
LEAST_SCORE: Final = 0.35
"""The documented default of `minScore`: what neither words nor a vector relate to the question scores less."""
EVEN_ODDS: Final = 1_100.0
"""The odds of a passage, by words alone, from which it answers as often as not."""
FULL_ODDS: Final = 2.5
"""What is added for a passage that holds everything that was asked for: four in five of them answer."""
MODEL_NATS: Final = 1.5
"""By how much more the same takes where vectors add to the odds of every line, of a model that is wholly trusted."""
ENOUGH: Final = 0.5
"""A share of a passage's odds: when so much of it stands in other results, its point was made."""


class _Assured(msgspec.Struct, frozen=True, gc=False):
    """A passage as keywords alone would show it."""

    file: File
    """As the fusion knows it: it says what was shown."""
    selection: Selection
    """The units that keywords alone would show of the same file."""

    def is_shown(self) -> bool:
        """Whether enough of it is."""
        odds = self.selection.file.odds
        missing = sum(odds[at] for at in self._missing())
        return missing <= (1 - ENOUGH) * sum(odds[at] for at in self.selection.at)

    def rest(self) -> Selection:
        """What was not shown."""
        return replace(self.selection, file=self.file, at=tuple(self._missing()))

    def _missing(self) -> list[int]:
        return [at for at in self.selection.at if not self.file.is_taken(at)]


class Assurance:
    """The promise for one query."""

    def __init__(
        self, files: Mapping[FileKey, Offer] | None = None, by_words: Sequence[Offer] = ()
    ) -> None:
        """`by_words`: the same files with the odds that keywords alone give. Of none, nothing is due."""
        offers = files or {}
        self._assured = [
            _Assured(offers[selection.file.file_id, selection.file.path].file, selection)
            for selection in islice(best_selections(by_words), ASSURED)
        ]

    def due(self, place: int) -> Selection | None:
        """What has to come at this place of the results, counted from 1; it is taken."""
        missing = [one for one in self._assured if not one.is_shown()]
        if not 0 <= WITHIN - place < len(missing):
            return None
        selection = missing[0].rest()
        selection.file.take_all(selection)
        return selection


class RankedPassage(msgspec.Struct, frozen=True, gc=False):
    passage: Passage
    score: float
    """0..1, what `minScore` speaks of, see `PassageRanker.rank`; never rises down the list."""
    text_score: float
    """0..1, of its best line; 0 where no line holds or neighbours a word of the query."""
    vector_score: float | None
    """The highest cosine of its lines, 0..1."""
    fused: float
    """What the order goes by: the sum of its lines' odds, or of their reciprocal ranks."""
    text_share: float
    """What `text_score` is calibrated from: the share of what words could tell at most, 0..1."""
    vector_deviations: float | None
    """How far `vector_score` is above the query's cosines at large, see `Background.place`."""
    freshness: float
    """What age left of the odds of its lines: the least of them, 1 for all."""
    is_assured: bool
    """Whether it was due by `Assurance`."""
    selection: Selection
    """The lines that `passage` shows, before blank ones at the ends of stretches were left out."""


class _Strength(msgspec.Struct, frozen=True, gc=False):
    """What each lane tells of a passage."""

    text_share: float
    cosine: float | None
    is_full: bool
    """Whether a line of it and its neighbours hold everything that was asked for."""

    @property
    def text(self) -> float:
        return calibrate(self.text_share)

    @property
    def highest(self) -> float:
        return max(self.text, self.cosine or 0.0)


_MARGIN: Final = 1 + 1e-9
"""Bounds are computed in another order than what they bound."""


class Outline(msgspec.Struct, frozen=True, gc=False):
    """What bounds the lines of a file, whatever the lanes count."""

    deviations: float
    """What the best of its vectors tells: 0 or more, see `Background.place`."""
    words: list[tuple[float, float, int]]
    """`Evidence.text` and `Evidence.signs`, at most, each with the number of lines it holds for."""
    information: float
    """The information content of the query, see `Weights.total`."""


def outline_of(
    chunks: Sequence[Chunk],
    weights: Weights,
    background: Background | None,
    *,
    asks_when: bool,
) -> Outline:
    """Each line beside what stands near it, with the best vector of the file."""
    coverage = weights.coverage
    cosines = [excerpt.cosine for chunk in chunks for excerpt in chunk.candidate.excerpts]
    cosine = max(cosines, default=0.0)
    words = []
    signs = TIME_WEIGHT if asks_when else 0.0
    if any(mark in chunk.candidate.text for chunk in chunks for mark in QUESTION_MARKS):
        signs += REPLY_WEIGHT
    beyond = reduce(or_, [concepts for chunk in chunks for concepts in chunk.held], 0)
    for chunk in chunks:
        context, by_chunk = chunk.context, CHUNK_WEIGHT * chunk.score
        for (own, near, is_label), lines in _lines_of(
            chunk, beyond if len(chunks) > 1 else 0
        ).items():
            told = LINE_WEIGHT * coverage(own | context) + NEIGHBOUR_WEIGHT * coverage(
                near | context
            )
            most_signs = signs + LABEL_WEIGHT if is_label else signs
            words.append(((told + by_chunk) / TEXT_WEIGHT, most_signs, lines))
    deviations = max(0.0, background.place(cosine)) if background else 0.0
    return Outline(deviations, words, weights.total)


def _lines_of(chunk: Chunk, beyond: int) -> Counter[tuple[int, int, bool]]:
    """What each line and its surroundings hold at most, and whether its label was asked for, with the number
    of such lines.

    `beyond`: what may stand before and after the chunk. Lines without terms, which may be blank, are no
    neighbours here, so that more distant ones are.
    """
    terms = chunk.candidate.terms.split("\n")
    held = list(compress(chunk.held, terms))
    labels = map(bool, compress(chunk.labels, terms))
    found = Counter(zip(held, around([beyond, *held, beyond])[1:-1], labels, strict=True))
    if len(held) < len(terms):
        lines = chunk.candidate.text.removesuffix("\n").split("\n")
        blank = lines.count("") if len(lines) == len(terms) else 0
        found[0, reduce(or_, held, beyond), False] += len(terms) - len(held) - blank
    return found


def most_mass(outline: Outline, lanes: Lanes) -> float:
    """No selection of the file's lines has more mass (`Selection.mass`): as if all of them fitted into one snippet.
    What they may cost says little more, and takes longer to know.
    """
    text = text_weight(lanes, outline.information)
    by_vector = lanes.vector * VECTOR_WEIGHT * (1 + NOTE_SHARE) * outline.deviations
    mass = sum(
        [
            lines * math.expm1(max(LEAST_TOLD, text * told + by_vector + lanes.text * signs))
            for told, signs, lines in outline.words
            if told > 0 or by_vector > 0
        ]
    )
    return mass * _MARGIN


class Weighed(msgspec.Struct, frozen=True, gc=False):
    """The units of one file and their evidence, whatever the lanes count."""

    units: Sequence[Unit]
    evidence: Sequence[Evidence]


class Proposal:
    """The candidates of one file; cut into lines when that is asked for, once."""

    def __init__(
        self,
        key: FileKey,
        chunks: Sequence[Chunk],
        weights: Weights,
        background: Background | None,
        shown: Sequence[tuple[int, int]],
        *,
        max_chars: int,
        asks_when: bool,
    ) -> None:
        """`shown`: from which character to which the file was shown so far; it grows."""
        self.key = key
        self.outline = outline_of(chunks, weights, background, asks_when=asks_when)
        self._chunks = chunks
        self._weights = weights
        self._background = background
        self._shown = shown
        self._max_chars = max_chars
        self._asks_when = asks_when

    @cached_property
    def lines(self) -> Weighed:
        units = units_of(self._chunks)
        evidence = weigh_units(units, self._weights, self._background, asks_when=self._asks_when)
        return Weighed(units, evidence)

    def weighed(self, lanes: Lanes) -> File:
        odds = weighted_odds(self.lines.evidence, lanes, information=self._weights.total)
        return self.with_odds(odds, LEAST_ALONE)

    def with_odds(self, odds: Sequence[float], least_alone: float = 0.0) -> File:
        """`least_alone`: of a line that is shown also where those between it and the best one are not."""
        units, evidence = self.lines.units, self.lines.evidence
        odds = aged_odds(units, evidence, odds)
        file = File(*self.key, units, evidence, odds, self._max_chars, least_alone)
        for start, end in self._shown:
            file.take(start, end)
        return file


class Prospect:
    """A proposal under the weights of some lanes: what it offers at most, and all that it does."""

    def __init__(self, most_mass: float, weigh: Callable[[], File]) -> None:
        self.most_mass = most_mass
        self._weigh = weigh

    @cached_property
    def file(self) -> File:
        return self._weigh()


class PassageRanker:
    """Ranks the candidates of one query, block by block; what was shown is not shown again.

    Later blocks continue the list of the first, so the order does not depend on how many results are
    wanted.
    """

    def __init__(
        self,
        weights: Weights,
        *,
        max_chars: int,
        lanes: Lanes = KEYWORDS_ONLY,
        background: Background | None = None,
        strategy: Strategy = "weighted",
        min_score: float = 0.0,
        asks_when: bool = False,
    ) -> None:
        """`asks_when`: whether the query asks for a time."""
        self._weights = weights
        self._max_chars = max_chars
        self._lanes = lanes
        self._background = background
        self._strategy = strategy
        self._min_score = min_score
        self._asks_when = asks_when
        self._taken: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._repeats = Repeats()
        self._ceiling = 1.0
        self._promises = background is not None and lanes.text > 0
        self._shown = 0
        self._ranked_so_far: list[Prospect] = []

    def files(self) -> list[File]:
        """Every candidate that was ranked so far, weighed by now."""
        return [prospect.file for prospect in self._ranked_so_far]

    def rank(self, candidates: Iterable[Candidate]) -> Iterator[RankedPassage]:
        """Passages of at least the least score that share no line and no text, best first.

        From `LEAST_SCORE` on a score says how likely the passage answers: `LEAST_SCORE` never, 1 surely. Of what
        neither lane relates to the question, and what therefore comes last, it is what the stronger lane tells.
        It never rises: where a passage comes by rank or by promise, the next ones answer no likelier.
        """
        proposals = self._proposals(candidates)
        prospects = self._prospects(proposals, self._lanes)
        assurance = Assurance()
        if self._promises and not self._ranked_so_far:
            by_words = self._prospects(proposals, KEYWORDS_ONLY)
            keys = [proposal.key for proposal in proposals]
            assurance = Assurance(dict(zip(keys, prospects, strict=True)), by_words)
        self._ranked_so_far += prospects
        unrelated = []
        for selection, is_assured in self._in_order(prospects, assurance):
            strength = self._strength(selection)
            if strength.highest < LEAST_SCORE:
                if strength.highest >= self._min_score:
                    unrelated.append((selection, strength))
                continue
            score = LEAST_SCORE + (1 - LEAST_SCORE) * self._likelihood(selection, strength)
            yield from self._shown_as(selection, strength, score, is_assured=is_assured)
            if self._ceiling < self._min_score:
                return
        for selection, strength in unrelated:
            yield from self._shown_as(selection, strength, strength.highest, is_assured=False)

    def _shown_as(
        self, selection: Selection, strength: _Strength, score: float, *, is_assured: bool
    ) -> Iterator[RankedPassage]:
        """The selection, unless all of it was told before."""
        shown = [(unit.start, unit.end) for unit in selection.units()]
        self._taken[selection.file.file_id] += shown
        new = self._repeats.new_lines([unit.text for unit in selection.units()])
        if new:
            told = replace(selection, at=tuple(selection.at[number] for number in new))
            self._ceiling = min(self._ceiling, score)
            if self._ceiling >= self._min_score:
                self._shown += 1
                passage = to_passage(told, self._weights)
                yield self._ranked(passage, strength, told, is_assured=is_assured)

    def _in_order(
        self, prospects: Sequence[Prospect], assurance: Assurance
    ) -> Iterator[tuple[Selection, bool]]:
        """Also whether a selection comes now by the promise."""
        selections = best_selections(prospects)
        while True:
            if (due := assurance.due(self._shown + 1)) is not None:
                yield due, True
                # What is left of its file may make another selection, and an earlier one.
                selections = best_selections(prospects)
            elif (selection := next(selections, None)) is not None:
                yield selection, False
            elif (due := assurance.due(WITHIN)) is not None:
                yield due, True
            else:
                return

    def _ranked(
        self, passage: Passage, strength: _Strength, selection: Selection, *, is_assured: bool
    ) -> RankedPassage:
        background, cosine = self._background, strength.cosine
        return RankedPassage(
            passage,
            score=self._ceiling,
            text_score=strength.text,
            vector_score=cosine,
            fused=selection.mass,
            text_share=strength.text_share,
            vector_deviations=(
                background.place(cosine) if background and cosine is not None else None
            ),
            freshness=min(unit.freshness for unit in selection.units()),
            is_assured=is_assured,
            selection=selection,
        )

    def _proposals(self, candidates: Iterable[Candidate]) -> list[Proposal]:
        files = chunks_by_file(candidates, self._weights)
        return [
            Proposal(
                key,
                chunks,
                self._weights,
                self._background,
                self._taken[key[0]],
                max_chars=self._max_chars,
                asks_when=self._asks_when,
            )
            for key, chunks in files.items()
        ]

    def _prospects(self, proposals: Sequence[Proposal], lanes: Lanes) -> list[Prospect]:
        if self._strategy == "rrf":
            return _by_ranks(proposals, lanes)
        return [
            Prospect(most_mass(one.outline, lanes), partial(one.weighed, lanes))
            for one in proposals
        ]

    def _strength(self, selection: Selection) -> _Strength:
        file = selection.file
        evidence = [file.evidence[at] for at in selection.at]
        cosines = [one.cosine for one in selection.units() if one.cosine is not None]
        text = max([one.text for one in evidence]) if self._lanes.text else 0.0
        is_full = text > 0 and any(one.is_full for one in evidence)
        if file.is_bare(selection.at):
            text, is_full = text * BARE_SHARE, False
        return _Strength(text, min(1.0, max(0.0, *cosines)) if cosines else None, is_full)

    def _likelihood(self, selection: Selection, strength: _Strength) -> float:
        """How likely the passage answers: 0..1, of what was measured with and without vectors.

        Odds count a question's information up to `MOST_INFORMATION`; of a question that asks for more, the same
        odds say more.
        """
        background = self._background
        odds = self._odds(selection) * max(self._weights.total, MOST_INFORMATION) / MOST_INFORMATION
        odds /= EVEN_ODDS
        if background is not None:
            odds /= math.exp(MODEL_NATS * self._lanes.vector * background.trust)
            odds += background.nearness(strength.cosine)
        if strength.is_full:
            odds += FULL_ODDS
        return odds / (1 + odds)

    def _odds(self, selection: Selection) -> float:
        """What the order goes by, or would if it did not go by ranks."""
        if self._strategy == "weighted":
            return selection.mass
        evidence = [selection.file.evidence[at] for at in selection.at]
        return math.fsum(weighted_odds(evidence, self._lanes, information=self._weights.total))


def _by_ranks(proposals: Sequence[Proposal], lanes: Lanes) -> list[Prospect]:
    """A line's rank is known when all lines are."""
    odds = ranked_odds([one.lines.evidence for one in proposals], lanes)
    return [
        Prospect(math.inf, partial(one.with_odds, values))
        for one, values in zip(proposals, odds, strict=True)
    ]


def calibrate(share: float) -> float:
    """A share of the query's information content as the 0..1 score that `minScore` speaks of.

    The cube root lets a passage with a twentieth of the information, one word of a long question,
    pass the documented 0.35, and keeps a full match near 1.
    """
    return math.cbrt(min(1.0, max(0.0, share)))


class LaneShare(TypedDict):
    raw: float
    calibrated: float
    rank: int | None
    """Its place by `raw` among the lines of all candidates, from 1; equal ones share one. None where the
    lane found nothing in it."""
    weight: float


class LineShare(TypedDict):
    """What one line gave for its passage."""

    share: float
    """Of what all of them give, 0..1."""
    text: float
    """What its words score by themselves, calibrated: 0..1."""
    vector: float | None
    """Its highest cosine; None where it has no vector."""


class Explanation(TypedDict):
    matchedTerms: Sequence[str]
    otherForms: Mapping[str, Sequence[str]]
    """By a term that was asked for: compounds of it, or its parts, that were found instead."""
    coverage: float
    fused: float
    chunkId: int
    text: LaneShare
    vector: LaneShare | None
    """None where no line of the passage has a vector."""
    freshness: float
    """What age left of its weight: 1 for all."""
    assured: bool
    """Whether it stands here because of the promise about keywords, not by `fused`."""
    lines: Sequence[LineShare]
    """Of each line of the snippet, in their order."""


def explain(ranked: RankedPassage, lanes: Lanes, files: Collection[File]) -> Explanation:
    """`files`: every candidate that was ranked for the query."""
    cosine, deviations = ranked.vector_score, ranked.vector_deviations
    vector = None
    if cosine is not None and deviations is not None:
        cosines = {min(1.0, unit.cosine or 0.0) for file in files for unit in file.units}
        vector = _share(cosine, deviations, cosines, lanes.vector)
    shares = {one.text for file in files for one in file.evidence}
    return Explanation(
        matchedTerms=[
            concept.time or concept.alternatives[0]
            for concept in ranked.passage.matched
            if not concept.instead_of
        ],
        otherForms=_other_forms(ranked.passage),
        coverage=round(ranked.passage.coverage, 4),
        fused=round(ranked.fused, 4),
        chunkId=ranked.passage.chunk_id,
        text=_share(ranked.text_share, ranked.text_score, shares, lanes.text),
        vector=vector,
        freshness=round(ranked.freshness, 4),
        assured=ranked.is_assured,
        lines=_line_shares(ranked),
    )


def _line_shares(ranked: RankedPassage) -> list[LineShare]:
    """Sentences of a long line count as that line."""
    file = ranked.selection.file
    by_line: defaultdict[int, list[int]] = defaultdict(list)
    for at in ranked.selection.at:
        by_line[file.units[at].line].append(at)
    whole = sum(file.odds[at] for at in ranked.selection.at) or 1.0
    return [
        LineShare(
            share=round(sum(file.odds[at] for at in units) / whole, 4),
            text=round(max(calibrate(file.evidence[at].text) for at in units), 4),
            vector=_highest_cosine(file.units[at].cosine for at in units),
        )
        for line, units in by_line.items()
        if any(one.first <= line <= one.last for one in ranked.passage.stretches)
    ]


def _highest_cosine(cosines: Iterable[float | None]) -> float | None:
    known = [one for one in cosines if one is not None]
    return round(max(known), 4) if known else None


def _other_forms(passage: Passage) -> Mapping[str, Sequence[str]]:
    text = fold(normalise(passage.text))
    found: dict[str, list[str]] = {}
    for concept in passage.matched:
        if concept.instead_of:
            shown = [term for term in concept.alternatives if term in text]
            found.setdefault(concept.instead_of, []).extend(shown or concept.alternatives[:1])
    return found


def _share(raw: float, calibrated: float, all_raw: Collection[float], weight: float) -> LaneShare:
    return LaneShare(
        raw=round(raw, 4),
        calibrated=round(calibrated, 4),
        rank=1 + sum(other > raw for other in all_raw) if raw > 0 else None,
        weight=round(weight, 4),
    )
