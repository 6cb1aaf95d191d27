"""Files of batch results: read as a stream of lines, each validated, in slices in a worker thread; and deleted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from anyio.to_thread import run_sync

from config.errors import ErrorKind
from providers.provider_interface import (
    BatchResult,
    ItemError,
    OnResults,
    ProviderBadResponseError,
    ProviderError,
)
from providers.remote.answers import MOST_DIMENSIONS, collect, values_in
from providers.remote.http_client import typed_errors
from providers.remote.spec import RemoteSpec

MOST_BYTES: Final = 4 << 30
"""The largest size of one file."""
_LONGEST_LINE: Final = 4 << 20
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")
NO_VECTOR: Final = "The batch job's answer holds no vector for this text."


class ResultLine(msgspec.Struct, frozen=True):
    """One item of a result file, its embedding not yet validated."""

    key: str
    embedding: object = None
    error: str | None = None


class ResultLines:
    """Turns parts of a stream into whole lines; keeps no more than one unfinished line."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Raises `ProviderBadResponseError` for a line longer than any embedding."""
        first, *others = part.split(b"\n")
        self._rest += first
        for other in others:
            yield self.end()
            self._rest += other
        if len(self._rest) > _LONGEST_LINE:
            raise ProviderBadResponseError(
                f"A line of the results is longer than {_LONGEST_LINE >> 20} MiB."
            )

    def end(self) -> bytes:
        """Returns the last line, which may lack its newline."""
        line = bytes(self._rest)
        self._rest.clear()
        return line


def results_of(lines: Sequence[ResultLine], dimensions: int | None) -> list[BatchResult]:
    """Returns validated vectors and errors, in the order of the lines. Loads numpy, so run it in a thread."""
    rows = [(at, line.embedding) for at, line in enumerate(lines)]
    items = collect(rows, len(lines), dimensions)
    kind = ErrorKind.PROVIDER_UNAVAILABLE
    return [
        BatchResult(line.key, ItemError(kind=kind, message=line.error) if line.error else item)
        for line, item in zip(lines, items, strict=True)
    ]


def code_in(word: object) -> str | None:
    """Returns a vendor's code, which may be shown: anything else it writes may repeat a text."""
    return str(word) if word is not None and _CODE.fullmatch(str(word)) else None


def refused(*known: str | None) -> str:
    """Returns a message on why a text has no vector, with what is known about it."""
    reasons = ", ".join(word for word in known if word)
    return f"A batch job refused this text ({reasons or 'it gave no reason'})."


_SLICE_LINES: Final = 64
"""The lines processed at a time, which take some milliseconds; searches may run in between."""
_SLICE_BYTES: Final = 4 << 20
_SLICE_VALUES: Final = 1_000_000
_MOST_VALUES: Final = MOST_DIMENSIONS + 100
"""The most values in one line."""

ReadLine = Callable[[bytes], ResultLine | None]


class ResultReader:
    """Takes the parts of a file as they arrive: from `read`, or from a caller of `write` and then `finish`."""

    def __init__(self, read_line: ReadLine, on_results: OnResults, dimensions: int | None) -> None:
        self._read_line = read_line
        self._on_results = on_results
        self._dimensions = dimensions
        self._splitter = ResultLines()
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._values = 0

    async def read(self, parts: AsyncIterator[bytes]) -> None:
        async for part in parts:
            await self.write(part)
        await self.finish()

    async def write(self, part: bytes) -> None:
        """Raises `ProviderBadResponseError` for a line longer than any embedding."""
        for line in self._splitter.feed(part):
            await self._take(line)

    async def finish(self) -> None:
        await self._take(self._splitter.end())
        await self._hand_over()

    async def _take(self, line: bytes) -> None:
        values = values_in(line)
        if values > _MOST_VALUES:  # no answer to one text
            return
        self._waiting.append(line)
        self._bytes += len(line)
        self._values += values
        is_much = self._bytes >= _SLICE_BYTES or self._values >= _SLICE_VALUES
        if is_much or len(self._waiting) >= _SLICE_LINES:
            await self._hand_over()

    async def _hand_over(self) -> None:
        raw, self._waiting, self._bytes, self._values = self._waiting, [], 0, 0
        results = await run_sync(self._results, raw)
        if results:
            await self._on_results(results)

    def _results(self, raw: Sequence[bytes]) -> list[BatchResult]:
        lines = [line for line in map(self._read_line, raw) if line is not None]
        return results_of(lines, self._dimensions) if lines else []


GONE: Final = frozenset({404, 405, 410})
"""405 is the answer of compatible servers that cannot delete files."""


@contextmanager
def deleting(spec: RemoteSpec, gone: Collection[int] = GONE) -> Iterator[None]:
    """Raises `ProviderError`, except for the statuses that say that the file is `gone`."""
    try:
        with typed_errors(spec):
            yield
    except ProviderError as error:
        if error.status not in gone:
            raise
