"""The tools as a model sees them, and what each does with the memory.

Owns names, titles, descriptions and hints; the arguments are explained in `arguments`. The order is
fixed, so that a client's cached prompt stays valid.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from backends.interface import ReadAnswer, SearchAnswer
from gateway.agent.conversations import Conversations
from gateway.agent.memory import Memory
from gateway.mcp.arguments import AppendArguments, GetArguments, SearchArguments
from gateway.mcp.replies import Result, tool_result
from gateway.mcp.schemas import object_schema
from gateway.rpc.context import RequestContext
from gateway.tools.append import AppendResult

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
