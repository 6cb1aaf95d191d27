"""Learns the weights of `backends/ranking/learnt.py` from the pages that they produce.

Every workspace is indexed once, with vectors. Then each weight in turn is made smaller and larger, and the change is
kept if the mean over families rises: of any and all evidence, at six results and within 2,000 characters, by keywords
and with vectors. `--left-out` also learns without each family in turn, `--ablation` takes each weight out.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import msgspec
from rich.console import Console

from backends.builtin.searching import Searcher
from backends.builtin.store.sqlite.store import SqliteStore
from backends.interface import Hit, SearchRequest
from backends.ranking import learnt
from benchmarks.embedding_server import embedding_server
from benchmarks.families import (
    Page,
    Summary,
    ablation_table,
    families,
    left_out_table,
    shares_table,
)
from benchmarks.minilm import MiniLM
from benchmarks.minilm_gguf import CACHE
from benchmarks.questions import Collection, Question
from benchmarks.recall import SYSTEMS
from benchmarks.running import configured, embedded
from benchmarks.vector_cache import CachedEmbedder
from config.settings import MemorySearchSettings, StoreSettings, VectorStoreSettings
from gateway.client import spawn_gateway
from providers.provider_interface import Fingerprint, QueryVector, Vector

WEIGHTS: Final = [name for name in vars(learnt) if name.isupper()]
STEPS: Final = (0.75, 1.33)
LEAST_GAIN: Final = 0.0004
"""The least gain of the mean that counts: less is chance."""
PLACES: Final = ("six", "2000")
WITHOUT: Final = {"AGAIN": 1.0}
"""The value that takes a weight out, if it is not zero."""

Weights = Mapping[str, float]


class Indexed(NamedTuple):
    """An indexed workspace, and the vectors of its questions."""

    family: str
    questions: Sequence[Question]
    index: Path
    vectors: Mapping[str, Vector]


async def index_all(found: Mapping[str, list[Collection]], place: Path) -> list[Indexed]:
    with CachedEmbedder(MiniLM(), CACHE / "vectors.sqlite") as model:
        async with embedding_server(model) as server:
            settings = SYSTEMS["minilm"].settings(server)
            indexed = []
            for family, collections in found.items():
                for number, collection in enumerate(collections):
                    state = place / f"{family}-{number}"
                    arguments = configured(state, collection.workspace, settings)
                    async with spawn_gateway(arguments) as client:
                        await client.call("sync", {}, timeout_s=900)
                        await embedded(client)
                    (index,) = state.glob("memory/*.sqlite")
                    asked = [one.query for one in collection.questions]
                    rows = model.embed([*asked, ""])  # a single text would not be kept
                    vectors = dict(
                        zip(asked, (array("f", row.tolist()) for row in rows), strict=False)
                    )
                    indexed.append(Indexed(family, collection.questions, index, vectors))
            return indexed


def pages(one: Indexed, *, weights: Weights, by_meaning: bool) -> tuple[str, list[Page]]:
    """Returns the family of one workspace, and the pages that its questions get."""
    with learnt_as(weights):
        found = [
            Page.of(question, msgspec.to_builtins(hits))
            for question, hits in answers(one, by_meaning=by_meaning)
        ]
    return one.family, found


@contextmanager
def learnt_as(values: Mapping[str, float]) -> Iterator[None]:
    """Gives what was learnt these values for the time of the block: what else this process scores keeps its own."""
    before = {name: getattr(learnt, name) for name in values}
    try:
        vars(learnt).update(values)
        yield
    finally:
        vars(learnt).update(before)


def answers(
    one: Indexed, *, by_meaning: bool, explain: bool = False
) -> Iterator[tuple[Question, Sequence[Hit]]]:
    """Yields each question to one workspace with its results."""
    searcher = Searcher(MemorySearchSettings(store=StoreSettings(path=one.index)))
    store = SqliteStore(one.index)
    try:
        store.open_vectors(VectorStoreSettings())
        fingerprint = _fingerprint(one.index)
        with store.view() as view:
            for question in one.questions:
                before = date.fromisoformat(question.before) if question.before else None
                request = SearchRequest(query=question.query, before=before, explain=explain)
                vector = QueryVector(one.vectors[question.query], fingerprint)
                yield question, searcher.search(view, request, vector if by_meaning else None).hits
    finally:
        store.close()


def _fingerprint(index: Path) -> Fingerprint:
    with sqlite3.connect(index) as rows:
        ((description,),) = rows.execute("SELECT description FROM fingerprints").fetchall()
    return msgspec.json.decode(description, type=Fingerprint)


class Bench:
    """Measures weights, and remembers the results."""

    def __init__(self, indexed: Sequence[Indexed], processes: int) -> None:
        self._indexed = sorted(indexed, key=lambda one: -len(one.questions))
        self._processes = processes
        self._known: dict[tuple[float, ...], list[Summary]] = {}

    def summaries(self, weights: Weights) -> list[Summary]:
        """Returns the summaries by keywords and with vectors."""
        key = tuple(weights[name] for name in WEIGHTS)
        if key not in self._known:
            self._known[key] = [self._summary(weights, by_meaning=each) for each in (False, True)]
        return self._known[key]

    def _summary(self, weights: Weights, *, by_meaning: bool) -> Summary:
        measured = partial(pages, weights=weights, by_meaning=by_meaning)
        by_family: dict[str, list[Page]] = {}
        with Pool(self._processes) as pool:
            for family, found in pool.imap_unordered(measured, self._indexed):
                by_family.setdefault(family, []).extend(found)
        return Summary.of({name: by_family[name] for name in sorted(by_family)})

    def mean(self, weights: Weights, without: str = "") -> float:
        """Returns the mean over families, one of which may be left out; learning maximises it."""
        shares = [
            share.share
            for summary in self.summaries(weights)
            for name, family in summary.families.items()
            if name not in (without, "identifiers")
            for place in PLACES
            for share in family.shares[place]
        ]
        return sum(shares) / len(shares)


def descend(
    bench: Bench, weights: Weights, console: Console, rounds: int, without: str = ""
) -> Weights:
    """Makes each weight in turn smaller and larger until a round changes nothing; returns the best weights."""
    best, found = bench.mean(weights, without), dict(weights)
    for _ in range(rounds):
        before = best
        for name, value in _neighbours(found):
            tried = {**found, name: value}
            if (mean := bench.mean(tried, without)) > best + LEAST_GAIN:
                best, found = mean, tried
                console.print(f"{best:.4f}  {name} = {value:.3g}")
        if best == before:
            break
    return found


def _neighbours(weights: Weights) -> Iterator[tuple[str, float]]:
    for name in WEIGHTS:
        yield from ((name, round(weights[name] * step, 3)) for step in STEPS)


def current() -> dict[str, float]:
    return {name: getattr(learnt, name) for name in WEIGHTS}


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", type=Path, help="directory with realtalk, realmem and beam")
    parser.add_argument("--locomo", type=Path, help="directory with conv-*/ workspaces")
    parser.add_argument("--multilingual", type=Path, help="directory with queries.json")
    parser.add_argument("--rounds", type=int, default=3, help="0: only measure")
    parser.add_argument("--ablation", action="store_true", help="what each weight is worth")
    parser.add_argument("--left-out", action="store_true", help="learn without each family, too")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(None if arguments is None else list(arguments))
    console = Console(width=160)
    found = families(options.families, options.locomo, options.multilingual)
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(anyio.run(index_all, found, Path(place)), options.processes)
        weights = descend(bench, current(), console, options.rounds)
        console.print("\n".join(f"{name} = {weights[name]:.3g}" for name in WEIGHTS))
        modes = ("by words", "with all-MiniLM-L6-v2")
        full = bench.summaries(weights)
        for mode, summary in zip(modes, full, strict=True):
            console.print(shares_table(f"Weights as learnt, {mode}", summary))
        if options.ablation:
            without = {n: bench.summaries({**weights, n: WITHOUT.get(n, 0.0)}) for n in WEIGHTS}
            for number, mode in enumerate(modes):
                lost = {name: each[number] for name, each in without.items()}
                console.print(ablation_table(f"Taken out, {mode}", full[number], lost))
        if options.left_out:
            others = {
                name: bench.summaries(descend(bench, weights, console, options.rounds, name))
                for name in found
            }
            for number, mode in enumerate(modes):
                unseen = {name: each[number] for name, each in others.items()}
                console.print(left_out_table(f"Left out, {mode}", full[number], unseen))


if __name__ == "__main__":
    main()
