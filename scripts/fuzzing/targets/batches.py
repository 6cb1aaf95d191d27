"""The result file of a batch job, in pieces as they come from a host."""

from __future__ import annotations

from fuzzing.targets.vectors import check_items
from providers.batch.lines import Line, LineSplitter, read_line, results_of
from providers.errors import ProviderBadResponseError


def run(data: bytes) -> None:
    try:
        raw = _lines(data, len(data) or 1)
    except ProviderBadResponseError:
        return
    assert _lines(data, 1 + len(data) % 7) == raw
    lines: list[Line] = [line for line in map(read_line, raw) if line is not None]
    if lines:
        results = results_of(lines, 3 if data[0] % 2 else None)
        assert [result.key for result in results] == [line.key for line in lines]
        check_items([result.item for result in results], len(lines))


def _lines(data: bytes, piece: int) -> list[bytes]:
    splitter = LineSplitter()
    found: list[bytes] = []
    for start in range(0, len(data), piece):
        found += splitter.feed(data[start : start + piece])
    return [*found, splitter.end()]
