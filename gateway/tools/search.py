"""`memory_search`: parameters, limits, and what the gateway adds to the backend's answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from backends.interface import Hit, SearchAnswer, SearchRequest
from backends.ranking.query import MAX_QUERY_CHARS
from config.settings import CitationsMode, Settings, Source
from gateway.rpc.errors import InvalidParamsError
from gateway.tools.bounds import Globs, Key
from gateway.tools.citations import citation_of, shows_citations, with_footer
from gateway.tools.escaping import escape_controls

MAX_RESULTS = 200
"""More than anybody reads; keeps one answer below a few hundred kilobytes."""


ONLY_WORDS: Final = (
    "Only words were compared, not their meaning: the same thing in other words is not found. "
    "A provider of embeddings (memorySearch.provider) would find it."
)


_NAMES: Final[Mapping[Source, str]] = {"memory": "Notes", "sessions": "Past conversations"}
_NOT_INDEXED: Final[Mapping[Source, str]] = {
    "memory": "memorySearch.sources does not name memory",
    "sessions": (
        "they are not indexed, which takes memorySearch.experimental.sessionMemory: true and sessions "
        "in memorySearch.sources"
    ),
}


class SearchParams(
    msgspec.Struct, frozen=True, kw_only=False, forbid_unknown_fields=True, rename="camel"
):
    """Parameters of `memory_search`. Dates are days (`2026-02-08`)."""

    query: str
    max_results: Annotated[int, msgspec.Meta(ge=1)] | None = None
    min_score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    session_key: Key | None = None
    sources: tuple[Source, ...] | None = None
    include: Globs = ()
    exclude: Globs = ()
    after: date | None = None
    before: date | None = None
    explain: bool = False


def read_request(params: SearchParams) -> SearchRequest:
    """The backend's request, within the limits. Raises InvalidParamsError for what the types cannot
    express.
    """
    query = params.query.strip()
    if not query:
        raise InvalidParamsError(
            "query is blank.", remedy="Say in a few words what to look for in memory."
        )
    if params.after and params.before and params.after >= params.before:
        raise InvalidParamsError(
            f"`after` must be earlier than `before`, but {params.after} is not earlier than {params.before}.",
            remedy="Results begin on the day `after` and end on the day before `before`.",
        )
    return SearchRequest(
        query=query[:MAX_QUERY_CHARS],
        max_results=min(params.max_results, MAX_RESULTS) if params.max_results else None,
        min_score=params.min_score,
        sources=params.sources,
        include=params.include,
        exclude=params.exclude,
        after=params.after,
        before=params.before,
        explain=params.explain,
    )


def limits_met(params: SearchParams) -> tuple[str, ...]:
    """What of the parameters is not heeded, being beyond a limit."""
    length, wanted = len(params.query.strip()), params.max_results or 0
    met = []
    if length > MAX_QUERY_CHARS:
        met.append(f"Only the first {MAX_QUERY_CHARS:,} of {length:,} characters were looked for.")
    if wanted > MAX_RESULTS:
        met.append(f"At most {MAX_RESULTS} results are given, not {wanted:,}.")
    return tuple(met)


def not_indexed(settings: Settings, wanted: Iterable[Source]) -> dict[Source, str]:
    """Of the sources that a request names those that cannot be searched, each with the reason."""
    there = set(settings.search.sources)
    if settings.backend == "qmd":
        there |= {"memory", "sessions"} if settings.qmd.sessions.enabled else {"memory"}
    return {one: _NOT_INDEXED[one] for one in wanted if one not in there}


def unsearched_result(reasons: Mapping[Source, str], *, denied: str) -> SearchAnswer:
    """What a search answers when no source that it names is searched; `denied` is who-may's reason."""
    if denied in reasons.values():
        return denied_result(denied)
    return SearchAnswer(hits=(), outcome="disabled", error=_unsearched(reasons))


def partly_answered(answer: SearchAnswer, reasons: Mapping[Source, str]) -> SearchAnswer:
    """What the other sources answered, and that those with a reason were not asked."""
    warning = _joined(answer.warning, _unsearched(reasons))
    return replace(answer, outcome="partial", warning=warning)


def _unsearched(reasons: Mapping[Source, str]) -> str:
    return " ".join(f"{_NAMES[one]} were not searched: {why}." for one, why in reasons.items())


def with_citations(
    answer: SearchAnswer,
    citations: CitationsMode,
    session_key: str | None,
    limits: tuple[str, ...] = (),
) -> SearchAnswer:
    """The answer for a client: with citations where they are due, and the `limits` it met.

    Where nothing was found by words alone, it says so.
    """
    warning = answer.warning
    if answer.outcome == "empty" and answer.mode == "keyword" and not warning:
        warning = ONLY_WORDS
    cited = shows_citations(citations, session_key)
    return replace(
        answer,
        hits=tuple(_shown(hit, cited=cited) for hit in answer.hits),
        citations=citations,
        warning=_joined(warning, *limits),
    )


def _joined(*sentences: str | None) -> str | None:
    return " ".join(filter(None, sentences)) or None


def denied_result(reason: str) -> SearchAnswer:
    """What a search answers to a conversation that may not search; no work was done for it."""
    return SearchAnswer(
        hits=(), outcome="denied", error=f"This conversation may not search memory: {reason}."
    )


def disabled_result(error: str) -> SearchAnswer:
    """What a search answers while memory is switched off; `error` names the cause and the fix."""
    return SearchAnswer(hits=(), outcome="disabled", disabled=True, error=error)


def _shown(hit: Hit, *, cited: bool) -> Hit:
    citation = citation_of(hit) if cited else None
    snippet = escape_controls(hit.snippet)
    return replace(
        hit,
        snippet=with_footer(snippet, citation) if citation else snippet,
        citation=citation,
    )
