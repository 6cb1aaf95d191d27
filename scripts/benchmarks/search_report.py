"""What `bench_search` shows: the table of its rows, and the plot with the memory's speed as the limit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from rich.table import Table

from benchmarks.plot import draw

PLOT: Final = Path(__file__).resolve().parents[2] / "docs/search.svg"


class Row(NamedTuple):
    """Milliseconds and bytes."""

    chunks: int
    dimensions: int
    mode: str
    engine: str
    p50: float
    p95: float
    sweep: float
    """The part of p50 that the look at the disk takes."""
    health: float
    """The 95th percentile while searches run."""
    resident: int
    database: int
    publish: float = 0.0
    """From the end of writing a line to the answer that holds it, by keywords."""
    growth: float = 0.0
    """Bytes of the database a published line, its file's other chunks being the same."""
    table: float = 0.0
    """What sqlite-vec's float table of 50,000 x 1536 took in the same minutes; 0: not asked."""

    @property
    def line(self) -> str:
        return self.mode if self.mode == "keyword" else f"{self.mode}, {self.engine}"


def read_bandwidth() -> float:
    """Bytes that one core reads in a second."""
    block = np.zeros(1 << 28, np.int8)
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        block.max()
        seconds.append(time.perf_counter() - started)
    return block.nbytes / min(seconds)


def show(rows: Sequence[Row]) -> Table:
    table = Table(title="Searches through the pipe, without the time for the query's vector")
    for column in (
        "chunks", "size", "mode", "engine", "p50", "p95", "for more", "of it sweep", "health p95",
        "resident", "database", "publish", "growth", "to table",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column in {"mode", "engine"} else "right")
    for row in rows:
        table.add_row(
            f"{row.chunks:,}",
            f"{row.dimensions:,}",
            row.mode,
            "" if row.mode == "keyword" else row.engine,
            f"{row.p50:.1f} ms",
            f"{row.p95:.1f} ms",
            _growth(row, rows),
            f"{row.sweep:.1f} ms",
            f"{row.health:.1f} ms",
            f"{row.resident / 1e6:,.0f} MB",
            f"{row.database / 1e6:,.0f} MB",
            f"{row.publish:.1f} ms" if row.publish else "",
            f"{row.growth / 1e3:.1f} kB" if row.publish else "",
            f"{row.p50 / row.table:.3f} of {row.table:.0f} ms" if row.table else "",
        )
    return table


def _growth(row: Row, rows: Iterable[Row]) -> str:
    """How many times the p50 of the next smaller index, for how many times its chunks."""
    smaller = [
        one
        for one in rows
        if (one.line, one.dimensions) == (row.line, row.dimensions) and one.chunks < row.chunks
    ]
    if not smaller:
        return ""
    before = max(smaller, key=lambda one: one.chunks)
    return f"{row.p50 / before.p50:.1f}x for {row.chunks / before.chunks:g}x"


def plot(rows: Iterable[Row], dimensions: int) -> None:
    chosen = sorted((row for row in rows if row.dimensions == dimensions), key=lambda row: row.line)
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in chosen:
        lines.setdefault(row.line, []).append((row.chunks, row.p50))
    speed = read_bandwidth()
    limit = f"reading int8 at {speed / 1e9:.0f} GB/s"
    sizes = sorted({row.chunks for row in chosen})
    lines[limit] = [(chunks, chunks * dimensions / speed * 1000) for chunks in sizes]
    title = f"Median latency of a search through the pipe, {dimensions} dimensions"
    draw(PLOT, lines, title=title, x="chunks", y="ms", dashed=limit)
