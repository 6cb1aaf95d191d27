"""Every method of the pipe, bound to one agent's memory; their parameters and answers as JSON Schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from backends.interface import (
    ForgetReport,
    ReadAnswer,
    SearchAnswer,
    SyncProgress,
    SyncReport,
    SyncRequest,
)
from config.errors import ErrorKind
from gateway.agent.memory import Memory
from gateway.agent.reloading import ReloadResult
from gateway.rpc.registry import Method, MethodRegistry, NoParams, Params, RequestContext
from gateway.rpc.wire import InvalidParamsError
from gateway.scope import GREETING, Guest, Terms
from gateway.tools.notes import AppendParams, AppendResult, ForgetParams, GetParams
from gateway.tools.search import MAX_NAME_CHARS, Key, Name, RecallParams, RecallResult, SearchParams
from gateway.tools.status import Health, HealthParams, MetricsResult, OverviewResult, StatusResult
from gateway.version import PROTOCOL, VERSION


class InitializeParams(Params, frozen=True):
    """Our own parameters, then those of MCP, which shares the method."""

    client: Name | dict[str, Any] | None = None
    session_key: Key | None = None
    protocol_version: Name | None = None
    operator: bool = False
    """True for a person at the machine, to whom `scope` does not apply."""
    client_info: dict[str, Any] | None = None
    capabilities: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class SyncParams(Params, frozen=True):
    force: bool = False
    verify: bool = False
    reason: Name = "manual"
    wait: bool = True


class StatusParams(Params, frozen=True):
    deep: bool = False


class SyncScheduled(msgspec.Struct, frozen=True):
    """The answer of `sync` without `wait`."""

    scheduled: bool


class SyncDisabled(msgspec.Struct, frozen=True):
    """The answer of `sync` while memory is off."""

    disabled: bool
    error: str
    kind: ErrorKind


class Stopping(msgspec.Struct, frozen=True):
    """The answer of `shutdown`."""

    stopping: bool


class PipeMethods:
    """The methods of the pipe, except those of `Memory`, of sessions and of MCP."""

    def __init__(
        self,
        memory: Memory,
        end: Callable[[], None],
        registry: MethodRegistry,
    ) -> None:
        self._memory = memory
        self._end = end
        self._registry = registry

    async def initialize(
        self, params: InitializeParams, context: RequestContext
    ) -> dict[str, object]:
        from gateway.mcp.eras import handshake  # noqa: PLC0415 - see `_later`
        from gateway.session_start import recall_instructions  # noqa: PLC0415

        session, settings = context.session, self._memory.settings
        session.session_key = params.session_key or session.session_key
        session.client = _client_name(params.client or params.client_info) or session.client
        session.protocol = params.protocol_version
        session.operator = params.operator
        for_mcp = handshake(params.protocol_version)
        ours = {"methods": self._registry.names(), "batch": True, "cancel": True, "progress": True}
        return for_mcp | {
            "name": "memory-gateway",
            "version": VERSION,
            "protocol": PROTOCOL,
            "agentId": settings.agent_id,
            "instructions": recall_instructions(settings.citations),
            "capabilities": for_mcp["capabilities"] | ours,
        }

    async def greet(self, params: Terms, context: RequestContext) -> dict[str, str]:
        context.session.guest = Guest(params, self._memory.settings)
        context.session.process = params.process
        return {"version": VERSION}

    async def sync(
        self, params: SyncParams, context: RequestContext
    ) -> SyncReport | SyncScheduled | SyncDisabled:
        if not params.wait and self._memory.why_off is None:
            self._memory.sync_later(params.reason, force=params.force, verify=params.verify)
            return SyncScheduled(scheduled=True)

        def progress(state: SyncProgress) -> None:
            context.notify(
                "notifications/progress",
                {"requestId": context.request_id, **msgspec.to_builtins(state)},
            )

        report = await self._memory.sync(
            SyncRequest(reason=params.reason, force=params.force, verify=params.verify),
            progress=progress,
        )
        if report is not None:
            return report
        return SyncDisabled(
            disabled=True, error=self._memory.why_off or "", kind=ErrorKind.DISABLED
        )

    async def status(self, params: StatusParams, _context: RequestContext) -> StatusResult:
        found = await self._memory.status()
        if not params.deep:
            return found
        return msgspec.structs.replace(found, health=await self._memory.deep_health())

    async def health(self, params: HealthParams, _context: RequestContext) -> Health:
        return await (self._memory.deep_health() if params.deep else self._memory.health())

    async def forget(self, params: ForgetParams, context: RequestContext) -> ForgetReport:
        if not context.session.operator:
            raise InvalidParamsError(
                "Only the person at the machine may let something be forgotten.",
                remedy="`memory-gateway forget` does it.",
            )
        return await self._memory.forget(params.request())

    async def shutdown(self, _params: NoParams, context: RequestContext) -> Stopping:
        """Ends the process for the client that it was started for; for any other, only the connection."""
        (context.session.leave or self._end)()
        return Stopping(stopping=True)


def build_registry(
    memory: Memory, end: Callable[[], None], reload_settings: Callable[[], Awaitable[ReloadResult]]
) -> MethodRegistry:
    """Returns the methods of one process. `end` ends it; `reload_settings` is `Reloader.reload`."""
    registry = MethodRegistry(later=partial(_later, memory), observe=memory.counts.answered)
    pipe = PipeMethods(memory, end, registry)
    registry.add(
        [
            Method("initialize", InitializeParams, pipe.initialize),
            Method("memory_search", SearchParams, memory.search),
            Method("memory_get", GetParams, memory.get),
            Method("sync", SyncParams, pipe.sync, accepts_notification=True),
            Method("status", StatusParams, pipe.status),
            Method("health", HealthParams, pipe.health),
            Method("metrics", NoParams, lambda *_: memory.metrics()),
            Method("overview", NoParams, lambda _, context: memory.overview(context)),
            Method("forget", ForgetParams, pipe.forget),
            Method("reload", NoParams, lambda *_: reload_settings()),
            Method("shutdown", NoParams, pipe.shutdown, accepts_notification=True),
            Method(GREETING, Terms, pipe.greet, open_params=True),
        ]
    )
    return registry


def _later(memory: Memory) -> list[Method[Any]]:
    """Returns the methods that a client which only searches need not wait for."""
    from gateway.agent.conversations import session_methods  # noqa: PLC0415
    from gateway.mcp.mcp_methods import mcp_methods  # noqa: PLC0415
    from gateway.recall import recall_methods  # noqa: PLC0415

    return [*session_methods(memory), *recall_methods(memory), *mcp_methods(memory)]


def _client_name(client: str | dict[str, object] | None) -> str | None:
    return str(client.get("name", ""))[:MAX_NAME_CHARS] if isinstance(client, dict) else client


# --- Schemas ---------------------------------------------------------------------------------------


class Greeting(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of `initialize`, beside what MCP says there."""

    name: str
    version: str
    protocol: str
    agent_id: str
    instructions: str
    capabilities: dict[str, Any]


class RefusalData(msgspec.Struct, frozen=True):
    """`data` of an error: the kind is one of a closed list, and some errors say more."""

    kind: str
    remedy: str | None = None


class RpcRefusal(msgspec.Struct, frozen=True):
    """The member `error` of a reply."""

    code: int
    message: str
    data: RefusalData


def types_by_method() -> dict[str, tuple[object, object]]:
    """Returns the type of the parameters, and of the result, by method; MCP's are in its specification."""
    from gateway.agent.conversations import (  # noqa: PLC0415 - for `schema` alone
        FlushDoneParams,
        FlushDoneResult,
        FlushParams,
        FlushResult,
        SessionStartParams,
        SessionStartResult,
        SessionUpdatedParams,
    )

    return {
        "initialize": (InitializeParams, Greeting),
        "memory_search": (SearchParams, SearchAnswer),
        "memory_get": (GetParams, ReadAnswer),
        "memory_append": (AppendParams, AppendResult),
        "recall": (RecallParams, RecallResult),
        "session_start": (SessionStartParams, SessionStartResult),
        "session_updated": (SessionUpdatedParams, Any),
        "memory_flush": (FlushParams, FlushResult),
        "memory_flush_done": (FlushDoneParams, FlushDoneResult),
        "sync": (SyncParams, SyncReport | SyncScheduled | SyncDisabled),
        "status": (StatusParams, StatusResult),
        "health": (HealthParams, Health),
        "metrics": (NoParams, MetricsResult),
        "overview": (NoParams, OverviewResult),
        "forget": (ForgetParams, ForgetReport),
        "reload": (NoParams, ReloadResult),
        "shutdown": (NoParams, Stopping),
    }


def all_schemas() -> dict[str, object]:
    """Returns, in JSON Schema (2020-12), `{"methods": {name: {"params", "result"}}, "error", "$defs"}`."""
    methods = types_by_method()
    types = [one for pair in methods.values() for one in pair if one is not Any]
    parts = [part for one in types for part in _members(one)]
    _, definitions = msgspec.json.schema_components(
        [*parts, RpcRefusal], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "methods": {
            name: {"params": _schema(params), "result": _schema(result)}
            for name, (params, result) in methods.items()
        },
        "error": _schema(RpcRefusal),
        "$defs": definitions,
    }


def _members(kind: object) -> tuple[Any, ...]:
    return tuple(getattr(kind, "__args__", (kind,)))


def _schema(kind: object) -> dict[str, Any]:
    """Returns the schema of a type or a union: msgspec takes only unions of structs with tags, which these lack."""
    if kind is Any:
        return {}
    members = [{"$ref": f"#/$defs/{one.__name__}"} for one in _members(kind)]
    return members[0] if len(members) == 1 else {"anyOf": members}
