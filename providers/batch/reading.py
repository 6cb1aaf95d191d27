"""Streaming a file of results: whole lines, validated in slices, in a worker thread.

Owns the bound on what is held in memory: one slice of lines, whatever the size of the file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Final

from anyio.to_thread import run_sync

from providers.batch.interface import OnResults, Result
from providers.batch.lines import Line, LineSplitter, results_of

_SLICE_LINES: Final = 512
_SLICE_BYTES: Final = 4 << 20

ReadLine = Callable[[bytes], Line | None]


class ResultReader:
    """Takes the parts of a file as they come, and at last `finish`."""

    def __init__(self, read_line: ReadLine, on_results: OnResults, dimensions: int | None) -> None:
        self._read_line = read_line
        self._on_results = on_results
        self._dimensions = dimensions
        self._splitter = LineSplitter()
        self._waiting: list[bytes] = []
        self._bytes = 0

    async def write(self, part: bytes) -> None:
        """Raises `ProviderBadResponseError` for a line longer than any embedding."""
        for line in self._splitter.feed(part):
            self._waiting.append(line)
            self._bytes += len(line)
            if len(self._waiting) >= _SLICE_LINES or self._bytes >= _SLICE_BYTES:
                await self._hand_over()

    async def finish(self) -> None:
        self._waiting.append(self._splitter.end())
        await self._hand_over()

    async def _hand_over(self) -> None:
        raw, self._waiting, self._bytes = self._waiting, [], 0
        results = await run_sync(partial(self._results, raw))
        if results:
            await self._on_results(results)

    def _results(self, raw: Sequence[bytes]) -> list[Result]:
        lines = [line for line in map(self._read_line, raw) if line is not None]
        return results_of(lines, self._dimensions) if lines else []


async def read_results(parts: AsyncIterator[bytes], reader: ResultReader) -> None:
    async for part in parts:
        await reader.write(part)
    await reader.finish()
