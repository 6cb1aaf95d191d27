"""Results as MCP wants them, by revision. Pure.

Owns what surrounds every result (the stateless era names its type and the server in each) and who we
say we are.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.mcp.eras import HANDSHAKE_REVISIONS, STATELESS_REVISIONS, Revision, negotiated
from gateway.rpc.surrogates import replace_lone_surrogates
from gateway.version import VERSION

SERVER: Final = {"name": "memory-gateway", "title": "Memory Gateway", "version": VERSION}
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
CAPABILITIES: Final[dict[str, Any]] = {"tools": {}}
_LIFETIME_MS: Final = 3_600_000
"""The tools change only with the program, and with `memory.append.enabled`."""

Result = dict[str, Any]


def dressed(result: Result, revision: Revision) -> Result:
    """Any result as the revision wants it."""
    if not revision.is_stateless:
        return result
    return result | {"resultType": "complete", "_meta": {SERVER_KEY: SERVER}}


def cacheable(result: Result, revision: Revision) -> Result:
    """A result that holds for every client, and for an hour."""
    hints = {"ttlMs": _LIFETIME_MS, "cacheScope": "public"} if revision.is_stateless else {}
    return dressed(result | hints, revision)


def handshake(requested: str | None) -> Result:
    """What `initialize` answers for MCP's sake; instructions and the rest it has from our protocol."""
    return {
        "protocolVersion": negotiated(requested),
        "serverInfo": SERVER,
        "capabilities": CAPABILITIES,
    }


def discovery(revision: Revision, instructions: str) -> Result:
    """The answer to `server/discover`."""
    found = {
        "supportedVersions": [*STATELESS_REVISIONS, *HANDSHAKE_REVISIONS],
        "capabilities": CAPABILITIES,
        "instructions": instructions,
    }
    return cacheable(found, revision)


def tool_result(answer: msgspec.Struct, *, failed: bool) -> Result:
    """What a tool answered, as data and, for clients that know no data, as the same JSON in a text."""
    data = replace_lone_surrogates(msgspec.to_builtins(answer))
    return _result(msgspec.json.encode(data).decode(), failed) | {"structuredContent": data}


def tool_failure(text: str) -> Result:
    """A failure that the model can read and act upon."""
    return _result(text, failed=True)


def _result(text: str, failed: bool) -> Result:
    return {"content": [{"type": "text", "text": text}], "isError": failed}
