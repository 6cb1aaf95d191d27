"""Streaming a file of results: whole lines, validated in slices, in a worker thread.

Owns the bound on what is held in memory: one slice of lines, whatever the size of the file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from anyio.to_thread import run_sync

from providers.batch.interface import OnResults, Result
from providers.batch.lines import LineSplitter, read_line, results_of

_SLICE: Final = 512


async def read_results(
    parts: AsyncIterator[bytes], on_results: OnResults, dimensions: int | None
) -> None:
    splitter = LineSplitter()
    waiting: list[bytes] = []
    async for part in parts:
        waiting.extend(splitter.feed(part))
        while len(waiting) >= _SLICE:
            await _hand_over(waiting[:_SLICE], on_results, dimensions)
            del waiting[:_SLICE]
    await _hand_over([*waiting, splitter.end()], on_results, dimensions)


async def _hand_over(raw: Sequence[bytes], on_results: OnResults, dimensions: int | None) -> None:
    results = await run_sync(partial(_results, raw, dimensions))
    if results:
        await on_results(results)


def _results(raw: Sequence[bytes], dimensions: int | None) -> list[Result]:
    lines = [line for line in map(read_line, raw) if line is not None]
    return results_of(lines, dimensions) if lines else []
