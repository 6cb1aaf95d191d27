"""The revisions of the Model Context Protocol, and results as each wants them. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from config.errors import ErrorKind
from gateway.rpc.wire import InvalidParamsError, RpcError, replace_lone_surrogates
from gateway.version import VERSION

HANDSHAKE_REVISIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Newest first; agreed on by `initialize`."""
STATELESS_REVISIONS: Final = ("2026-07-28",)
"""Carried by every request."""

REVISION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"

_METHODS: Final = frozenset(
    "server/discover ping tools/list tools/call resources/list resources/read resources/templates/list prompts/list "
    "prompts/get".split()
)
"""Methods of MCP that our own protocol does not share."""

Meta = dict[str, object]
"""The `_meta` of a request."""


class UnsupportedRevisionError(RpcError):
    """The request carries a revision that we do not speak; clients retry with one of `supported`."""

    kind = ErrorKind.UNSUPPORTED_PROTOCOL_VERSION

    def __init__(self, requested: str) -> None:
        super().__init__(
            f"The protocol version {requested[:40]!r} is not supported.",
            remedy="Use one of data.supported.",
            details={
                "supported": [*STATELESS_REVISIONS, *HANDSHAKE_REVISIONS],
                "requested": requested,
            },
        )


class Revision(msgspec.Struct, frozen=True):
    """The revision that one request speaks."""

    name: str

    @property
    def is_stateless(self) -> bool:
        return self.name in STATELESS_REVISIONS

    @property
    def explains_arguments(self) -> bool:
        """True if wrong arguments are reported to the model, in a result, rather than to the client."""
        return self.name >= "2025-11-25"


def speaks_mcp(line: bytes) -> bool:
    """Returns whether the first line of a client shows that it speaks MCP rather than our own methods."""
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    if isinstance(message, list) and message:
        message = message[0]
    if not isinstance(message, dict):
        return False
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    if message.get("method") == "initialize":
        return "protocolVersion" in params and "clientInfo" in params
    meta = params.get("_meta")
    return message.get("method") in _METHODS or (isinstance(meta, dict) and REVISION_KEY in meta)


def negotiated(requested: str | None) -> str:
    """Returns the revision that `initialize` answers: the one asked for, or the newest that has a handshake."""
    return requested if requested in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[0]


def revision_of(meta: Meta | None, agreed: str | None) -> Revision:
    """Returns the revision of a request, by its own `_meta` or else by what `initialize` agreed on.

    A client that did neither is taken to speak the newest revision that has a handshake. Raises
    UnsupportedRevisionError, InvalidParamsError.
    """
    if meta is None or REVISION_KEY not in meta:
        return Revision(negotiated(agreed))
    return stateless_revision(meta)


def stateless_revision(meta: Meta | None) -> Revision:
    """Returns the revision of a request that must carry it. Raises as `revision_of`."""
    meta = meta or {}
    name = _needed(meta, REVISION_KEY)
    if not isinstance(name, str):
        raise InvalidParamsError(f"params._meta[{REVISION_KEY!r}] must be a string.")
    if name not in STATELESS_REVISIONS:  # before all else: another revision may need other keys
        raise UnsupportedRevisionError(name)
    _needed(meta, CAPABILITIES_KEY)
    return Revision(name)


def _needed(meta: Meta, key: str) -> object:
    if key not in meta:
        raise InvalidParamsError(f"params._meta needs {key!r}.")
    return meta[key]


SERVER: Final = {"name": "memory-gateway", "title": "Memory Gateway", "version": VERSION}
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
CAPABILITIES: Final[dict[str, object]] = {"tools": {}, "resources": {}, "prompts": {}}
_LIFETIME_MS: Final = 3_600_000
"""The tools change only with the program, and with `append.enabled`."""

Result = dict[str, Any]


def dressed(result: Result, revision: Revision, **hints: object) -> Result:
    """Returns the result in the form that the revision wants; some have `hints` on how long it is valid."""
    if not revision.is_stateless:
        return result
    return result | hints | {"resultType": "complete", "_meta": {SERVER_KEY: SERVER}}


def cacheable(result: Result, revision: Revision) -> Result:
    """Returns a result that is valid for every client, and for an hour."""
    return dressed(result, revision, ttlMs=_LIFETIME_MS, cacheScope="public")


def momentary(result: Result, revision: Revision) -> Result:
    """Returns a result that is valid for this client, and only now."""
    return dressed(result, revision, ttlMs=0, cacheScope="private")


def handshake(requested: str | None) -> Result:
    """Returns MCP's part of the answer to `initialize`; instructions and the rest are part of our protocol."""
    return {
        "protocolVersion": negotiated(requested),
        "serverInfo": SERVER,
        "capabilities": CAPABILITIES,
    }


def discovery(revision: Revision, instructions: str) -> Result:
    """Returns the answer to `server/discover`."""
    found = {
        "supportedVersions": [*STATELESS_REVISIONS, *HANDSHAKE_REVISIONS],
        "capabilities": CAPABILITIES,
        "instructions": instructions,
    }
    return cacheable(found, revision)


def tool_result(text: str, *, failed: bool) -> Result:
    """Returns the answer of a tool, or a failure that the model can read and act upon."""
    content = [{"type": "text", "text": replace_lone_surrogates(text)}]
    return {"content": content, "isError": failed}
