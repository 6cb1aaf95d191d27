"""Measures the time that ranking and snippets add to a search, once the candidates are fetched.

Times `PassageRanker` alone, on candidates of seeded text with the terms that an index would contain, by
keywords and with cosines. Besides the time on the clock it shows processor time, which other work on the
machine affects less.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from rich.console import Console

from backends.builtin.searching import SNIPPET_CHARS
from backends.ranking.evidence import KEYWORDS_ONLY, Background, LaneWeights
from backends.ranking.fusion import PassageRanker
from backends.ranking.lines import Candidate, Excerpt
from backends.ranking.query import QueryAnalyser, Weights
from benchmarks.large_index import LANGUAGE, ZipfText
from benchmarks.running import figures
from benchmarks.scoring import percentile

RESULTS: Final = 6
MIN_SCORE: Final = 0.35
DOCUMENTS: Final = 10_000
BACKGROUND: Final = Background(mean=0.1, deviation=0.1, dimensions=768)


class Latency(NamedTuple):
    """Milliseconds of one query."""

    clock: float
    processor: float


def measure(count: int, queries: int, *, hybrid: bool) -> list[Latency]:
    """Ranks `count` candidates for each query, which no other query has; returns the latencies."""
    text, rng = ZipfText(count), np.random.default_rng(count)
    analyser = QueryAnalyser([LANGUAGE])
    latencies = []
    for _ in range(queries):
        query = analyser.analyse(text.question())
        frequencies = {term: int(rng.integers(1, DOCUMENTS // 4)) for term in query.terms()}
        weights = Weights(query.concepts, frequencies, DOCUMENTS)
        candidates = [_candidate(text, rng, number, hybrid=hybrid) for number in range(count)]
        ranker = PassageRanker(
            weights,
            max_chars=SNIPPET_CHARS,
            lanes=LaneWeights.of(0.3, 0.7) if hybrid else KEYWORDS_ONLY,
            background=BACKGROUND if hybrid else None,
            min_score=MIN_SCORE,
        )
        latencies.append(_timed(ranker, candidates))
    return latencies


def _candidate(text: ZipfText, rng: np.random.Generator, number: int, *, hybrid: bool) -> Candidate:
    body, terms = text.chunk()
    halves = (0, len(body) // 2), (len(body) // 2, len(body))
    cosines = rng.normal(BACKGROUND.mean, BACKGROUND.deviation, len(halves)).tolist()
    excerpts = [Excerpt(*half, cosine) for half, cosine in zip(halves, cosines, strict=True)]
    return Candidate(
        chunk_id=number,
        file_id=number,
        start=0,
        start_line=1,
        text=body,
        terms=terms,
        bm25=float(rng.uniform(0, 10)),
        path=f"memory/{number}.md",
        excerpts=tuple(excerpts) if hybrid else (),
    )


def _timed(ranker: PassageRanker, candidates: list[Candidate]) -> Latency:
    clock, processor = time.perf_counter(), time.thread_time()
    found = list(islice(ranker.rank(candidates), RESULTS))
    latency = Latency((time.perf_counter() - clock) * 1000, (time.thread_time() - processor) * 1000)
    assert found
    return latency


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, nargs="+", default=[24, 48])
    parser.add_argument("--queries", type=int, default=300)
    options = parser.parse_args()
    table = figures(
        f"Ranking candidates into {RESULTS} passages",
        "candidates | mode | p50 | p95 | processor p50 | processor p95",
    )
    for count in options.candidates:
        for hybrid in (False, True):
            latencies = measure(count, options.queries, hybrid=hybrid)
            shown = [
                percentile([one[kind] for one in latencies], share)
                for kind in range(len(Latency._fields))
                for share in (0.5, 0.95)
            ]
            mode = "hybrid" if hybrid else "keyword"
            table.add_row(f"{count:,}", mode, *(f"{figure:.2f} ms" for figure in shown))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
