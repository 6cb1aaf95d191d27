"""Where a snippet holds what was asked for. Pure.

Owns the way back from index terms to places in the text: words match by their stem, scripts without
spaces by bigrams, identifiers also by their parts. Uses the analyser of the index, so that what is
marked is what was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from backends.ranking.query import QueryAnalyser
from backends.text.analyser import Analyser, tokens
from backends.text.folding import normalise
from backends.text.scripts import UNSPACED

Span = tuple[int, int]
"""Start and end (exclusive) in characters."""

_UNSPACED_START = re.compile(f"[{UNSPACED}]")


def matched_spans(text: str, query: str) -> list[Span]:
    """The places in `text` that match `query`, in order, without overlaps."""
    asked = QueryAnalyser().analyse(query)
    pieces = [normalise(character) for character in text]
    origins = [number for number, piece in enumerate(pieces) for _ in piece]
    spans = _spans("".join(pieces), frozenset(asked.terms()), Analyser(asked.language))
    return list(_merged((origins[start], origins[end - 1] + 1) for start, end in spans))


def _spans(text: str, terms: frozenset[str], analyser: Analyser) -> Iterator[Span]:
    end = 0
    for token in tokens(text):
        start = text.index(token, end)
        end = start + len(token)
        found = [not terms.isdisjoint(concept) for concept in analyser.concepts(token)]
        if _UNSPACED_START.match(token):
            width = min(2, len(token))
            yield from ((start + at, start + at + width) for at, hit in enumerate(found) if hit)
        elif any(found):
            yield start, end


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    pending: Span | None = None
    for span in spans:
        if pending is not None and span[0] <= pending[1]:
            pending = pending[0], max(pending[1], span[1])
            continue
        if pending is not None:
            yield pending
        pending = span
    if pending is not None:
        yield pending
