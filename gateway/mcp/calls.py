"""One `tools/call`: arguments in, a result out, and signs of life meanwhile.

Owns which failures the client is told and which the model: a wrong tool name is the client's, wrong
arguments are the model's to mend, as far as the revision says so.
"""

from __future__ import annotations

from typing import Any, Final

import anyio
import msgspec

from gateway.agent.memory import Memory
from gateway.mcp.eras import Meta, Revision
from gateway.mcp.replies import Result, tool_failure
from gateway.mcp.tools import TOOLS, Tool
from gateway.rpc.context import RequestContext
from gateway.rpc.errors import InvalidParamsError
from gateway.rpc.params import decode_params

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
