"""The methods of MCP for the pipe, beside our own.

Owns their parameters and handlers. `initialize` is shared with our own protocol and stands in
`gateway.methods.table`; its MCP half is `replies.handshake`.
"""

from __future__ import annotations

from typing import Any

import anyio
import msgspec

from config.groups import ungrouped
from gateway.agent.memory import Memory
from gateway.mcp import replies
from gateway.mcp.calls import Arguments, call_tool, tell_progress, tool_of
from gateway.mcp.eras import Meta, revision_of, stateless_revision
from gateway.mcp.replies import Result
from gateway.mcp.tools import tool_list
from gateway.rpc.context import RequestContext
from gateway.rpc.errors import InvalidParamsError
from gateway.rpc.methods import Method
from gateway.sessions.instructions import recall_instructions


class MetaParams(msgspec.Struct, frozen=True):
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ListParams(MetaParams, frozen=True):
    cursor: str | None = None


class CallParams(MetaParams, frozen=True, kw_only=True):
    name: str
    arguments: Arguments | None = None


def mcp_methods(memory: Memory) -> list[Method[Any]]:
    """All but `initialize`. Requests that their client takes back are not answered, as MCP wants."""

    async def discover(params: MetaParams, _context: RequestContext) -> Result:
        instructions = recall_instructions(memory.settings.citations)
        return replies.discovery(stateless_revision(params.meta), instructions)

    async def ping(params: MetaParams, context: RequestContext) -> Result:
        return replies.dressed({}, revision_of(params.meta, context.session.protocol))

    async def list_tools(params: ListParams, context: RequestContext) -> Result:
        revision = revision_of(params.meta, context.session.protocol)
        if params.cursor is not None:
            raise InvalidParamsError("There is no such page.", remedy="Leave out cursor.")
        settings, guest = memory.settings, context.session.guest
        appends = settings.append_enabled and (guest is None or guest.may_append(settings))
        return replies.cacheable({"tools": tool_list(appends=appends)}, revision)

    async def call(params: CallParams, context: RequestContext) -> Result:
        revision = revision_of(params.meta, context.session.protocol)
        tool = tool_of(params.name)
        with ungrouped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tell_progress, tool, params.meta, context)
                result = await call_tool(memory, tool, params.arguments or {}, revision, context)
                tasks.cancel_scope.cancel()
        return replies.dressed(result, revision)

    manners = {"open_params": True, "silent_when_cancelled": True}
    return [
        Method("server/discover", MetaParams, discover, **manners),
        Method("ping", MetaParams, ping, **manners),
        Method("tools/list", ListParams, list_tools, **manners),
        Method("tools/call", CallParams, call, **manners),
    ]
