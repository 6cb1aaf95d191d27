"""`memory_search` and `recall`: parameters, limits, citations, results by the contract, and passages as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec.structs import replace

from backends.interface import MAX_QUERY_CHARS, Hit, SearchAnswer, SearchRequest, Stale
from config.errors import ErrorKind
from config.settings import CitationsMode, Settings, Source
from gateway.escaping import escape_controls, escape_line, visible_line
from gateway.rpc.registry import Params
from gateway.rpc.wire import InvalidParamsError
from gateway.scope import chat_type_of

if TYPE_CHECKING:
    from gateway.tools.status import StatusResult

MAX_KEY_CHARS: Final = 1024
MAX_PATH_CHARS: Final = 4096
"""The system's own bound on a path (PATH_MAX), in characters."""
MAX_GLOB_CHARS: Final = 1024
MAX_GLOBS: Final = 64
MAX_NAME_CHARS: Final = 128
"""The longest name that is repeated in reports and logs: the reason of a sync, a client, a protocol version."""
MAX_RESULTS = 200
"""More than anybody reads; keeps one answer below a few hundred kilobytes."""
ONLY_WORDS: Final = (
    "Only words were compared, not their meaning: the same thing in other words is not found. "
    "`memory-gateway models suggest` adds meaning, without a key."
)
WHERE_NOTES: Final = (
    "`memory-gateway setup` asks where your notes are; --notes DIR takes any folder of Markdown."
)
"""The remedy where there are no notes."""
NOTHING_INDEXED: Final = "Nothing is indexed"
_SHOWN_UNREAD: Final = 3
_NAMES: Final[Mapping[Source, str]] = {"memory": "Notes", "sessions": "Past conversations"}
_NOT_INDEXED: Final[Mapping[Source, str]] = {
    "memory": "sources does not name memory",
    "sessions": (
        "they are not indexed, which takes experimental.sessionMemory: true and sessions in sources"
    ),
}


def shows_citations(mode: CitationsMode, session_key: str | None) -> bool:
    """Returns whether citations are shown: `auto` shows them only in direct chats, and without a session key."""
    if mode == "auto":
        return session_key is None or chat_type_of(session_key) == "direct"
    return mode == "on"


def citation_of(hit: Hit) -> str:
    """Returns `path#L12` or `path#L12-L30`; unprintable characters of the path are escaped.

    For a conversation in the host's database the events follow: `sessions/<id>#L3-L4 (events 7-9)`.
    """
    path = escape_line(hit.path)
    cited = f"{path}#L{hit.start_line}"
    if hit.start_line != hit.end_line:
        cited += f"-L{hit.end_line}"
    if hit.events is None:
        return cited
    first, last = hit.events
    return f"{cited} (event {first})" if first == last else f"{cited} (events {first}-{last})"


def with_footer(snippet: str, citation: str) -> str:
    """Returns the snippet with its source below it, as documented."""
    return f"{snippet.strip()}\n\nSource: {citation}"


Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)]
Key = Annotated[str, msgspec.Meta(max_length=MAX_KEY_CHARS)]
PathText = Annotated[str, msgspec.Meta(max_length=MAX_PATH_CHARS)]
Globs = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=MAX_GLOB_CHARS)], ...],
    msgspec.Meta(max_length=MAX_GLOBS),
]


class SearchParams(Params, frozen=True):
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
    tags: Globs = ()


def agent_now(time_zone: str | None, now: datetime | None = None) -> datetime:
    """Returns the present moment in an IANA time zone that was checked before; None: the machine's own."""
    moment = now or datetime.now(UTC)
    if not time_zone:
        return moment.astimezone()
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - only when the key is set

    return moment.astimezone(ZoneInfo(time_zone))


def read_request(params: SearchParams) -> SearchRequest:
    """Returns the backend's request, within the limits. Raises InvalidParamsError for what the types cannot
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
        sources=params.sources or None,
        include=params.include,
        exclude=params.exclude,
        after=params.after,
        before=params.before,
        tags=params.tags,
        explain=params.explain,
    )


def limits_met(params: SearchParams) -> tuple[str, ...]:
    """Returns a sentence for each parameter that is beyond a limit and counts only in part."""
    length, wanted = len(params.query.strip()), params.max_results or 0
    met = []
    if length > MAX_QUERY_CHARS:
        met.append(f"Only the first {MAX_QUERY_CHARS:,} of {length:,} characters were looked for.")
    if wanted > MAX_RESULTS:
        met.append(f"At most {MAX_RESULTS} results are given, not {wanted:,}.")
    return tuple(met)


def not_indexed(settings: Settings, wanted: Iterable[Source]) -> dict[Source, str]:
    """Returns the sources that a request names and that cannot be searched, each with the reason."""
    there = set(settings.search.sources)
    if settings.backend == "qmd":
        there |= {"memory", "sessions"} if settings.qmd.sessions.enabled else {"memory"}
    return {one: _NOT_INDEXED[one] for one in wanted if one not in there}


def unsearched_result(reasons: Mapping[Source, str], *, denied: str) -> SearchAnswer:
    """Returns the answer when no source that a search names is searched; `denied` is the reason of a denial."""
    if denied in reasons.values():
        return denied_result(denied)
    return SearchAnswer(
        hits=(), outcome="disabled", error=_unsearched(reasons), kind=ErrorKind.DISABLED
    )


def partly_answered(answer: SearchAnswer, reasons: Mapping[Source, str]) -> SearchAnswer:
    """Returns the answer of the other sources, with a warning that those with a reason were not searched."""
    return without(answer, _unsearched(reasons))


def without(answer: SearchAnswer, missed: str) -> SearchAnswer:
    """Returns the answer with a warning of what the client asked for and was not searched."""
    return replace(answer, outcome="partial", warning=_joined(answer.warning, missed))


def _unsearched(reasons: Mapping[Source, str]) -> str:
    return " ".join(f"{_NAMES[one]} were not searched: {why}." for one, why in reasons.items())


def with_citations(
    answer: SearchAnswer,
    citations: CitationsMode,
    session_key: str | None,
    limits: tuple[str, ...] = (),
    *,
    hints: bool = True,
) -> SearchAnswer:
    """Returns the answer for a client: with citations where they are due, and the `limits` that were met.

    With `hints`, it says that nothing was found by words alone where meaning could have; but not while notes are
    missing from the index, which is the likelier cause.
    """
    warning, is_level = answer.warning, answer.stale is None
    is_empty = answer.outcome == "empty" and answer.mode == "keyword"
    if hints and is_empty and is_level and not warning:
        warning = ONLY_WORDS
    cited = shows_citations(citations, session_key)
    return replace(
        answer,
        hits=tuple(_shown(hit, cited=cited) for hit in answer.hits),
        citations=citations,
        warning=_joined(warning, *limits),
    )


def nothing_indexed(workspace: str, issues: Sequence[str] = (), unread: Sequence[str] = ()) -> str:
    """Returns that the index holds no file, and why: by what is there and `unread`, else by `issues` of the places."""
    if unread:
        left = len(unread) - _SHOWN_UNREAD
        more = [f"and {left:,} more"] if left > 0 else []
        what = "; ".join((*unread[:_SHOWN_UNREAD], *more))
        return f"{NOTHING_INDEXED} in {workspace}, where this is not: {what}."
    if issues:
        return f"{NOTHING_INDEXED} in {workspace}: {' '.join((*issues, WHERE_NOTES))}"
    return (
        f"{NOTHING_INDEXED}: is {workspace} the right folder? "
        "Of a folder of notes, files that end in .md are read."
    )


def unread_of(status: StatusResult) -> tuple[str, ...]:
    """Returns what is in the places of the memory and not in the index, for `nothing_indexed`."""
    unread = [f"{visible_line(one.path)}: {one.reason.rstrip('.')}" for one in status.skipped]
    if pending := sum(one.pending for one in status.sources if one.source == "memory"):
        files = "1 file" if pending == 1 else f"{pending:,} files"
        unread.append(f"{files} (`memory-gateway index` says why)")
    return tuple(unread)


def explained(answer: SearchAnswer, status: StatusResult | None) -> SearchAnswer:
    """Returns an empty answer of an empty index with that as its last warning, in place of the hint that meaning would
    find more. `status`: what says why; None for those who may not see the names of files.
    """
    why = f"{NOTHING_INDEXED}: `memory-gateway status` says why."
    if status is not None:
        why = nothing_indexed(status.workspace, status.issues, unread_of(status))
    return replace(
        answer, warning=_joined((answer.warning or "").replace(ONLY_WORDS, "").strip(), why)
    )


def _joined(*sentences: str | None) -> str | None:
    return " ".join(filter(None, sentences)) or None


def denied_result(reason: str) -> SearchAnswer:
    """Returns the answer to a conversation that may not search; no work was done for it."""
    return SearchAnswer(
        hits=(),
        outcome="denied",
        error=f"This conversation may not search memory: {reason}.",
        kind=ErrorKind.DENIED,
    )


def disabled_result(error: str, kind: ErrorKind = ErrorKind.DISABLED) -> SearchAnswer:
    """Returns the answer while memory is switched off or broken; `error` names the cause and the fix."""
    return SearchAnswer(hits=(), outcome="disabled", disabled=True, error=error, kind=kind)


def _shown(hit: Hit, *, cited: bool) -> Hit:
    citation = citation_of(hit) if cited else None
    snippet = escape_controls(hit.snippet)
    return replace(
        hit,
        snippet=with_footer(snippet, citation) if citation else snippet,
        headings=tuple(map(escape_line, hit.headings)),
        citation=citation,
    )


# --- Passages in tags that their own words cannot close: information for a model, never instructions ---

_BLANK: Final = r"[\s\u00ad\u200b-\u200f\u2060\ufeff]*"
"""Blanks that a model ignores, characters without a width among them."""
_TAG: Final = re.compile(
    rf"<(?={_BLANK}(?:/{_BLANK})?(?:passage|note|recalled|system)\b)", re.IGNORECASE
)


def passage_tag(hit: Hit, text: str, *, score: bool) -> str:
    """Returns a passage, or what is left of it, in a tag with its place."""
    place = attributes(
        path=hit.path,
        lines=line_range(hit.start_line, hit.end_line),
        events=line_range(*hit.events) if hit.events else "",
        title=hit.title or "",
        tags=", ".join(hit.tags),
        score=f"{hit.score:.2f}" if score else "",
        answers=(hit.confidence or "") if score else "",
        headings=" › ".join(hit.headings),
        also_in=", ".join(f"{one.path}:{one.line}" for one in hit.also_in),
    )
    return f"<passage{place}>\n{contained(text)}\n</passage>"


def bare_snippet(hit: Hit) -> str:
    """Returns the snippet without the line that names its source, which a tag does."""
    return (
        hit.snippet
        if hit.citation is None
        else hit.snippet.removesuffix(with_footer("", hit.citation))
    )


def attributes(**values: str) -> str:
    return "".join(f' {name}="{_quoted(text)}"' for name, text in values.items() if text)


def _quoted(text: str) -> str:
    return escape_line(text).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def contained(text: str) -> str:
    """Escapes words of a note that look like the tag at its end, or like another tag of ours or of clients."""
    return _TAG.sub("&lt;", escape_controls(text))


def line_range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


# --- Recall ---

DEFAULT_TOKENS: Final = 400
MOST_TOKENS: Final = 4_000

RecallReason = Literal[
    "small_talk", "machine_output", "command", "nothing_likely", "already_shown", "no_room", "denied", "disabled",
    "unavailable", "late",
]  # fmt: skip
"""The reasons why nothing is shown. `already_shown`: this conversation has seen all that is likely; `no_room`: it is
longer than `maxTokens`; `late`: a hook waits no longer."""


class RecallParams(Params, frozen=True, kw_only=True):
    """Parameters of `recall`."""

    prompt: str
    session_key: Key | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=MOST_TOKENS)] = DEFAULT_TOKENS
    min_score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    exclude: Globs = ()


class RecalledNote(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    path: str
    start_line: int
    end_line: int
    score: float
    source: Source


class RecallResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The text to put before the prompt, with its places, or a `reason` why there is none."""

    tokens: int
    """The approximate number of tokens of the text."""
    text: str = ""
    notes: tuple[RecalledNote, ...] = ()
    reason: RecallReason | None = None
    stale: Stale | None = None
    """Changes that may be missing, as in the answer of a search."""
    error: str | None = None
    """The cause and the remedy, where the reason is `denied`, `disabled` or `unavailable`."""
    kind: ErrorKind | None = None
    """The kind of the error."""
