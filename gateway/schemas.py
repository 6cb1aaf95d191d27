"""The parameters and answers of every method of the pipe as JSON Schema (2020-12); MCP's are in its specification."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from backends.interface import ForgetReport, ReadAnswer, SearchAnswer, SyncReport
from config.errors import ErrorKind
from gateway.agent.conversations import (
    FlushDoneParams,
    FlushDoneResult,
    FlushParams,
    FlushResult,
    SessionStartParams,
    SessionStartResult,
    SessionUpdatedParams,
)
from gateway.agent.reloading import ReloadResult
from gateway.methods import InitializeParams, StatusParams, SyncParams
from gateway.rpc.registry import NoParams
from gateway.tools.notes import AppendParams, AppendResult, ForgetParams, GetParams
from gateway.tools.search import RecallParams, RecallResult, SearchParams
from gateway.tools.status import Health, HealthParams, MetricsResult, OverviewResult, StatusResult


class Greeting(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of `initialize`, beside what MCP says there."""

    name: str
    version: str
    protocol: str
    agent_id: str
    instructions: str
    capabilities: dict[str, Any]


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


class RefusalData(msgspec.Struct, frozen=True):
    """`data` of an error: the kind is one of a closed list, and some errors say more."""

    kind: str
    remedy: str | None = None


class RpcRefusal(msgspec.Struct, frozen=True):
    """The member `error` of a reply."""

    code: int
    message: str
    data: RefusalData


METHODS: Final[dict[str, tuple[object, object]]] = {
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
"""The type of the parameters, and of the result, by method."""


def all_schemas() -> dict[str, object]:
    """Returns `{"methods": {name: {"params", "result"}}, "error", "$defs"}`."""
    types = [one for pair in METHODS.values() for one in pair if one is not Any]
    parts = [part for one in types for part in _members(one)]
    _, definitions = msgspec.json.schema_components(
        [*parts, RpcRefusal], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "methods": {
            name: {"params": _schema(params), "result": _schema(result)}
            for name, (params, result) in METHODS.items()
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
