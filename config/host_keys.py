"""The keys that memory reads, divided into those of OpenClaw 2026.9 and those that are ours alone.

A mistake in one of the host's keys is only a warning, and the value is ignored. Keys in our own entry of its
`plugins`, and keys below `memory` that it does not know, are ours, and a mistake there is an error. The table
follows the schema that `openclaw config schema` prints (2026.9.6).

Some of the host's keys ask for memory to be off. `enabled: false` at a place of ours always switches us off.
`memory.search.enabled: false` and a `plugins.slots.memory` that names another plugin switch off OpenClaw's own
memory. They switch us off only as the sidecar that replaces that memory; not as a service, over MCP, as the plugin in
that slot or at the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from config.keys.tree import OWN_ENTRY
from config.runtime.decoding import prepared
from config.settings import Settings
from config.source.located import KeyPath, Located

HOST_RELEASE: Final = "2026.9"
PLUGIN_ID: Final = "memory-gateway"
OWN_ENTRY_PATH: Final[KeyPath] = tuple(OWN_ENTRY.split("."))

SEARCH_PLACES: Final[tuple[KeyPath, ...]] = (
    ("memory", "search"),
    ("agents", "defaults", "memorySearch"),
    ("memorySearch",),
    ("agents", "list", "*", "memorySearch"),
    ("agents", "list", "*", "memory", "search"),
    ("agents", "entries", "*", "memory", "search"),
)


class _HostsExtraPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    pattern: str = ""


_Words = Annotated[str, msgspec.Meta(min_length=1)]
_Count = Annotated[float, msgspec.Meta(gt=0, multiple_of=1)]

SEARCH: Final[Mapping[str, Any]] = {
    "enabled": bool,
    "rememberAcrossConversations": bool,
    "sources": list[Literal["memory", "sessions"]],
    "extraPaths": list[str | _HostsExtraPath],
    "multimodal": Any,
    "experimental.sessionMemory": bool,
    "provider": str,
    "remote.baseUrl": str,
    "remote.apiKey": str,
    "remote.headers": dict[str, str],
    "remote.batch.enabled": bool,
    "fallback": str,
    "model": str,
    "inputType": _Words,
    "queryInputType": _Words,
    "documentInputType": _Words,
    "outputDimensionality": _Count,
    "local.modelPath": str,
    "store.fts": Any,
    "store.vector.enabled": bool,
    "store.vector.extensionPath": str,
    "query.maxResults": _Count,
    "query.minScore": Annotated[float, msgspec.Meta(ge=0, le=1)],
    "cache.enabled": bool,
}
"""Dotted keys below `memory.search`, each with the type of the values that the host certainly accepts."""

_MEMORY: Final = frozenset({"citations"})
COMPACTION_ONLY_OURS: Final = frozenset(
    {"reserveTokensFloor", "maxHistoryShare", "memoryFlush.prompt", "memoryFlush.systemPrompt"}
)
"""Keys of the February release below `agents.defaults.compaction` that today's host refuses."""


def search_place(at: KeyPath) -> KeyPath | None:
    """Returns the part of a path that leads to keys of memory search outside our own entry; else None."""
    for place in SEARCH_PLACES:
        if len(at) >= len(place) and all(p in ("*", a) for p, a in zip(place, at, strict=False)):
            return at[: len(place)]
    return None


def accepts(key: str, value: object) -> bool:
    """Returns whether the host accepts this value for a key below `memory.search`."""
    if key not in SEARCH:
        return False
    try:
        msgspec.convert(value, prepared(SEARCH[key]))
    except (msgspec.ValidationError, UnicodeEncodeError):  # the latter: half of a character
        return False
    return True


def is_own_entry(at: KeyPath) -> bool:
    return at[: len(OWN_ENTRY_PATH)] == OWN_ENTRY_PATH


def tolerates(at: KeyPath) -> bool:
    """Returns whether a mistake at this path is only a warning, because the key is or contains one of the host's."""
    if is_own_entry(at):
        return False
    place = search_place(at)
    if place is not None:
        return _leads_to(SEARCH, at[len(place) :])
    if at[:1] == ("memory",):
        return _leads_to(_MEMORY, at[1:])
    return True


def _leads_to(known: Mapping[str, object] | frozenset[str], below: KeyPath) -> bool:
    """Returns whether the path is a known one, inside a known one, or a parent of one."""
    dotted = ".".join(map(str, below))
    return not below or any(
        dotted == name or dotted.startswith(f"{name}.") or name.startswith(f"{dotted}.")
        for name in known
    )


def plain(node: Located) -> Any:
    """Returns the value without its positions in the file."""
    if isinstance(node.value, dict):
        return {name: plain(member) for name, member in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


_HOSTS_OWN: Final = "memory-core"
"""The plugin that is OpenClaw's memory, whose contract the sidecar keeps."""


class Switch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A key that asks for memory to be off."""

    key: str
    """The key as written in the file, with its value."""
    obeyed: bool
    reason: str


def switches(settings: Settings) -> tuple[Switch, ...]:
    """Returns every key that asks for memory to be off; those that are obeyed come first."""
    found = [one for one in (_enabled(settings), _slot(settings)) if one is not None]
    return tuple(sorted(found, key=lambda one: not one.obeyed))


def is_disabled(settings: Settings) -> bool:
    return any(one.obeyed for one in switches(settings))


def why_disabled(settings: Settings) -> str:
    """Returns the reason; only valid while `is_disabled`."""
    return switches(settings)[0].reason


def _enabled(settings: Settings) -> Switch | None:
    if settings.search.enabled:
        return None
    key = settings.enabled_key or "enabled"
    if not key.endswith("memory.search.enabled"):
        return _obeyed(f"{key} = false", "set it to true to switch it on")
    return _by_host(settings, f"{key} = false")


def _slot(settings: Settings) -> Switch | None:
    if settings.memory_slot in (None, _HOSTS_OWN, PLUGIN_ID):
        return None
    return _by_host(settings, f'plugins.slots.memory = "{settings.memory_slot}"')


def _by_host(settings: Settings, key: str) -> Switch:
    """Returns a switch of OpenClaw's own memory, which applies to us only where we replace that memory."""
    if settings.started_as == "sidecar" and settings.memory_slot != PLUGIN_ID:
        return _obeyed(key, "remove it to switch it on")
    started = {
        "service": "as a service",
        "plugin": "as the plugin in its slot",
        "mcp": "for an MCP client",
        "command": "at the command line",
        "sidecar": "as the plugin in its slot",
    }[settings.started_as]
    reason = f"{key} switches off OpenClaw's own memory. This gateway was started {started} and is not affected."
    return Switch(key=key, obeyed=False, reason=reason)


def _obeyed(key: str, remedy: str) -> Switch:
    return Switch(key=key, obeyed=True, reason=f"Memory is switched off by {key}; {remedy}.")
