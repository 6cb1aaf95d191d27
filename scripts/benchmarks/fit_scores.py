"""Learns how likely a passage answers: the constants of `backends/ranking/learnt.py`.

It learns from the passages that are shown for the questions of each family, by keywords and with vectors, and for
questions without an answer; each family has the same weight. The calibration error of each family is shown with the
constants learnt from all families, and with those learnt from the others.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import msgspec
import numpy as np
from rich.console import Console

from backends.ranking import learnt
from backends.ranking.learnt import Signs, score_of
from benchmarks.families import families
from benchmarks.fit import Indexed, answers, index_all, learnt_as
from benchmarks.questions import Collection
from benchmarks.reliability import Passage, calibration_error, without_answer
from benchmarks.running import figures
from benchmarks.scoring import shown

NAMES: Final = (
    "CONSTANT",
    "SHARE",
    "BEST_LINE",
    "INFORMATION",
    "STANDS_OUT",
    "BY_MODEL",
    "SHARE_BY_MODEL",
)
NEAR: Final = 0.05
"""The odds by nearness from which a passage is not used, since it says nothing about the other signs."""
SHRINK: Final = 1.0
"""The penalty on the squares of the constants, so that a few passages alone have little effect."""
_STEPS: Final = 30


class Answered(NamedTuple):
    """The results of one question, in their order."""

    family: str
    by_meaning: bool
    signs: tuple[Signs, ...]
    answers: tuple[bool, ...]


def with_unanswerable(found: Mapping[str, Sequence[Collection]]) -> dict[str, list[Collection]]:
    """Adds to the questions of each workspace its share of those that have no answer there."""
    extra = without_answer(found)
    return {
        name: [
            one._replace(questions=(*one.questions, *other.questions))
            for one, other in zip(collections, extra[name], strict=True)
        ]
        for name, collections in found.items()
    }


def answered(one: Indexed) -> list[Answered]:
    found = []
    for by_meaning in (False, True):
        for question, hits in answers(one, by_meaning=by_meaning, explain=True):
            signs, right = [], []
            for hit in hits:
                if hit.explain and hit.explain["signs"]:
                    signs.append(msgspec.convert(hit.explain["signs"], Signs))
                    results = [msgspec.to_builtins(hit)]
                    right.append(any(shown(each, results) for each in question.evidence))
            found.append(Answered(one.family, by_meaning, tuple(signs), tuple(right)))
    return found


def learn(found: Sequence[Answered]) -> dict[str, float]:
    """Returns the constants that best explain which passages answer; each family has the same weight in each mode."""
    used = [
        (one.family, one.by_meaning, signs, answers_it)
        for one in found
        for signs, answers_it in zip(one.signs, one.answers, strict=True)
        if signs.nearness < NEAR
    ]
    counts = Counter((family, by_meaning) for family, by_meaning, _, _ in used)
    x = np.array([_row(signs) for _, _, signs, _ in used])
    y = np.array([float(answers_it) for *_, answers_it in used])
    w = np.array([1000 / counts[family, by_meaning] for family, by_meaning, _, _ in used])
    constants = np.zeros(len(NAMES))
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-x @ constants))
        gradient = x.T @ (w * (y - p)) - SHRINK * constants
        curvature = (x.T * (w * p * (1 - p))) @ x + SHRINK * np.eye(len(NAMES))
        constants = constants + np.linalg.solve(curvature, gradient)
    return {name: round(float(one), 2) for name, one in zip(NAMES, constants, strict=True)}


def _row(signs: Signs) -> list[float]:
    """Returns the factor of each constant, see `learnt.likelihood`."""
    trust = signs.trust
    return [
        1.0, signs.share, signs.best_line, signs.information, signs.stands_out, trust, trust * signs.share,
    ]  # fmt: skip


def scored(found: Iterable[Answered], constants: Mapping[str, float]) -> list[Passage]:
    """Scores passages as a search with these constants does: no score is higher than the one before."""
    passages = []
    with learnt_as(constants):
        for one in found:
            ceiling = 1.0
            for signs, answers_it in zip(one.signs, one.answers, strict=True):
                ceiling = min(ceiling, score_of(learnt.likelihood(signs)))
                passages.append(Passage(ceiling, answers_it))
    return passages


def report(found: Sequence[Answered], console: Console) -> None:
    current = {name: float(getattr(learnt, name)) for name in NAMES}
    fitted = learn(found)
    console.print("\n".join(f"{name} = {value}" for name, value in fitted.items()))
    for by_meaning in (False, True):
        of_mode = [one for one in found if one.by_meaning == by_meaning]
        mode = "with all-MiniLM-L6-v2" if by_meaning else "by words"
        table = figures(
            f"Calibration error from 0.5 on, {mode}",
            "| passages from 0.5 on | today | learnt from all | from the others",
        )
        for name in dict.fromkeys(one.family for one in found):
            family = [one for one in of_mode if one.family == name]
            others = learn([one for one in found if one.family != name])
            by = [scored(family, constants) for constants in (current, fitted, others)]
            likely = sum(one.score >= learnt.EVEN for one in by[1])
            table.add_row(name, f"{likely:,}", *(f"{calibration_error(one):.3f}" for one in by))
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", type=Path, help="directory with realtalk, realmem and beam")
    parser.add_argument("--locomo", type=Path, help="directory with conv-*/ workspaces")
    parser.add_argument("--multilingual", type=Path, help="directory with queries.json")
    options = parser.parse_args()
    asked = with_unanswerable(families(options.families, options.locomo, options.multilingual))
    with tempfile.TemporaryDirectory() as place:
        indexed = anyio.run(index_all, asked, Path(place))
        with Pool() as pool:
            found = [one for each in pool.imap(answered, indexed) for one in each]
    report(found, Console(width=120))


if __name__ == "__main__":
    main()
