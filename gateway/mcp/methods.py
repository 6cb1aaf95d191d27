"""The methods of MCP on the pipe: `initialize`, `server/discover`, and those of tools, resources and prompts."""

from __future__ import annotations

from typing import Any, Final

import anyio
import msgspec

from config.errors import ungrouped
from gateway.agent.memory import Memory
from gateway.mcp import eras
from gateway.mcp.eras import Meta, Result, Revision, revision_of, stateless_revision, tool_failure
from gateway.mcp.resources import get_prompt, list_prompts, list_resources, read_resource
from gateway.mcp.tools import TOOLS, Tool, tool_list
from gateway.rpc.registry import Method, RequestContext, decode_params
from gateway.rpc.wire import InvalidParamsError
from gateway.sessions.loading import recall_instructions
from gateway.tools.search import PathText

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
