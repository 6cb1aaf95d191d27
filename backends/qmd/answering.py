"""From QMD's rows to hits: real files, exact lines, filters, limits.

Owns what QMD's index does not know yet: files that changed since its last update are read and ranked
here, so that an answer never misses what was written a moment ago. Blocks; runs in a worker thread.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, Literal, NamedTuple

from backends.files.filters import Filter
from backends.files.roots import Location
from backends.files.scan import FoundFile, scan
from backends.interface import Hit, SearchRequest, Stale
from backends.qmd.asking import Row
from backends.qmd.documents import Documents
from backends.qmd.limits import limited
from backends.qmd.passages import Found, Proposal, document_passages, lexical_passages
from backends.qmd.places import Places
from backends.text.dates import date_of
from config.settings import QmdLimits

MAX_EXTRA_FILES: Final = 200
"""Changed or filtered files that one search reads beside QMD's; the newest first."""


_RankedBy = Literal["model", "words"]


class Answer(NamedTuple):
    hits: tuple[Hit, ...]
    stale: Stale | None
    changed: int
    """Files that differ from what QMD has indexed."""


class Answerer:
    """Answers from the files of one agent. Keeps analysed files between searches."""

    def __init__(self, places: Places, limits: QmdLimits) -> None:
        self._places = places
        self._limits = limits
        self._documents = Documents()

    def answer(
        self,
        request: SearchRequest,
        rows: Sequence[Row],
        seen: Mapping[str, FoundFile],
        *,
        by_model: bool,
    ) -> Answer:
        """`seen` is what QMD's last update saw, by name; `by_model` keeps QMD's order and scores."""
        now = self._places.seen_by_qmd(scan(self._places.roots).files)
        changed = [name for name, one in now.items() if seen.get(name) != one]
        gone = len(seen.keys() - now.keys())
        filtering = Filter(request)
        permitted = partial(self._is_permitted, request, filtering)
        proposed = self._proposed(rows, permitted)
        # QMD knows no filters, and may have proposed too little.
        extra = list(filter(permitted, now if filtering.active else changed))
        extra.sort(key=lambda name: -now[name].mtime_ns)
        more = {self._location(name, now[name]): None for name in extra[:MAX_EXTRA_FILES]}
        hits = self._hits(request, proposed, more, by_model=by_model)
        left = max(0, len(changed) - MAX_EXTRA_FILES)
        stale = Stale(files=left, reason="QMD has not indexed them yet") if left else None
        return Answer(hits, stale, len(changed) + gone)

    def _is_permitted(self, request: SearchRequest, filtering: Filter, path: str) -> bool:
        if request.sources is not None and self._places.source_of(path) not in request.sources:
            return False
        day = date_of(path)
        return filtering.permits(path, day.isoformat() if day else None)

    def _proposed(
        self, rows: Sequence[Row], permitted: Callable[[str], bool]
    ) -> dict[Location, Row]:
        proposed: dict[Location, Row] = {}
        for row in rows:
            location = self._places.locate(row.collection, row.path)
            if location is not None and permitted(location.path):
                proposed.setdefault(location, row)
        return proposed

    def _location(self, name: str, file: FoundFile) -> Location:
        roots = self._places.roots
        return roots.all[file.root].location(roots.absolute(file.path), name)

    def _hits(
        self,
        request: SearchRequest,
        proposed: Mapping[Location, Row],
        more: Mapping[Location, None],
        *,
        by_model: bool,
    ) -> tuple[Hit, ...]:
        model = self._proposals({k: v for k, v in proposed.items() if k not in more})
        words = self._proposals(more)
        if not by_model:
            model, words = [], self._proposals({**proposed, **more})
        chars = self._limits.max_snippet_chars
        merged = heapq.merge(
            _found("model", document_passages, request.query, model, chars),
            _found("words", lexical_passages, request.query, words, chars),
            key=lambda one: -one[0].score,
        )
        wanted = min(request.max_results or self._limits.max_results, self._limits.max_results)
        min_score = request.min_score or 0.0
        hits = (
            self._hit(found, location, by, explain=request.explain)
            for found, location, by in merged
            if found.score >= min_score
        )
        return tuple(
            limited(
                islice(hits, wanted),
                snippet_chars=chars,
                injected_chars=self._limits.max_injected_chars,
            )
        )

    def _proposals(
        self, locations: Mapping[Location, Row | None]
    ) -> list[tuple[Location, Proposal]]:
        proposals = []
        for location, row in locations.items():
            document = self._documents.get(location)
            if document is not None:
                score, line = (row.score, row.line) if row else (0.0, None)
                proposals.append((location, Proposal(document, score, line)))
        return proposals

    def _hit(self, found: Found, location: Location, by: _RankedBy, *, explain: bool) -> Hit:
        passage, score = found.passage, round(found.score, 4)
        start, end = passage.start_line, passage.end_line
        export = self._places.exports.of_hit(location.path)
        events = export.events(start, end) if export is not None else None
        if export is not None:
            start, end = export.transcript_line(start), export.transcript_line(end)
        explanation = {
            "rankedBy": "qmd" if by == "model" else "passages",
            "matchedTerms": [concept.alternatives[0] for concept in passage.matched],
            "coverage": round(found.coverage, 4),
        }
        return Hit(
            path=location.path,
            start_line=start,
            end_line=end,
            score=score,
            snippet=passage.text,
            source="sessions" if export else "memory",
            text_score=score if by == "words" else None,
            explain=explanation if explain else None,
            events=events,
        )


def _found(
    by: _RankedBy,
    passages: Callable[..., Iterator[Found]],
    question: str,
    pairs: Sequence[tuple[Location, Proposal]],
    max_chars: int,
) -> Iterator[tuple[Found, Location, _RankedBy]]:
    proposals = [proposal for _, proposal in pairs]
    for found in passages(question, proposals, max_chars=max_chars):
        yield found, pairs[found.passage.file_id][0], by
