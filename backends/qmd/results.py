"""Understanding what QMD answers, whatever noise stands around it.

Owns the parsing: the last complete JSON array or object of an output, rows that say at least which
file, addresses of both spellings. Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

_DECODER: Final = json.JSONDecoder()
_NO_RESULTS: Final = ("No results found.", "No results found above minimum score threshold.")
_RRF_K: Final = 60
_SCHEME: Final = "qmd://"


class Row(NamedTuple):
    """One document that QMD proposes; `path` is relative to the collection, perhaps a slug."""

    collection: str
    path: str
    score: float
    """As QMD said it; 0 is a score like any other."""
    line: int | None
    docid: str | None
    """The first hexadecimal digits of the SHA-256 of the file's text."""


def rows_of_output(text: str) -> list[Row] | None:
    """The rows in a command's standard output; None when there is no answer in it."""
    for value in _values_from_the_end(text):
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return _rows(value, encoded=False)
    if any(line.strip() in _NO_RESULTS for line in text.splitlines()):
        return []
    return None


def rows_of_answer(answer: Any) -> list[Row] | None:
    """The rows in an answer of the warm server; None when it is not one."""
    results = answer.get("results") if isinstance(answer, dict) else None
    return _rows(results, encoded=True) if isinstance(results, list) else None


def fuse(lists: Sequence[Sequence[Row]]) -> list[Row]:
    """Several lists as one, by reciprocal ranks (Cormack et al., 2009, k = 60)."""
    weight: dict[tuple[str, str], float] = {}
    first: dict[tuple[str, str], Row] = {}
    for rows in lists:
        for rank, row in enumerate(rows, 1):
            key = row.collection, row.path
            weight[key] = weight.get(key, 0.0) + 1 / (_RRF_K + rank)
            first.setdefault(key, row)
    return [first[key] for key in sorted(weight, key=lambda key: -weight[key])]


def _values_from_the_end(text: str) -> Iterator[Any]:
    """Complete JSON arrays, the last first. A line of its own begins each."""
    end = len(text)
    while (start := text.rfind("[", 0, end)) >= 0:
        end = start
        if text[:start].rpartition("\n")[2].strip():
            continue
        try:
            value, _ = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        yield value


def _rows(items: list[Any], *, encoded: bool) -> list[Row]:
    rows = []
    for item in items:
        address = item.get("file") if isinstance(item, dict) else None
        if not isinstance(address, str):
            continue
        collection, path = _split(address, encoded=encoded)
        if not collection or not path:
            continue
        line, docid = item.get("line"), item.get("docid")
        rows.append(
            Row(
                collection,
                path,
                _score(item.get("score")),
                line if isinstance(line, int) and line > 0 else None,
                docid.removeprefix("#") if isinstance(docid, str) else None,
            )
        )
    return rows


def _split(address: str, *, encoded: bool) -> tuple[str, str]:
    text = address.removeprefix(_SCHEME).lstrip("/")
    if encoded:
        text = unquote(text, errors="replace")
    collection, _, path = text.partition("/")
    return collection, path


def _score(value: Any) -> float:
    """Between 0 and 1; 0 for what is no number. JSON's whole numbers may be too large for a float."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(min(1.0, max(0.0, value))) if is_number and abs(value) < math.inf else 0.0
