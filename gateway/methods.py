"""Every method of the pipe, bound to one agent's memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from backends.interface import ReadAnswer, SearchAnswer, SyncProgress, SyncRequest
from gateway.agent.memory import Memory
from gateway.agent.reloading import ReloadResult
from gateway.rpc.registry import Handler, Method, MethodRegistry, NoParams, RequestContext, Session
from gateway.sessions import GREETING, Guest, Terms
from gateway.tools.get import GetParams
from gateway.tools.search import MAX_NAME_CHARS, Key, Name, SearchParams
from gateway.tools.status import Health, HealthParams, MetricsResult, OverviewResult, StatusResult
from gateway.version import PROTOCOL, VERSION


class InitializeParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Ours, then those of MCP, which shares the method."""

    client: Name | dict[str, Any] | None = None
    session_key: Key | None = None
    protocol_version: Name | None = None
    operator: bool = False
    """Somebody who sits at the machine, and whom `scope` does not mean."""
    client_info: dict[str, Any] | None = None
    capabilities: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class SyncParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    force: bool = False
    verify: bool = False
    reason: Name = "manual"
    wait: bool = True


class StatusParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    deep: bool = False


def build_registry(
    memory: Memory,
    end: Callable[[], None],
    reload_settings: Callable[[], Awaitable[ReloadResult]],
) -> MethodRegistry:
    """The methods of one process. `end` makes it end; `reload_settings` is `Reloader.reload`."""

    async def initialize(params: InitializeParams, context: RequestContext) -> dict[str, Any]:
        from gateway.mcp.eras import handshake  # noqa: PLC0415 - see `_later`
        from gateway.sessions import recall_instructions  # noqa: PLC0415

        _introduce(context.session, params)
        for_mcp = handshake(params.protocol_version)
        return for_mcp | {
            "name": "memory-gateway",
            "version": VERSION,
            "protocol": PROTOCOL,
            "agentId": memory.settings.agent_id,
            "instructions": recall_instructions(memory.settings.citations),
            "capabilities": for_mcp["capabilities"]
            | {
                "methods": registry.names(),
                "batch": True,
                "cancel": True,
                "progress": True,
            },
        }

    async def memory_search(params: SearchParams, context: RequestContext) -> SearchAnswer:
        session = context.session
        result = await memory.search(
            params, session.session_key, operator=session.operator, guest=session.guest
        )
        context.stages.update(result.timings_ms)
        return result

    async def memory_get(params: GetParams, context: RequestContext) -> ReadAnswer:
        session = context.session
        return await memory.get(
            params, session.session_key, operator=session.operator, guest=session.guest
        )

    async def status(params: StatusParams, _context: RequestContext) -> StatusResult:
        found = await memory.status()
        if not params.deep:
            return found
        return msgspec.structs.replace(found, health=await memory.deep_health())

    async def metrics(_params: NoParams, _context: RequestContext) -> MetricsResult:
        return await memory.metrics()

    async def health(params: HealthParams, _context: RequestContext) -> Health:
        return await (memory.deep_health() if params.deep else memory.health())

    async def reload(_params: NoParams, _context: RequestContext) -> ReloadResult:
        return await reload_settings()

    async def stop(_params: NoParams, context: RequestContext) -> dict[str, bool]:
        """Ends the process for the client that it was started for, for others their connection."""
        (context.session.leave or end)()
        return {"stopping": True}

    registry = MethodRegistry(
        [
            Method("initialize", InitializeParams, initialize),
            Method("memory_search", SearchParams, memory_search),
            Method("memory_get", GetParams, memory_get),
            Method("sync", SyncParams, _sync_handler(memory), accepts_notification=True),
            Method("status", StatusParams, status),
            Method("health", HealthParams, health),
            Method("metrics", NoParams, metrics),
            Method("reload", NoParams, reload),
            Method("shutdown", NoParams, stop, accepts_notification=True),
            Method(GREETING, Terms, _greet_handler(memory), open_params=True),
        ],
        later=partial(_later, memory),
        observe=memory.counted.answered,
    )
    return registry


def _later(memory: Memory) -> list[Method[Any]]:
    """What a client that only searches does not wait for."""
    from gateway.agent.conversations import session_methods  # noqa: PLC0415
    from gateway.mcp.mcp_methods import mcp_methods  # noqa: PLC0415

    overview = Method("overview", NoParams, _overview_handler(memory))
    return [overview, *session_methods(memory), *mcp_methods(memory)]


def _overview_handler(memory: Memory) -> Handler[NoParams]:
    async def overview(_params: NoParams, context: RequestContext) -> OverviewResult:
        return await memory.overview(operator=context.session.operator)

    return overview


def _greet_handler(memory: Memory) -> Handler[Terms]:
    async def greet(params: Terms, context: RequestContext) -> dict[str, str]:
        context.session.guest = Guest(params, memory.settings)
        return {"version": VERSION}

    return greet


def _sync_handler(memory: Memory) -> Handler[SyncParams]:
    async def sync(params: SyncParams, context: RequestContext) -> object:
        if not params.wait:
            memory.sync_later(params.reason, force=params.force)
            return {"scheduled": True}

        def progress(state: SyncProgress) -> None:
            context.notify(
                "notifications/progress",
                {"requestId": context.request_id, **msgspec.to_builtins(state)},
            )

        report = await memory.sync(
            SyncRequest(reason=params.reason, force=params.force, verify=params.verify),
            progress=progress,
        )
        return report if report is not None else {"disabled": True}

    return sync


def _introduce(session: Session, params: InitializeParams) -> None:
    session.session_key = params.session_key or session.session_key
    session.client = _client_name(params.client or params.client_info) or session.client
    session.protocol = params.protocol_version
    session.operator = params.operator


def _client_name(client: str | dict[str, Any] | None) -> str | None:
    return str(client.get("name", ""))[:MAX_NAME_CHARS] if isinstance(client, dict) else client
