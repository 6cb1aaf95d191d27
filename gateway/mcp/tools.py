"""The two tools as a model sees them: arguments, explanations, schemas, and what each does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from backends.interface import ReadAnswer, SearchAnswer
from config.settings import Source
from gateway.agent.conversations import Conversations
from gateway.agent.memory import Memory
from gateway.mcp.eras import Result, tool_result
from gateway.rpc.registry import RequestContext
from gateway.tools.get import AppendParams, AppendResult, GetParams
from gateway.tools.search import MAX_RESULTS, SearchParams


class SearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Arguments of the tool `memory_search`."""

    query: Annotated[
        str,
        Meta(
            min_length=1,
            description=(
                "What to look for: a question or keywords, in any language. Names, dates, numbers and "
                "identifiers found in the conversation make it sharper. There is no query syntax."
            ),
        ),
    ]
    max_results: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MAX_RESULTS,
                description="How many passages at most. Leave it out for the usual 6; more costs context.",
            ),
        ]
        | UnsetType
    ) = UNSET
    min_score: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=1,
                description=(
                    "Leave out passages that score lower. Normally left out; lower it (0.1) when a search "
                    "found nothing though the memory should know."
                ),
            ),
        ]
        | UnsetType
    ) = UNSET
    sources: (
        Annotated[
            tuple[Source, ...],
            Meta(
                description=(
                    "Where to look: `memory` are the notes, `sessions` past conversations. Both, as far as "
                    "they are indexed, when left out."
                )
            ),
        ]
        | UnsetType
    ) = UNSET
    include: (
        Annotated[
            tuple[str, ...],
            Meta(
                description="Only files whose path matches one of these, as in `memory/projects/**`."
            ),
        ]
        | UnsetType
    ) = UNSET
    exclude: (
        Annotated[tuple[str, ...], Meta(description="No files whose path matches one of these.")]
        | UnsetType
    ) = UNSET
    after: (
        Annotated[
            date,
            Meta(description="Only notes dated this day or later, as in `2026-02-08`."),
        ]
        | UnsetType
    ) = UNSET
    before: (
        Annotated[
            date,
            Meta(description="Only notes dated before this day, which itself is left out."),
        ]
        | UnsetType
    ) = UNSET
    tags: (
        Annotated[
            tuple[str, ...],
            Meta(description="Only notes that have all of these tags in their front matter."),
        ]
        | UnsetType
    ) = UNSET

    def to_params(self) -> SearchParams:
        return SearchParams(**_given(self))


class GetArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tool `memory_get`."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            description=(
                "The `path` of a search result, such as `memory/2026-02-08.md`; or `MEMORY.md`, `USER.md`. Only memory "
                "files can be read."
            ),
        ),
    ]
    first_line: (
        Annotated[
            int,
            Meta(ge=1, description="First line to read, counting from 1, as in `startLine`."),
        ]
        | UnsetType
    ) = msgspec.field(default=UNSET, name="from")
    lines: (
        Annotated[
            int,
            Meta(ge=1, description="How many lines to read. Leave out both for the whole file."),
        ]
        | UnsetType
    ) = UNSET

    def to_params(self) -> GetParams:
        return GetParams(**_given(self))


class AppendArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tool `memory_append`."""

    text: Annotated[
        str,
        Meta(min_length=1, description="The entry, as Markdown: one fact, or a few short lines."),
    ]

    def to_params(self) -> AppendParams:
        return AppendParams(text=self.text)


ToolArguments = SearchArguments | GetArguments


def _given(arguments: ToolArguments) -> dict[str, Any]:
    values = msgspec.structs.asdict(arguments)
    return {name: value for name, value in values.items() if value is not UNSET}


_DEFINITIONS: Final = "$defs"


def object_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a struct; `type` is `object` at its root. Other structs stand in `$defs`."""
    (_root,), components = msgspec.json.schema_components(
        (kind,), ref_template=f"#/{_DEFINITIONS}/{{name}}"
    )
    definitions = {name: _without_null(schema) for name, schema in sorted(components.items())}
    schema: dict[str, Any] = definitions.pop(kind.__name__)
    del schema["title"]
    schema.pop("description", None)
    return schema | ({_DEFINITIONS: definitions} if definitions else {})


def _without_null(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_null(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("default", ...) is None:
        schema = {name: value for name, value in schema.items() if name != "default"}
    choices = schema.get("anyOf")
    if choices is not None:
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        choices = [choice for choice in choices if choice != {"type": "null"}]
        schema = rest | (choices[0] if len(choices) == 1 else {"anyOf": choices})
    return {name: _without_null(value) for name, value in schema.items()}


A = TypeVar("A", bound=msgspec.Struct)

_READS: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
_APPENDS: Final = _READS | {"readOnlyHint": False, "idempotentHint": False}
_SEARCH: Final = (
    "Search the agent's long-term memory (MEMORY.md, USER.md, daily logs in memory/YYYY-MM-DD.md, topic notes and, "
    "where indexed, past conversations). Use it before answering anything about "
    "earlier work, decisions, dates, people, preferences or to-dos, and whenever something may have been "
    "noted before. Returns passages, best first, each with path, startLine, endLine, score and snippet. "
    "`mode` says how they were found: `hybrid` by words and by meaning, `keyword` by words alone, where "
    "synonyms are not found. "
    "An empty list says in `outcome` whether nothing matches or the search was not possible; try other "
    "words once before concluding that nothing was noted. Cite a passage as path#Lline."
)
_GET: Final = (
    "Read a memory file, or some of its lines. Use it after memory_search to see what stands around a "
    "passage: give its `path`, and `from` and `lines` to keep it short. `status` is `not_found` for a file "
    "that does not exist; a long file is cut, and `nextFrom` says where to go on."
)

_APPEND: Final = (
    "Write an entry into today's log of the agent's memory, for what is worth knowing in later conversations: "
    "decisions, preferences, facts, dates. It is only appended; nothing can be changed or removed."
)


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """One tool; `run` gets decoded arguments."""

    name: str
    title: str
    description: str
    arguments: type[A]
    result: type[msgspec.Struct]
    doing: str
    """Said while it takes long."""
    run: Callable[[Memory, A, RequestContext], Awaitable[Result]]
    hints: Mapping[str, bool] = field(default_factory=lambda: _READS)

    def describe(self) -> dict[str, Any]:
        """As `tools/list` has it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": object_schema(self.arguments),
            "outputSchema": object_schema(self.result),
            "annotations": {"title": self.title, **self.hints},
        }


async def _search(memory: Memory, arguments: SearchArguments, context: RequestContext) -> Result:
    session = context.session
    answer = await memory.search(arguments.to_params(), session.session_key, guest=session.guest)
    context.stages.update(answer.timings_ms)
    return tool_result(answer, failed=answer.error is not None)


async def _get(memory: Memory, arguments: GetArguments, context: RequestContext) -> Result:
    session = context.session
    answer = await memory.get(arguments.to_params(), session.session_key, guest=session.guest)
    return tool_result(answer, failed=answer.error is not None)


async def _append(memory: Memory, arguments: AppendArguments, context: RequestContext) -> Result:
    session = context.session
    conversations = Conversations(memory)
    answer = await conversations.append(arguments.to_params(), session.session_key, session.guest)
    return tool_result(answer, failed=answer.error is not None)


TOOLS: Final[dict[str, Tool[Any]]] = {
    tool.name: tool
    for tool in (
        Tool(
            name="memory_search",
            title="Search memory",
            description=_SEARCH,
            arguments=SearchArguments,
            result=SearchAnswer,
            doing="Searching memory",
            run=_search,
        ),
        Tool(
            name="memory_get",
            title="Read memory",
            description=_GET,
            arguments=GetArguments,
            result=ReadAnswer,
            doing="Reading memory",
            run=_get,
        ),
        Tool(
            name="memory_append",
            title="Write to memory",
            description=_APPEND,
            arguments=AppendArguments,
            result=AppendResult,
            doing="Writing to memory",
            run=_append,
            hints=_APPENDS,
        ),
    )
}


@cache
def tool_list(*, appends: bool) -> tuple[dict[str, Any], ...]:
    """The tools that are offered, always in the same order; one that writes only if that is allowed."""
    return tuple(
        tool.describe() for tool in TOOLS.values() if appends or tool.name != "memory_append"
    )
