"""Ranking of passages: the keyword lane and the vector lane are fused into one list with one score.

A poor vector model can do bounded harm: what keywords alone would show first stays among the first. `explain` shows
what each lane contributes to a result.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypedDict

import msgspec
from msgspec.structs import replace

from backends.ranking.evidence import (
    KEYWORDS_ONLY,
    USUAL_INFORMATION,
    Background,
    Evidence,
    LaneWeights,
    Strategy,
    aged_odds,
    ranked_odds,
    weigh_units,
    weighted_odds,
)
from backends.ranking.learnt import LEAST_SCORE, Signs, likelihood, score_of
from backends.ranking.lines import Candidate, Unit, units_by_file
from backends.ranking.names import is_heading, name_of_file
from backends.ranking.query import Weights
from backends.ranking.selection import (
    File,
    Passage,
    Repeats,
    Selection,
    best_selections,
    in_words,
    to_passage,
)
from backends.text.analyser import fold, normalise

ASSURED: Final = 3
WITHIN: Final = 6
"""The default number of results."""
MOST_STANDS_OUT: Final = 8.0
LEAST_SHARE: Final = -12.0
"""Features are clamped to these limits."""
SHOWN_SHARE: Final = 0.5
"""A share of a passage's odds: if so much of it is in other results, the passage counts as shown."""
_OTHER_MARKS: Final = 16
"""The most UTF-16 units by which the lengths of two lines with the same words may differ."""


class _Assured(msgspec.Struct, frozen=True, gc=False):
    """A passage that keywords alone would show."""

    file: File
    """The file in the fused ranking, which records what was shown."""
    selection: Selection
    """The units of the same file that keywords alone would show."""

    def is_shown(self) -> bool:
        """Returns whether enough of it was shown."""
        odds = self.selection.file.odds
        missing = sum(odds[at] for at in self._missing())
        return missing <= (1 - SHOWN_SHARE) * sum(odds[at] for at in self.selection.at)

    def rest(self) -> Selection:
        """Returns the part that was not shown."""
        missing = tuple(self._missing())
        return replace(self.selection, file=self.file, at=missing, new=missing)

    def _missing(self) -> list[int]:
        return [at for at in self.selection.at if not self.file.is_taken(at)]


class Assurance:
    """The assurance that the best passages by keywords alone are among the first results of a query."""

    def __init__(self, files: Iterable[File] = (), by_words: Iterable[File] = ()) -> None:
        """`by_words`: the same files with the odds from keywords alone. Without files, nothing is due."""
        known = {(file.file_id, file.path): file for file in files}
        self._assured = [
            _Assured(known[selection.file.file_id, selection.file.path], selection)
            for selection in islice(best_selections(by_words), ASSURED)
        ]

    def due(self, place: int) -> Selection | None:
        """Returns the selection that has to come at this rank, counted from 1, if any, and marks it as shown."""
        missing = [one for one in self._assured if not one.is_shown()]
        if not 0 <= WITHIN - place < len(missing):
            return None
        selection = missing[0].rest()
        selection.file.take_all(selection)
        return selection


class RankedPassage(msgspec.Struct, frozen=True, gc=False):
    passage: Passage
    score: float
    """0..1, the score compared with `minScore`, see `PassageRanker.rank`; never rises down the list."""
    signs: Signs | None
    """The features that the score is computed from; None if neither lane relates the passage to the question."""
    text_score: float
    """0..1, of its best line; 0 if neither a line nor its neighbours contain a word of the query."""
    vector_score: float | None
    """The highest cosine of its lines, 0..1."""
    fused: float
    """The value sorted by: the sum of its lines' odds, or of their reciprocal ranks."""
    text_share: float
    """The uncalibrated `text_score`: the share of the most that words could contribute, 0..1."""
    vector_deviations: float | None
    """The standard deviations of `vector_score` above the query's cosines in general, see `Background.place`."""
    freshness: float
    """The factor by which age reduces the odds of its lines: the lowest of them; 1 without reduction."""
    is_assured: bool
    """True if it was due by `Assurance`."""
    selection: Selection
    """The lines that `passage` shows, and those trimmed from the ends of its stretches."""


class _Strength(msgspec.Struct, frozen=True, gc=False):
    """The strength of a passage in each lane."""

    text_share: float
    cosine: float | None
    related: float
    """The share of the most that the notes' words could contribute to a question of usual length: 0..1."""

    @property
    def text(self) -> float:
        return calibrate(self.text_share)

    @property
    def highest(self) -> float:
        return max(self.text, calibrate(self.related), self.cosine or 0.0)


class _Weighed(msgspec.Struct, frozen=True, gc=False):
    """The units of one file and their evidence, before the lanes are weighted."""

    file_id: int
    path: str
    units: Sequence[Unit]
    evidence: Sequence[Evidence]


class PassageRanker:
    """Ranks the candidates of one query, block by block; what was shown is not shown again.

    Later blocks continue the list of the first, so the order does not depend on how many results are requested.
    """

    def __init__(
        self,
        weights: Weights,
        *,
        max_chars: int,
        lanes: LaneWeights = KEYWORDS_ONLY,
        background: Background | None = None,
        strategy: Strategy = "weighted",
        min_score: float = 0.0,
        asks_when: bool = False,
        asks_last: bool = False,
    ) -> None:
        """`asks_when`: whether the query asks for a time; `asks_last`: for the last one."""
        self._weights = weights
        self._max_chars = max_chars
        self._lanes = lanes
        self._background = background
        self._strategy = strategy
        self._min_score = min_score
        self._asks_when = asks_when
        self._asks_last = asks_last
        self._taken: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        self._best_chunks: defaultdict[int, float] = defaultdict(float)
        """The score of the best chunk of each file."""
        self._repeats = Repeats()
        self._ceiling = 1.0
        self._promises = background is not None and lanes.text > 0
        self.fell_short = False
        """True once a passage of the last candidates scores less than the minimum: those after it do, too."""
        self._shown = 0
        self._whole = 0.0
        """The sum of the odds of all lines of the first candidates."""
        self.files: list[File] = []
        """Every candidate ranked so far."""
        self._by_concepts: defaultdict[int, list[tuple[int, Unit]]] = defaultdict(list)
        self._files_by_concepts = 0

    def rank(self, candidates: Iterable[Candidate]) -> Iterator[RankedPassage]:
        """Yields passages of at least the minimum score that share no line and no text, best first.

        A passage that neither lane relates to the question comes last, with the score of the stronger lane. Scores
        never rise, also after a passage that is placed by rank fusion or by `Assurance`.
        """
        self.fell_short = False
        weighed = self._weighed(candidates)
        files = self._files(weighed, self._lanes)
        assurance = Assurance()
        if self._promises and not self.files:
            assurance = Assurance(files, self._files(weighed, KEYWORDS_ONLY))
        if not self.files:
            self._whole = math.fsum(file.left() for file in files)
        self.files += files
        unrelated = []
        for selection, is_assured in self._in_order(files, assurance):
            strength = self._strength(selection)
            if strength.highest < LEAST_SCORE:
                if strength.highest >= self._min_score:
                    unrelated.append((selection, strength))
                continue
            signs = self._signs(selection, strength)
            yield from self._shown_as(selection, strength, signs, is_assured=is_assured)
            if self.fell_short:
                return
        for selection, strength in unrelated:
            yield from self._shown_as(selection, strength, None, is_assured=False)

    def _shown_as(
        self, selection: Selection, strength: _Strength, signs: Signs | None, *, is_assured: bool
    ) -> Iterator[RankedPassage]:
        """Yields the selection as a passage, unless all that it was chosen for was shown before."""
        units = selection.units()
        self._taken[selection.file.file_id].update((unit.start, unit.end) for unit in units)
        if self._repeats.has_shown([unit.text for unit in selection.earned()]):
            return
        self._repeats.show([unit.text for unit in units])
        score = score_of(likelihood(signs)) if signs else strength.highest
        if score < self._min_score:
            self.fell_short = True
            return
        self._ceiling = min(self._ceiling, score)
        self._shown += 1
        background, cosine = self._background, strength.cosine
        yield RankedPassage(
            to_passage(selection, self._weights),
            score=self._ceiling,
            signs=signs,
            text_score=strength.text,
            vector_score=cosine,
            fused=selection.mass,
            text_share=strength.text_share,
            vector_deviations=(
                background.place(cosine) if background and cosine is not None else None
            ),
            freshness=min(unit.freshness for unit in units),
            is_assured=is_assured,
            selection=selection,
        )

    def same_lines(self, ranked: RankedPassage) -> list[tuple[int, int]]:
        """Returns the other files, by id, and the first line in each that says the same as a passage's best line."""
        selection = ranked.selection
        best = selection.file.units[selection.best()]
        words = in_words(best.text)
        places: dict[int, int] = {}
        for file_id, unit in self._holding(best.concepts):
            if (
                file_id not in places
                and file_id != selection.file.file_id
                and abs(unit.length - best.length) <= _OTHER_MARKS
                and in_words(unit.text) == words
            ):
                places[file_id] = unit.line
        return list(places.items())

    def _holding(self, concepts: int) -> Sequence[tuple[int, Unit]]:
        """Returns the units with exactly these concepts, and their files; they are grouped once for all results."""
        if self._files_by_concepts != len(self.files):
            self._files_by_concepts = len(self.files)
            self._by_concepts.clear()
            for file in self.files:
                for unit in file.units:
                    self._by_concepts[unit.concepts].append((file.file_id, unit))
        return self._by_concepts.get(concepts, ())

    def _in_order(
        self, files: Sequence[File], assurance: Assurance
    ) -> Iterator[tuple[Selection, bool]]:
        """Yields each selection, and whether it comes now by the assurance."""
        selections = best_selections(files)
        while True:
            if (due := assurance.due(self._shown + 1)) is not None:
                yield due, True
                # The rest of its file may make another selection, and an earlier one.
                selections = best_selections(files)
            elif (selection := next(selections, None)) is not None:
                yield selection, False
            elif (due := assurance.due(WITHIN)) is not None:
                yield due, True
            else:
                return

    def _weighed(self, candidates: Iterable[Candidate]) -> list[_Weighed]:
        weighed = []
        for (file_id, path, names), units in units_by_file(candidates, self._weights).items():
            before = self._best_chunks[file_id]
            self._best_chunks[file_id] = max([before, *(unit.chunk_score for unit in units)])
            evidence = weigh_units(
                units,
                self._weights,
                self._background,
                best_before=before,
                names=(name_of_file(path), *names),
                asks_when=self._asks_when,
            )
            weighed.append(_Weighed(file_id, path, units, evidence))
        return weighed

    def _files(self, weighed: Sequence[_Weighed], lanes: LaneWeights) -> list[File]:
        evidence = [one.evidence for one in weighed]
        if self._strategy == "rrf":
            odds = ranked_odds(evidence, lanes)
        else:
            information = self._weights.total
            odds = [weighted_odds(one, lanes, information=information) for one in evidence]
        files = []
        for one, values in zip(weighed, odds, strict=True):
            aged = aged_odds(one.units, one.evidence, values, asks_last=self._asks_last)
            file = File(one.file_id, one.path, one.units, one.evidence, aged, self._max_chars)
            file.take(self._taken[one.file_id])
            files.append(file)
        return files

    def _strength(self, selection: Selection) -> _Strength:
        file = selection.file
        evidence = [file.evidence[at] for at in selection.new]
        cosines = [one.cosine for one in selection.new_units() if one.cosine is not None]
        text = max([one.text for one in evidence]) if self._lanes.text else 0.0
        cosine = min(1.0, max(0.0, *cosines)) if cosines else None
        # If no note has a word of the question except for a name that all of them have, that name is all there is.
        known = min(USUAL_INFORMATION, self._weights.known)
        return _Strength(text, cosine, text * self._weights.total / known if known else 0.0)

    def _signs(self, selection: Selection, strength: _Strength) -> Signs:
        weights, background = self._weights, self._background
        share = math.log(selection.mass / self._whole) if 0 < selection.mass < self._whole else 0.0
        units = selection.new_units()
        names_only = all(not one.text.strip() or is_heading(one.text) for one in units)
        covered = 0.0 if names_only else max([weights.coverage(one.concepts) for one in units])
        signs = Signs(
            share=max(LEAST_SHARE, share),
            best_line=min(1.0, covered),
            information=math.log(max(1.0, weights.total)),
        )
        if background is None:
            return signs
        return replace(
            signs,
            trust=self._lanes.vector * background.trust,
            stands_out=min(MOST_STANDS_OUT, max(0.0, background.place(strength.cosine))),
            nearness=background.nearness(strength.cosine),
        )


def calibrate(share: float) -> float:
    """Returns a share of the query's information content as the 0..1 score that is compared with `minScore`.

    The cube root lets a passage with a twentieth of the information, one word of a long question, pass the documented
    0.35, and keeps a full match near 1.
    """
    return math.cbrt(min(1.0, max(0.0, share)))


class LaneShare(TypedDict):
    raw: float
    calibrated: float
    rank: int | None
    """The rank of `raw` among the lines of all candidates, from 1; equal ones share one. None if the lane found nothing
    in the passage.
    """
    weight: float


class LineShare(TypedDict):
    """The contribution of one line to its passage."""

    share: float
    """The share of the sum over all lines, 0..1."""
    text: float
    """The calibrated score of its words alone: 0..1."""
    vector: float | None
    """Its highest cosine; None where it has no vector."""


class Explanation(TypedDict):
    matchedTerms: Sequence[str]
    otherForms: Mapping[str, Sequence[str]]
    """Compounds or parts that were found instead of a term that was asked for, by that term."""
    coverage: float
    fused: float
    signs: Mapping[str, float] | None
    """The features that the score is computed from, see `Signs`."""
    chunkId: int
    text: LaneShare
    vector: LaneShare | None
    """None where no line of the passage has a vector."""
    freshness: float
    """The factor by which age reduces its weight: 1 without reduction."""
    assured: bool
    """True if it is here because of the assurance for keywords, not by `fused`."""
    lines: Sequence[LineShare]
    """The contributions of the lines of the snippet, in their order."""


def explain(ranked: RankedPassage, lanes: LaneWeights, files: Collection[File]) -> Explanation:
    """Returns what a result is based on. `files`: every candidate that was ranked for the query."""
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
        signs=_rounded(ranked.signs) if ranked.signs else None,
        chunkId=ranked.passage.chunk_id,
        text=_share(ranked.text_share, ranked.text_score, shares, lanes.text),
        vector=vector,
        freshness=round(ranked.freshness, 4),
        assured=ranked.is_assured,
        lines=_line_shares(ranked),
    )


def _rounded(signs: Signs) -> Mapping[str, float]:
    return {name: round(value, 4) for name, value in msgspec.to_builtins(signs).items()}


def _line_shares(ranked: RankedPassage) -> list[LineShare]:
    """Returns the contribution of each line; sentences of a long line count as that line."""
    file = ranked.selection.file
    new = set(ranked.selection.new)
    by_line: defaultdict[int, list[int]] = defaultdict(list)
    for at in ranked.selection.at:
        by_line[file.units[at].line].append(at)
    whole = sum(file.odds[at] for at in ranked.selection.new) or 1.0
    return [
        LineShare(
            share=round(sum(file.odds[at] for at in units if at in new) / whole, 4),
            text=round(max(calibrate(file.evidence[at].text) for at in units), 4),
            vector=max(
                (round(one, 4) for at in units if (one := file.units[at].cosine) is not None),
                default=None,
            ),
        )
        for line, units in by_line.items()
        if any(one.start_line <= line <= one.end_line for one in ranked.passage.stretches)
    ]


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
