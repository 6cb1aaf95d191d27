"""The methods of MCP on the pipe: `initialize`, `server/discover`, and those of tools, resources and prompts.

Notes are resources, which people choose in their client: those that `session_start` would load for this
conversation are listed, and they are read as by `memory_get`, so neither shows more than those methods.
Clients are not notified of changes: days end without an event.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar
from urllib.parse import quote, unquote

import anyio
import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from backends.interface import FileUnwritableError, ReadAnswer, SearchAnswer
from config.runtime.tasks import background_tasks
from config.settings import Source
from gateway.agent.conversations import Conversations
from gateway.agent.memory import Memory
from gateway.escaping import escape_line
from gateway.mcp import eras
from gateway.mcp.eras import Meta, Result, Revision, revision_of, stateless_revision, tool_result
from gateway.rpc.registry import Method, RequestContext, decode_params
from gateway.rpc.wire import InvalidParamsError
from gateway.scope import may_append
from gateway.session_start import Role, recall_instructions
from gateway.tools.notes import AppendParams, AppendResult, GetParams
from gateway.tools.search import (
    MAX_RESULTS,
    PathText,
    SearchParams,
    attributes,
    bare_snippet,
    contained,
    line_range,
    passage_tag,
)

A = TypeVar("A", bound=msgspec.Struct)
_SCHEME: Final = "memory:///"
_MIME: Final = "text/markdown"
_TITLES: Final[dict[Role, str]] = {
    "longterm": "Long-term memory",
    "user": "About the user",
    "today": "Today's log",
    "yesterday": "Yesterday's log",
}


class _Prompt(msgspec.Struct, frozen=True):
    """A prompt that a person chooses in a client; `text` has the place of its one argument."""

    name: str
    title: str
    description: str
    argument: str
    about: str
    text: str

    def describe(self) -> dict[str, object]:
        argument = {"name": self.argument, "description": self.about, "required": True}
        known = {"name": self.name, "title": self.title, "description": self.description}
        return {**known, "arguments": [argument]}


_PROMPTS: Final = (
    _Prompt(
        name="recall",
        title="What do you remember about ...",
        description="Ask the memory for everything about a topic.",
        argument="topic",
        about="A person, a project, a day, anything.",
        text="What do you remember about {}? Look it up with memory_search, in other words too if little is found, "
        "read around what matters with memory_get, and answer with the sources. Say what the notes do not tell.",
    ),
    _Prompt(
        name="remember",
        title="Remember that ...",
        description="Write something into today's log.",
        argument="text",
        about="What is worth knowing in later conversations.",
        text="Remember this: {}\n\nWrite it with memory_append, as one short entry that can be understood alone: "
        "who, what, when, why, with full names and dates. If memory_search shows that it is noted already, say so "
        "instead. Without memory_append you may not write: say that `memory-gateway connect` with --write allows it.",
    ),
)
MAX_TOPIC_CHARS: Final = 2000
_REMEDY: Final = "resources/list names those that there are."
SIGN_OF_LIFE_S: Final = 1.0
"""Well below any client's time-out, which progress may set back."""


def list_prompts() -> Result:
    return {"prompts": [one.describe() for one in _PROMPTS]}


Arguments = dict[str, msgspec.Raw]


class MetaParams(msgspec.Struct, frozen=True):
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ListParams(MetaParams, frozen=True):
    cursor: str | None = None


class CallParams(MetaParams, frozen=True, kw_only=True):
    name: str
    arguments: Arguments | None = None


class ReadParams(MetaParams, frozen=True, kw_only=True):
    uri: PathText


class PromptParams(MetaParams, frozen=True, kw_only=True):
    name: str
    arguments: dict[str, str] | None = None


class McpMethods:
    """The methods of MCP, except `initialize`, which is shared."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def discover(self, params: MetaParams, _context: RequestContext) -> Result:
        instructions = recall_instructions(self._memory.settings.citations)
        return eras.discovery(stateless_revision(params.meta), instructions)

    async def ping(self, params: MetaParams, context: RequestContext) -> Result:
        return eras.dressed({}, revision_of(params.meta, context.session.protocol))

    async def list_tools(self, params: ListParams, context: RequestContext) -> Result:
        revision = _listing(params, context)
        return eras.cacheable({"tools": self._tools(context)}, revision)

    def _tools(self, context: RequestContext) -> tuple[dict[str, object], ...]:
        return tool_list(appends=may_append(self._memory.settings, context.session.guest))

    async def call(self, params: CallParams, context: RequestContext) -> Result:
        """Reports wrong arguments to the model in a result, or to the client by an error, as the revision wants it."""
        revision = revision_of(params.meta, context.session.protocol)
        if (tool := TOOLS.get(params.name)) is None:
            shown = f"There is no tool {params.name[:64]!r}."
            names = ", ".join(str(one["name"]) for one in self._tools(context))
            raise InvalidParamsError(shown, remedy=f"The tools are {names}.")
        async with background_tasks() as tasks:
            tasks.start_soon(_report_progress, tool, params.meta, context)
            try:
                given = _as_meant(params.arguments or {})
                arguments = decode_params(tool.name, tool.arguments, given)
                result = await tool.run(self._memory, arguments, _of_model(context))
            except InvalidParamsError as error:
                if not revision.explains_arguments:
                    raise
                result = tool_result(str(error), failed=True)
        return eras.dressed(result, revision)

    async def resources(self, params: ListParams, context: RequestContext) -> Result:
        """Lists only files that exist; none for a conversation that may not read memory."""
        revision = _listing(params, context)
        files = await Conversations(self._memory).files(context.session)
        there = [
            {"uri": _SCHEME + quote(one.path), "name": one.path, "title": _TITLES[one.role], "mimeType": _MIME}
            for one in files
            if one.status == "ok"
        ]  # fmt: skip
        return eras.momentary({"resources": there}, revision)

    async def templates(self, params: ListParams, context: RequestContext) -> Result:
        return eras.cacheable({"resourceTemplates": []}, _listing(params, context))

    async def read(self, params: ReadParams, context: RequestContext) -> Result:
        """Reads any path that `memory_get` reads. Raises InvalidParamsError, with the reason, for all others."""
        revision, uri = revision_of(params.meta, context.session.protocol), params.uri
        if not uri.startswith(_SCHEME):
            raise InvalidParamsError(f"There is no resource {uri[:200]!r}.", remedy=_REMEDY)
        path = unquote(uri.removeprefix(_SCHEME))
        answer = await self._memory.get(GetParams(path=path), _of_model(context))
        if answer.status != "ok":
            raise InvalidParamsError(answer.error or f"There is no {path}.", remedy=_REMEDY)
        text = answer.text
        if answer.truncated:
            text += f"\n[... cut here; memory_get reads on from line {answer.next_line} ...]\n"
        contents = [{"uri": uri, "mimeType": _MIME, "text": text}]
        return eras.momentary({"contents": contents}, revision)

    async def prompts(self, params: ListParams, context: RequestContext) -> Result:
        return eras.cacheable(list_prompts(), _listing(params, context))

    async def prompt(self, params: PromptParams, context: RequestContext) -> Result:
        revision = revision_of(params.meta, context.session.protocol)
        prompt = next((one for one in _PROMPTS if one.name == params.name), None)
        if prompt is None:
            names = ", ".join(one.name for one in _PROMPTS)
            shown = f"There is no prompt {params.name[:64]!r}."
            raise InvalidParamsError(shown, remedy=f"There are {names}.")
        given = (params.arguments or {}).get(prompt.argument, "").strip()
        if not given or len(given) > MAX_TOPIC_CHARS:
            raise InvalidParamsError(
                f"The prompt needs a {prompt.argument} of at most {MAX_TOPIC_CHARS:,} characters.",
                remedy=f'Give arguments such as {{"{prompt.argument}": "the boiler"}}.',
            )
        message = {"role": "user", "content": {"type": "text", "text": prompt.text.format(given)}}
        found = {"description": prompt.description, "messages": [message]}
        return eras.dressed(found, revision)


async def _report_progress(tool: Tool[Any], meta: Meta | None, context: RequestContext) -> None:
    """Reports at once, and then every second, that the call is being worked on, if the client asked for that.

    Never returns if it did. How much is left is not known, so seconds count up.
    """
    token = (meta or {}).get("progressToken")
    if isinstance(token, bool) or not isinstance(token, str | int):
        return
    started = anyio.current_time()
    while True:
        seconds = round(anyio.current_time() - started, 1)
        params = {"progressToken": token, "progress": seconds, "message": tool.doing}
        context.notify("notifications/progress", params)
        await anyio.sleep(SIGN_OF_LIFE_S)


def _as_meant(given: Arguments) -> bytes:
    """Drops null, which models send for what they leave out, and turns 2.0, which some hosts send for 2, into 2."""
    said = {name: value for name, value in given.items() if bytes(value) != b"null"}
    for name, value in said.items():
        if whole := re.fullmatch(rb"(-?\d+)\.0+", value):
            said[name] = msgspec.Raw(whole[1])
    return msgspec.json.encode(said)


def mcp_methods(memory: Memory) -> list[Method[Any]]:
    """Returns the methods of MCP. Requests that the client withdraws are not answered, as MCP demands."""
    methods = McpMethods(memory)
    manners = {"open_params": True, "silent_when_cancelled": True}
    return [
        Method("server/discover", MetaParams, methods.discover, **manners),
        Method("ping", MetaParams, methods.ping, **manners),
        Method("tools/list", ListParams, methods.list_tools, **manners),
        Method("tools/call", CallParams, methods.call, **manners),
        Method("resources/list", ListParams, methods.resources, **manners),
        Method("resources/templates/list", ListParams, methods.templates, **manners),
        Method("resources/read", ReadParams, methods.read, **manners),
        Method("prompts/list", ListParams, methods.prompts, **manners),
        Method("prompts/get", PromptParams, methods.prompt, **manners),
    ]


def _of_model(context: RequestContext) -> RequestContext:
    """Returns the context without an operator: a model calls the tools, and scope applies to it."""
    return replace(context, session=replace(context.session, operator=False))


def _listing(params: ListParams, context: RequestContext) -> Revision:
    """Returns the revision. Raises as `revision_of`, and InvalidParamsError for a second page: no list has one."""
    revision = revision_of(params.meta, context.session.protocol)
    if params.cursor is not None:
        raise InvalidParamsError("There is no such page.", remedy="Leave out cursor.")
    return revision


# --- The tools, and their answers as text ---


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
    query: Annotated[str, msgspec.Meta(min_length=1, description=
        "A question or keywords, in any language; names, dates and identifiers make it sharper.")]
    max_results: Annotated[int, msgspec.Meta(ge=1, le=MAX_RESULTS, description=
        "At most so many passages; usually 6.")] | UnsetType = UNSET
    min_score: Annotated[float, msgspec.Meta(ge=0, le=1, description=
        "Usually 0.35; lower it to 0.1 when nothing was found.")] | UnsetType = UNSET
    sources: Annotated[tuple[Source, ...], msgspec.Meta(description=
        "`memory`: notes, `sessions`: past conversations; usually both.")] | UnsetType = UNSET
    include: Annotated[tuple[str, ...], msgspec.Meta(description=
        "Only paths that match, as in `memory/projects/**`.")] | UnsetType = UNSET
    exclude: Annotated[tuple[str, ...], msgspec.Meta(description="No paths that match.")] | UnsetType = UNSET
    after: Annotated[date, msgspec.Meta(description=
        "Only notes of this day or later, as in `2026-02-08`.")] | UnsetType = UNSET
    before: Annotated[date, msgspec.Meta(description="Only notes from before this day.")] | UnsetType = UNSET
    tags: Annotated[tuple[str, ...], msgspec.Meta(description="Only notes with all of these tags.")] | UnsetType = UNSET
    # fmt: on

    def to_params(self) -> SearchParams:
        """Raises InvalidParamsError: limits are those of the method, and cost no words of the schema."""
        return decode_params("memory_search", SearchParams, msgspec.json.encode(self))


class GetArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tool `memory_get`."""

    # fmt: off
    path: Annotated[str, msgspec.Meta(min_length=1, description=
        "The `path` of a passage, `MEMORY.md` or `memory/2026-02-08.md`.")]
    first_line: Annotated[int, msgspec.Meta(ge=1, description="First line, from 1.")] | UnsetType = msgspec.field(
        default=UNSET, name="from")
    lines: Annotated[int, msgspec.Meta(ge=1, description="How many lines; else the whole file.")] | UnsetType = UNSET
    # fmt: on

    def to_params(self) -> GetParams:
        """Raises as `SearchArguments.to_params`."""
        return decode_params("memory_get", GetParams, msgspec.json.encode(self))


class AppendArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tool `memory_append`."""

    text: Annotated[
        str,
        msgspec.Meta(
            min_length=1, description="The entry, as Markdown: one fact, or a few short lines."
        ),
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
