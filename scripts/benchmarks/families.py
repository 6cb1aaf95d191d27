"""Families of notes: how often a page answers their questions, with the same weight for each family.

Nothing here starts a gateway: `recall` asks one, and `fit` asks the ranking itself; both score the results with
`Page.of` and sum them up with `Summary.of`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.table import Table

from benchmarks.questions import (
    REALTALK_CATEGORIES,
    Collection,
    Question,
    conversations,
    locomo,
    multilingual,
    sample,
    workspace,
)
from benchmarks.running import figures
from benchmarks.scoring import PIECE, cut, flat, percentile, shown, wilson

DATA: Final = Path(__file__).resolve().parents[2] / "tests/data"
VAULT: Final = DATA / "vault"
LIMITS: Final = (1_000, 2_000, 4_200)
"""Characters of a page: its snippets one after the other, the last one cut."""
FAMILIES: Final = ("LoCoMo", "REALTALK", "RealMem", "BEAM", "five languages", "sample", "vault")
IDENTIFIERS: Final = "identifiers"
"""Questions taken from the other families: they are shown, but are no part of the mean."""
RESAMPLES: Final = 2_000


def families(
    directory: Path | None, locomo_data: Path | None, multilingual_data: Path | None
) -> dict[str, list[Collection]]:
    """Returns the families by name, in the order of the tables.

    `directory` has `realtalk`, `realmem` and `beam`. A family whose directory is not given is left out.
    """
    found: dict[str, list[Collection]] = {}
    if locomo_data:
        found["LoCoMo"] = locomo(locomo_data)
    if directory:
        found["REALTALK"] = conversations(directory / "realtalk", REALTALK_CATEGORIES)
        found["RealMem"] = conversations(directory / "realmem")
        found["BEAM"] = conversations(directory / "beam")
    if multilingual_data:
        found["five languages"] = multilingual(multilingual_data)
    found["sample"] = sample(DATA / "sample_questions.json")
    found["vault"] = [workspace(VAULT)]
    return found


class Page(NamedTuple):
    """The evidence of a question that one answer shows, and what the answer consists of."""

    group: str
    """The group of its question."""
    shown: tuple[tuple[bool, bool], ...]
    """Pairs (any of the evidence is shown, all of it is): on the whole page, then within each of `LIMITS`."""
    characters: int
    parts: int
    """The number of parts of its snippets, which lines `…` separate."""
    short_parts: int
    """The number of parts under `SHORT_PART` characters."""
    results: int
    evident: int
    """Characters of lines that are evidence."""

    @classmethod
    def of(cls, question: Question, results: Sequence[Mapping[str, Any]]) -> Page:
        """Scores results as `memory_search` returns them, in their order."""
        pages = [results, *(cut(results, limit) for limit in LIMITS)]
        found = [[shown(one, page) for one in question.evidence] for page in pages]
        snippets = [str(one["snippet"]) for one in results]
        parts = [part for snippet in snippets for part in parts_of(snippet)]
        return cls(
            question.group,
            tuple((any(each), bool(each) and all(each)) for each in found),
            characters=sum(map(len, snippets)),
            parts=len(parts),
            short_parts=sum(len(part) < SHORT_PART for part in parts),
            results=len(results),
            evident=sum(_evident(question, one) for one in results),
        )


SHORT_PART: Final = 60
LEFT_OUT: Final = "…"


def parts_of(snippet: str) -> list[str]:
    """Returns the parts of a snippet, which lines `…` separate."""
    parts: list[list[str]] = [[]]
    for line in snippet.split("\n"):
        if line.strip() == LEFT_OUT:
            parts.append([])
        else:
            parts[-1].append(line)
    return [text for part in parts if (text := "\n".join(part).strip())]


def _evident(question: Question, result: Mapping[str, Any]) -> int:
    wanted = [
        flat(one.text or one.passage) for one in question.evidence if one.path == result["path"]
    ]
    lines = (flat(line) for line in str(result["snippet"]).split("\n"))
    return sum(
        len(line)
        for line in lines
        if len(line) >= PIECE and any(line in text or text in line for text in wanted)
    )


class Share(NamedTuple):
    """A share of questions, with a 95 % interval."""

    share: float
    low: float
    high: float

    @classmethod
    def of(cls, successes: int, n: int) -> Share:
        return cls(successes / n if n else 0.0, *wilson(successes, n))

    def __str__(self) -> str:
        return f"{self.share:.3f} ({self.low:.2f}-{self.high:.2f})"


class Shares(NamedTuple):
    any: Share
    all: Share


PLACES: Final = ("six", *(str(limit) for limit in LIMITS))
"""The names of the pairs in `Page.shown`; `six`: the whole page, six results unless more were asked for."""


class Family(NamedTuple):
    """One family by one system."""

    n: int
    shares: Mapping[str, Shares]
    """The shares by the names in `PLACES`."""
    characters: float
    """The characters of a page on average."""
    parts_a_snippet: float
    """The parts of a snippet on average."""
    short_parts: float
    """The share of parts under 60 characters."""
    evident: float
    """The share of characters that carry evidence."""

    @classmethod
    def of(cls, pages: Sequence[Page]) -> Family:
        n = len(pages)
        shares = {
            name: Shares(
                *(Share.of(sum(page.shown[place][kind] for page in pages), n) for kind in (0, 1))
            )
            for place, name in enumerate(PLACES)
        }
        characters = sum(one.characters for one in pages)
        parts = sum(one.parts for one in pages)
        return cls(
            n=n,
            shares=shares,
            characters=characters / n,
            parts_a_snippet=parts / max(1, sum(one.results for one in pages)),
            short_parts=sum(one.short_parts for one in pages) / max(1, parts),
            evident=sum(one.evident for one in pages) / max(1, characters),
        )


class Summary(NamedTuple):
    """All families by one system, and their mean, in which each has the same weight."""

    families: Mapping[str, Family]
    mean: Mapping[str, Shares]
    """The shares by the names in `PLACES`; their intervals come from resampling the questions of each family."""

    @classmethod
    def of(cls, pages: Mapping[str, Sequence[Page]]) -> Summary:
        """Sums up the pages of each family; those of `IDENTIFIERS` are taken from them."""
        found = {name: Family.of(each) for name, each in pages.items() if each}
        mean = {
            name: Shares(
                *(
                    _mean(
                        [
                            [page.shown[place][kind] for page in each]
                            for each in pages.values()
                            if each
                        ]
                    )
                    for kind in (0, 1)
                )
            )
            for place, name in enumerate(PLACES)
        }
        identifiers = [one for each in pages.values() for one in each if one.group == "identifier"]
        if identifiers:
            found[IDENTIFIERS] = Family.of(identifiers)
        return cls(found, mean)

    def as_json(self) -> dict[str, Any]:
        def both(shares: Mapping[str, Shares]) -> dict[str, Any]:
            return {
                name: {kind: share._asdict() for kind, share in each._asdict().items()}
                for name, each in shares.items()
            }

        by_family = {
            name: one._asdict() | {"shares": both(one.shares)}
            for name, one in self.families.items()
        }
        return {"families": by_family, "mean": both(self.mean)}


def _mean(families: Sequence[Sequence[bool]]) -> Share:
    rng = random.Random(0)

    def mean(samples: Iterable[Sequence[bool]]) -> float:
        shares = [sum(one) / len(one) for one in samples]
        return sum(shares) / len(shares)

    means = sorted(mean(rng.choices(one, k=len(one)) for one in families) for _ in range(RESAMPLES))
    return Share(mean(families), percentile(means, 0.025), percentile(means, 0.975))


def shares_table(title: str, summary: Summary) -> Table:
    """Returns a table of any / all of each family at six results, with intervals, and within each limit."""
    table = figures(title, "| n | six: any | six: all", *(f"{limit:,}" for limit in LIMITS))
    rows: list[tuple[str, int, Mapping[str, Shares]]] = [
        (name, one.n, one.shares) for name, one in summary.families.items()
    ]
    counted = sum(n for name, n, _ in rows if name != IDENTIFIERS)
    for name, n, shares in [*rows, ("mean of families", counted, summary.mean)]:
        at_limits = (shares[place] for place in PLACES[1:])
        table.add_row(
            name,
            str(n),
            str(shares["six"].any),
            str(shares["six"].all),
            *(_both(*_two(one)) for one in at_limits),
        )
    return table


def form_table(title: str, summary: Summary) -> Table:
    """Returns a table of what the pages consist of."""
    table = figures(title, "| characters | parts a snippet | parts under 60 | evidence")
    for name, one in summary.families.items():
        table.add_row(
            name,
            f"{one.characters:,.0f}",
            f"{one.parts_a_snippet:.2f}",
            f"{100 * one.short_parts:.0f} %",
            f"{100 * one.evident:.0f} %",
        )
    return table


def ablation_table(
    title: str, full: Summary, without: Mapping[str, Summary], place: str = "six"
) -> Table:
    """Returns a table of how the mean and each family change without each weight, in points of any / all."""
    table = figures(title, "without | mean of families", *full.families)
    for name, one in without.items():
        pairs = [(full.mean[place], one.mean[place])]
        pairs += [
            (full.families[each].shares[place], one.families[each].shares[place])
            for each in full.families
        ]
        table.add_row(name, *(_difference(before, after) for before, after in pairs))
    return table


def left_out_table(
    title: str, in_sample: Summary, left_out: Mapping[str, Summary], place: str = "six"
) -> Table:
    """Returns a table of each family with weights learnt from all families, and from all others (`left_out`)."""
    table = figures(title, "| in sample | left out | difference")
    pairs = {
        name: (in_sample.families[name].shares[place], one.families[name].shares[place])
        for name, one in left_out.items()
    }
    for name, (seen, unseen) in pairs.items():
        table.add_row(name, _both(*_two(seen)), _both(*_two(unseen)), _difference(seen, unseen))
    means = [
        tuple(
            sum(_two(pair[side])[kind] for pair in pairs.values()) / len(pairs) for kind in (0, 1)
        )
        for side in (0, 1)
    ]
    lost = (100 * (after - before) for before, after in zip(*means, strict=True))
    table.add_row(
        "mean", *(_both(*one) for one in means), " / ".join(f"{one:+.1f}" for one in lost)
    )
    return table


def _two(shares: Shares) -> tuple[float, float]:
    return shares.any.share, shares.all.share


def _both(any_share: float, all_share: float) -> str:
    return f"{any_share:.3f} / {all_share:.3f}"


def _difference(before: Shares, after: Shares) -> str:
    pairs = zip(_two(before), _two(after), strict=True)
    return " / ".join(f"{100 * (new - old):+.1f}" for old, new in pairs)
