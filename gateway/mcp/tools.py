"""The tools as a model sees them: arguments, explanations, schemas, what each does, and its answer as text.

Every word here is paid for in each request of each conversation (docs/protocol.md says what was kept, and why).
There is no output schema: it would oblige us to send every answer twice. A client hands a model either the text
of a result or its structured content, so there is one of them, and every client reads text. Passages are in
tags that their own words cannot close.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from backends.backend_errors import FileUnwritableError
from backends.interface import ReadAnswer, SearchAnswer
from config.settings import Source
from gateway.agent.conversations import Conversations
from gateway.agent.memory import Memory
from gateway.escaping import escape_line
from gateway.mcp.eras import Result, tool_result
from gateway.rpc.registry import RequestContext, decode_params
from gateway.tools.notes import AppendParams, AppendResult, GetParams
from gateway.tools.search import (
    MAX_RESULTS,
    SearchParams,
    attributes,
    bare_snippet,
    contained,
    line_range,
    passage_tag,
)

A = TypeVar("A", bound=msgspec.Struct)


def search_text(answer: SearchAnswer) -> str:
    """Writes remarks first, since a weakness of the answer concerns all that follows."""
    passages = (passage_tag(hit, bare_snippet(hit), score=True) for hit in answer.hits)
    return "\n".join((*map(_line, _remarks(answer)), *passages))


def _line(remark: str) -> str:
    """Returns a remark of ours as one line, which no name in it can end."""
    return contained(escape_line(remark))


def _remarks(answer: SearchAnswer) -> Iterator[str]:
    if answer.error is not None:
        yield f"Not searched ({answer.outcome}): {answer.error}"
    elif not answer.hits:
        yield f"Nothing found ({answer.outcome})."
    elif answer.mode == "keyword":
        yield "Found by words alone, not by meaning."
    if answer.warning:
        yield answer.warning
    if answer.fallback is not None:
        yield f"Not answered by {answer.fallback.origin}: {answer.fallback.reason}"
    if answer.stale is not None:
        yield f"{_missed(answer.stale.files)}: {answer.stale.reason}"
    if answer.undated:
        were = "file without a date was" if answer.undated == 1 else "files without a date were"
        yield f"{answer.undated} {were} left out."


def _missed(files: int) -> str:
    """Says what an answer misses; 0 files: how many is not known."""
    if not files:
        return "Something may be missing"
    return f"Changes in {files} {'file' if files == 1 else 'files'} are not searched yet"


def read_text(answer: ReadAnswer) -> str:
    """Returns the lines that were asked for; the tag says which, and where to go on."""
    if answer.error is not None:
        return _line(answer.error)
    if answer.status == "not_found":
        return _line(f"There is no {answer.path} (not_found).")
    if answer.first_line > 1 and not answer.line_count:
        return _line(f"{answer.path} ends before line {answer.first_line}.")
    last = answer.first_line + answer.line_count - 1
    place = attributes(
        path=answer.path,
        lines=line_range(answer.first_line, last) if answer.line_count else "",
        next_from=str(answer.next_line or ""),
    )
    links = "".join(f"\n{_line(f'[[{name}]] is {path}')}" for name, path in answer.links.items())
    return f"<note{place}>\n{contained(answer.text.removesuffix(chr(10)))}\n</note>{links}"


def append_text(answer: AppendResult) -> str:
    if answer.error is not None:
        return _line(answer.error)
    first, last = answer.start_line or 0, answer.end_line or 0
    lines = "line" if first == last else "lines"
    return _line(f"Written: {answer.path}, {lines} {line_range(first, last)}.")


class SearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Arguments of the tool `memory_search`."""

    # fmt: off
    query: Annotated[str, Meta(min_length=1, description=
        "A question or keywords, in any language; names, dates and identifiers make it sharper.")]
    max_results: Annotated[int, Meta(ge=1, le=MAX_RESULTS, description=
        "At most so many passages; usually 6.")] | UnsetType = UNSET
    min_score: Annotated[float, Meta(ge=0, le=1, description=
        "Usually 0.35; lower it to 0.1 when nothing was found.")] | UnsetType = UNSET
    sources: Annotated[tuple[Source, ...], Meta(description=
        "`memory`: notes, `sessions`: past conversations; usually both.")] | UnsetType = UNSET
    include: Annotated[tuple[str, ...], Meta(description=
        "Only paths that match, as in `memory/projects/**`.")] | UnsetType = UNSET
    exclude: Annotated[tuple[str, ...], Meta(description="No paths that match.")] | UnsetType = UNSET
    after: Annotated[date, Meta(description=
        "Only notes of this day or later, as in `2026-02-08`.")] | UnsetType = UNSET
    before: Annotated[date, Meta(description="Only notes from before this day.")] | UnsetType = UNSET
    tags: Annotated[tuple[str, ...], Meta(description="Only notes with all of these tags.")] | UnsetType = UNSET
    # fmt: on

    def to_params(self) -> SearchParams:
        """Raises InvalidParamsError: limits are those of the method, and cost no words of the schema."""
        return decode_params("memory_search", SearchParams, msgspec.json.encode(self))


class GetArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tool `memory_get`."""

    # fmt: off
    path: Annotated[str, Meta(min_length=1, description=
        "The `path` of a passage, `MEMORY.md` or `memory/2026-02-08.md`.")]
    first_line: Annotated[int, Meta(ge=1, description="First line, from 1.")] | UnsetType = msgspec.field(
        default=UNSET, name="from")
    lines: Annotated[int, Meta(ge=1, description="How many lines; else the whole file.")] | UnsetType = UNSET
    # fmt: on

    def to_params(self) -> GetParams:
        """Raises as `SearchArguments.to_params`."""
        return decode_params("memory_get", GetParams, msgspec.json.encode(self))


class AppendArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tool `memory_append`."""

    text: Annotated[
        str,
        Meta(min_length=1, description="The entry, as Markdown: one fact, or a few short lines."),
    ]


def arguments_schema(kind: type[msgspec.Struct]) -> dict[str, object]:
    """Returns the schema of a tool's arguments, without what is said elsewhere."""
    _reference, components = msgspec.json.schema_components((kind,))
    left_out = {"title", "description"}
    return {k: v for k, v in components[kind.__name__].items() if k not in left_out}


_READS: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
_APPENDS: Final = _READS | {"readOnlyHint": False, "idempotentHint": False}
_SEARCH: Final = (
    "Search long-term memory: notes, daily logs and, where indexed, past conversations. Use it before answering "
    "anything about earlier work, decisions, dates, people, preferences or to-dos, and whenever something may have "
    "been noted before. Passages come best first. If nothing is found, try other words once."
)
_GET: Final = (
    "Read a note or some of its lines, such as those around a passage that memory_search found. A long note is "
    "cut, and `next_from` says where to go on."
)
_APPEND: Final = (
    "Write an entry into today's log, for what is worth knowing in later conversations: decisions, preferences, "
    "facts, dates. Nothing can be changed or removed."
)
_META: Final = {"anthropic/alwaysLoad": True}
"""Claude Code hides tools behind a search of its own otherwise: a memory that must be looked for is not used."""


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """One tool; `run` gets decoded arguments."""

    name: str
    title: str
    description: str
    arguments: type[A]
    doing: str
    """Said while it takes long."""
    run: Callable[[Memory, A, RequestContext], Awaitable[Result]]
    hints: Mapping[str, bool] = field(default_factory=lambda: _READS)

    def describe(self) -> dict[str, object]:
        """Returns the tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": arguments_schema(self.arguments),
            "annotations": self.hints,
            "_meta": _META,
        }


async def _search(memory: Memory, arguments: SearchArguments, context: RequestContext) -> Result:
    answer = await memory.search(arguments.to_params(), context)
    return tool_result(search_text(answer), failed=answer.error is not None)


async def _get(memory: Memory, arguments: GetArguments, context: RequestContext) -> Result:
    answer = await memory.get(arguments.to_params(), context)
    return tool_result(read_text(answer), failed=answer.error is not None)


async def _append(memory: Memory, arguments: AppendArguments, context: RequestContext) -> Result:
    try:
        answer = await Conversations(memory).append(AppendParams(text=arguments.text), context)
    except FileUnwritableError as error:  # most clients show their model no remedy of an error
        return tool_result(_line(str(error)), failed=True)
    return tool_result(append_text(answer), failed=answer.error is not None)


TOOLS: Final[dict[str, Tool[Any]]] = {
    tool.name: tool
    for tool in (
        Tool("memory_search", "Search memory", _SEARCH, SearchArguments, "Searching memory", _search),
        Tool("memory_get", "Read memory", _GET, GetArguments, "Reading memory", _get),
        Tool(
            "memory_append", "Write to memory", _APPEND, AppendArguments, "Writing to memory", _append,
            hints=_APPENDS,
        ),
    )
}  # fmt: skip


@cache
def tool_list(*, appends: bool) -> tuple[dict[str, object], ...]:
    """Returns the tools that are offered, always in the same order; one that writes only if that is allowed."""
    return tuple(
        tool.describe() for tool in TOOLS.values() if appends or tool.name != "memory_append"
    )
