"""An MCP server over stdio whose one tool answers differently as data and as text: run it as a file.

It shows which of the two a client passes to its model.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {
    "name": "memory_search",
    "description": "Search the long-term memory.",
    "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}},
    "outputSchema": {"type": "object", "properties": {"said": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
    "_meta": {"anthropic/alwaysLoad": True},
}
BOTH = {
    "content": [{"type": "text", "text": "said as text"}],
    "structuredContent": {"said": "said as data"},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "two-forms", "version": "1"}
        revision = params["protocolVersion"]
        return {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": info}
    return {"ping": {}, "tools/list": {"tools": [TOOL]}, "tools/call": BOTH}.get(method)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message["method"], message.get("params", {}))
        error = {"code": -32601, "message": "There is no such method."}
        said = {"error": error} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
