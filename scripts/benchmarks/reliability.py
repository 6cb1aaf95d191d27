"""The reliability of scores: of passages with a score near 0.8, eight in ten should answer.

A passage answers if it shows some evidence of its question. Some of the questions have no answer: those of one
family asked of another's notes, and others written for the sample and the vault.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.table import Table

from backends.ranking.learnt import EVEN
from benchmarks.families import DATA, VAULT, Share
from benchmarks.plot import Dots, squares
from benchmarks.questions import Collection, Question
from benchmarks.running import figures
from benchmarks.scoring import shown

CROSSED: Final = 200
"""The number of questions of one family asked of another's notes, in all."""
BINS: Final = 10
"""The number of bins, of equal width, from 0 to 1."""


class Passage(NamedTuple):
    score: float
    answers: bool


def passages(question: Question, results: Iterable[Mapping[str, Any]]) -> Iterator[Passage]:
    for one in results:
        yield Passage(one["score"], any(shown(evidence, [one]) for evidence in question.evidence))


class Bin(NamedTuple):
    """Passages with about the same score."""

    n: int
    score: float
    """The average of their scores."""
    answering: Share


def binned(found: Sequence[Passage]) -> list[Bin]:
    """Returns the bins by score; those without passages are left out."""
    by_score: dict[int, list[Passage]] = defaultdict(list)
    for one in found:
        by_score[min(BINS - 1, int(one.score * BINS))].append(one)
    return [
        Bin(
            len(each),
            sum(one.score for one in each) / len(each),
            Share.of(sum(one.answers for one in each), len(each)),
        )
        for _, each in sorted(by_score.items())
    ]


def calibration_error(found: Sequence[Passage]) -> float:
    """Returns how far scores are from the share that answers, on average (ECE).

    Only passages that score `EVEN` or more count: below, a score is no probability.
    """
    bins = binned([one for one in found if one.score >= EVEN])
    passages_in_all = sum(one.n for one in bins)
    off = sum(one.n * abs(one.score - one.answering.share) for one in bins)
    return off / max(1, passages_in_all)


def without_answer(families: Mapping[str, Sequence[Collection]]) -> dict[str, list[Collection]]:
    """Returns questions to which each family has no answer: an even sample of the others', and some written for it."""
    each, rest = divmod(CROSSED, len(families)) if len(families) > 1 else (0, 0)
    asked = {
        name: spread_out(others(families, name), each + (number < rest))
        for number, name in enumerate(families)
    }
    for name, questions in written().items():
        if name in asked:
            asked[name] += questions
    return {name: _handed_out(families[name], questions) for name, questions in asked.items()}


def others(families: Mapping[str, Sequence[Collection]], name: str) -> list[Question]:
    """Returns the questions of all families but this one, equally many of each, without their evidence."""
    rest = [
        [question for one in collections for question in one.questions]
        for other, collections in families.items()
        if other != name
    ]
    fewest = min(map(len, rest), default=0)
    return [
        question._replace(evidence=(), before=None)
        for turn in zip(*(spread_out(one, fewest) for one in rest), strict=True)
        for question in turn
    ]


def spread_out(questions: Sequence[Question], count: int) -> list[Question]:
    """Returns `count` of the questions at even distances; all of them if there are fewer."""
    count = min(count, len(questions))
    return [questions[number * len(questions) // count] for number in range(count)]


def written() -> dict[str, list[Question]]:
    """Returns questions without an answer that were written for the notes of this repository, by family."""
    found: dict[str, list[Question]] = defaultdict(list)
    for one in json.loads((DATA / "unanswerable.json").read_text(encoding="utf-8")):
        found[one["notes"]].append(Question(one["question"], "no answer", one["lang"], ()))
    found["vault"] += unanswerable(VAULT / "unanswerable.json")
    return found


def unanswerable(path: Path) -> tuple[Question, ...]:
    entries = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Question(one["question"], "no answer", one["lang"], ()) for one in entries)


def _handed_out(
    collections: Sequence[Collection], questions: Sequence[Question]
) -> list[Collection]:
    """Gives each workspace of the family its share of the questions."""
    count = len(collections)
    return [
        one._replace(questions=tuple(questions[number::count]))
        for number, one in enumerate(collections)
    ]


def reliability_table(title: str, by_family: Mapping[str, Sequence[Passage]]) -> Table:
    """Returns a table of each family's passages, calibration error, and percentage that answers per tenth of scores."""
    tenths = (f".{tenth}-" for tenth in range(3, BINS))
    table = figures(title, "| passages | error", *tenths)
    for name, found in by_family.items():
        bins = binned(found)
        by_tenth = {min(BINS - 1, int(one.score * BINS)): one for one in bins}
        cells = (
            f"{100 * one.answering.share:.0f} ({one.n})" if (one := by_tenth.get(tenth)) else ""
            for tenth in range(3, BINS)
        )
        table.add_row(name, f"{len(found):,}", f"{calibration_error(found):.3f}", *cells)
    return table


def draw_reliability(path: Path, systems: Mapping[str, Mapping[str, Sequence[Passage]]]) -> None:
    """Draws a diagram for each family: score across, share that answers up; true scores lie on the diagonal."""
    diagrams: dict[str, dict[str, list[Dots]]] = defaultdict(dict)
    for system, by_family in systems.items():
        for name, found in by_family.items():
            diagrams[name][system] = [
                Dots(one.score, one.answering.share, one.answering.low, one.answering.high, one.n)
                for one in binned(found)
            ]
    squares(path, diagrams, x="score of a passage", y="share that answers")
