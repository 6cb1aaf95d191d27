"""The methods of MCP on the pipe: `initialize`, `server/discover`, and those of tools, resources and prompts.

Notes are resources, which people choose in their client: what is listed is what `session_start` would load for
this conversation, and reading one goes through the same door as `memory_get`, so neither shows what those do not.
Nobody is told of changes: days end without an event.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, unquote

import anyio
import msgspec

from config.errors import ungrouped
from gateway.agent.conversations import Conversations
from gateway.agent.memory import Memory
from gateway.mcp import eras
from gateway.mcp.eras import Meta, Result, Revision, revision_of, stateless_revision, tool_failure
from gateway.mcp.tools import TOOLS, Tool, tool_list
from gateway.rpc.registry import Method, RequestContext, Session, decode_params
from gateway.rpc.wire import InvalidParamsError
from gateway.sessions import LoadedFile, Role, recall_instructions
from gateway.tools.get import GetParams
from gateway.tools.search import PathText

_SCHEME: Final = "memory:///"
_MIME: Final = "text/markdown"
_TITLES: Final[dict[Role, str]] = {
    "longterm": "Long-term memory",
    "user": "About the user",
    "today": "Today's log",
    "yesterday": "Yesterday's log",
}
_PROMPT: Final = {
    "name": "remember",
    "title": "What do you remember about ...",
    "description": "Ask the memory for everything about a topic.",
    "arguments": [
        {"name": "topic", "description": "A person, a project, a day, anything.", "required": True}
    ],
}
MAX_TOPIC_CHARS: Final = 2000


async def list_resources(memory: Memory, session: Session) -> Result:
    """Only what is there; nothing for a conversation that may not read memory."""
    files = await Conversations(memory).files(session.session_key, session.guest)
    return {"resources": [_describe(one) for one in files if one.status == "ok"]}


def _describe(file: LoadedFile) -> dict[str, Any]:
    return {
        "uri": _SCHEME + quote(file.path),
        "name": file.path,
        "title": _TITLES[file.role],
        "mimeType": _MIME,
    }


async def read_resource(memory: Memory, uri: str, session: Session) -> Result:
    """Any path that `memory_get` reads. Raises InvalidParamsError, with the reason, for all others."""
    if not uri.startswith(_SCHEME):
        raise InvalidParamsError(f"There is no resource {uri[:200]!r}.", remedy=_REMEDY)
    params = GetParams(path=unquote(uri.removeprefix(_SCHEME)))
    answer = await memory.get(params, session.session_key, guest=session.guest)
    if answer.status != "ok":
        why = answer.error or f"There is no {params.path}."
        raise InvalidParamsError(why, remedy=_REMEDY)
    text = answer.text
    if answer.truncated:
        text += f"\n[... cut here; memory_get reads on from line {answer.next_line} ...]\n"
    return {"contents": [{"uri": uri, "mimeType": _MIME, "text": text}]}


_REMEDY: Final = "resources/list names those that there are."


def list_prompts() -> Result:
    return {"prompts": [_PROMPT]}


def get_prompt(name: str, arguments: dict[str, str]) -> Result:
    """Raises InvalidParamsError."""
    if name != _PROMPT["name"]:
        raise InvalidParamsError(
            f"There is no prompt {name[:64]!r}.", remedy=f"The only one is {_PROMPT['name']}."
        )
    topic = arguments.get("topic", "").strip()
    if not topic or len(topic) > MAX_TOPIC_CHARS:
        raise InvalidParamsError(
            f"The prompt needs a topic of at most {MAX_TOPIC_CHARS:,} characters.",
            remedy='Give arguments such as {"topic": "the boiler"}.',
        )
    text = (
        f"What do you remember about {topic}? Look it up with memory_search, in other words too if "
        "little is found, read around what matters with memory_get, and answer with the sources. "
        "Say what the notes do not tell."
    )
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": _PROMPT["description"], "messages": [message]}


SIGN_OF_LIFE_S: Final = 1.0
"""Well below any client's time-out, which progress may set back."""

Arguments = dict[str, msgspec.Raw]


def tool_of(name: str) -> Tool[Any]:
    """Raises InvalidParamsError."""
    if (tool := TOOLS.get(name)) is None:
        raise InvalidParamsError(
            f"There is no tool {name[:64]!r}.", remedy=f"The tools are {', '.join(TOOLS)}."
        )
    return tool


async def call_tool(
    memory: Memory,
    tool: Tool[Any],
    given: Arguments,
    revision: Revision,
    context: RequestContext,
) -> Result:
    """The tool's result. Raises InvalidParamsError where the revision wants that for wrong arguments."""
    try:
        arguments = decode_params(tool.name, tool.arguments, _without_nulls(given))
        return await tool.run(memory, arguments, context)
    except InvalidParamsError as error:
        if not revision.explains_arguments:
            raise
        return tool_failure(str(error))


async def tell_progress(tool: Tool[Any], meta: Meta | None, context: RequestContext) -> None:
    """Says at once, and then every second, that the call is being worked on, if the client asked.

    Never returns when it did; how much is left is not known, so seconds count up.
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


def _without_nulls(given: Arguments) -> bytes:
    """Models spell what they do not want to say as null."""
    said = {name: value for name, value in given.items() if bytes(value) != b"null"}
    return msgspec.json.encode(said)


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


def mcp_methods(memory: Memory) -> list[Method[Any]]:
    """All but `initialize`. Requests that their client takes back are not answered, as MCP wants."""

    async def discover(params: MetaParams, _context: RequestContext) -> Result:
        instructions = recall_instructions(memory.settings.citations)
        return eras.discovery(stateless_revision(params.meta), instructions)

    async def ping(params: MetaParams, context: RequestContext) -> Result:
        return eras.dressed({}, revision_of(params.meta, context.session.protocol))

    async def list_tools(params: ListParams, context: RequestContext) -> Result:
        revision = _listing(params, context)
        settings, guest = memory.settings, context.session.guest
        appends = settings.append_enabled and (guest is None or guest.may_append(settings))
        return eras.cacheable({"tools": tool_list(appends=appends)}, revision)

    async def call(params: CallParams, context: RequestContext) -> Result:
        revision = revision_of(params.meta, context.session.protocol)
        tool = tool_of(params.name)
        with ungrouped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tell_progress, tool, params.meta, context)
                result = await call_tool(memory, tool, params.arguments or {}, revision, context)
                tasks.cancel_scope.cancel()
        return eras.dressed(result, revision)

    async def resources(params: ListParams, context: RequestContext) -> Result:
        revision = _listing(params, context)
        return eras.momentary(await list_resources(memory, context.session), revision)

    async def templates(params: ListParams, context: RequestContext) -> Result:
        return eras.cacheable({"resourceTemplates": []}, _listing(params, context))

    async def read(params: ReadParams, context: RequestContext) -> Result:
        revision = revision_of(params.meta, context.session.protocol)
        return eras.momentary(await read_resource(memory, params.uri, context.session), revision)

    async def prompts(params: ListParams, context: RequestContext) -> Result:
        return eras.cacheable(list_prompts(), _listing(params, context))

    async def prompt(params: PromptParams, context: RequestContext) -> Result:
        revision = revision_of(params.meta, context.session.protocol)
        return eras.dressed(get_prompt(params.name, params.arguments or {}), revision)

    manners = {"open_params": True, "silent_when_cancelled": True}
    return [
        Method("server/discover", MetaParams, discover, **manners),
        Method("ping", MetaParams, ping, **manners),
        Method("tools/list", ListParams, list_tools, **manners),
        Method("tools/call", CallParams, call, **manners),
        Method("resources/list", ListParams, resources, **manners),
        Method("resources/templates/list", ListParams, templates, **manners),
        Method("resources/read", ReadParams, read, **manners),
        Method("prompts/list", ListParams, prompts, **manners),
        Method("prompts/get", PromptParams, prompt, **manners),
    ]


def _listing(params: ListParams, context: RequestContext) -> Revision:
    """Every list has one page. Raises as `revision_of`, and InvalidParamsError for another one."""
    revision = revision_of(params.meta, context.session.protocol)
    if params.cursor is not None:
        raise InvalidParamsError("There is no such page.", remedy="Leave out cursor.")
    return revision
